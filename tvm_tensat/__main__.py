"""``python -m tvm_tensat``: the same as ``tvmc``."""

import sys

from tvm_tensat.cli.main import main

sys.exit(main())
