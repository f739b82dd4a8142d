"""Rules in the text format of TENSAT, whose operators are TASO's, as rules over Relax.

`read_rules`
    Read a file; `RuleFile` holds the rules, and the lines that are none with the reasons.
`sound_rules`
    Those of its rules on which verification found nothing wrong.
"""

from __future__ import annotations

from tvm_tensat.taso.rules import RuleFile, read_rules, sound_rules
from tvm_tensat.taso.syntax import RuleFileError

__all__ = ["RuleFile", "RuleFileError", "read_rules", "sound_rules"]
