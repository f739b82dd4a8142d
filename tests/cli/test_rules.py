"""``tvmc rules``: what is listed, what verification prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tests.verify.wrong_rules as wrong
from tvm_tensat.rules import all_rules

WRONG_FILE = Path(wrong.__file__)

RIGHT = '''
from tvm_tensat.egraph.rule import EXACT, rule
from tvm_tensat.rules.operators import relu


@rule(keeps=EXACT)
def relu_twice(x):
    """A second relu changes nothing."""
    inner = relu(x)
    yield relu(inner)
    yield inner
'''


def test_every_rule_is_listed_with_its_law_and_source(tvmc):
    done = tvmc("rules", "list", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert [each["name"] for each in listed] == [rule.name for rule in all_rules()]
    one = next(each for each in listed if each["name"] == "quotient_by_root")
    assert one["law"] == ("A quotient by a square root is a product with the reciprocal root.")
    assert (one["keeps"], one["kind"]) == ("real", "single")
    assert one["dtypes"] == ["bfloat16", "float32", "float64"]
    path, line = one["source"].rsplit(":", 1)
    text = Path(path).read_text(encoding="utf-8").splitlines()
    assert "def quotient_by_root(x, y):" in text[int(line) - 1 : int(line) + 1]


def test_a_list_is_text_filtered_by_name_and_numerics(tvmc):
    done = tvmc("rules", "list", "relu_of", "--numerics", "exact")
    name, law, rest = done.stdout.splitlines()
    assert (name, law.strip()) == ("relu_of_relu", "A second relu changes nothing.")
    assert rest.strip().startswith("exact; every dtype; ")
    exact = json.loads(tvmc("rules", "list", "--numerics", "exact", "--json").stdout)
    assert [each["name"] for each in exact] == [rule.name for rule in all_rules("exact")]


def test_a_name_that_nothing_has(fails):
    assert "no rule has 'nonesuch' in its name" in fails("rules", "list", "nonesuch")
    assert "nonesuch: no such rule or file" in fails("rules", "verify", "nonesuch")


def test_a_file_of_right_rules_ends_well(tvmc, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(RIGHT, encoding="utf-8")
    done = tvmc("rules", "verify", path, "relu_of_relu", "--examples", 10)
    assert done.returncode == 0, done.stderr
    first, second, last = done.stdout.splitlines()
    assert first.startswith("relu_twice: holds on 10 examples (")
    assert second.startswith("relu_of_relu: holds on 10 examples (")
    assert last == "2 rules: 2 holds, 0 fails, 0 not exercised"


def test_a_file_with_wrong_rules_ends_with_4_and_counterexamples(tvmc):
    done = tvmc("rules", "verify", WRONG_FILE, "--examples", 20, "--time-limit", 1, "--json")
    assert done.returncode == 4
    verdicts = {each["rule"]: each for each in json.loads(done.stdout)}
    assert verdicts["right"]["status"] == "holds"
    assert verdicts["never_met"]["status"] == "not exercised"
    caught = verdicts["wrong_split_point"]
    assert caught["status"] == "fails"
    assert caught["origin"].startswith(f"{WRONG_FILE}:")
    assert "@I.ir_module" in caught["counterexample"]
    (line,) = done.stderr.splitlines()
    assert line.startswith("tvmc: error: 16 rules: ") and "wrong_axis" in line


def test_rules_in_text_are_verified_and_lines_without_a_meaning_named(tvmc, tmp_path):
    path = tmp_path / "rules.txt"
    path.write_text("(relu (relu ?x))=>(relu ?x)\n(noop ?x ?y)=>?x\n", encoding="utf-8")
    done = tvmc("rules", "verify", path, "--examples", 5)
    assert done.returncode == 4
    first, second = done.stdout.splitlines()
    assert first.startswith("rules.txt:1: holds on 5 examples")
    assert second == f"{path}:2: operator noop has no meaning in Relax here"
    assert "1 rules: 1 holds, 0 fails, 0 not exercised; 1 lines are no rules" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rules.txt", "(relu ?x)=>\n", "rules.txt:1:12: expected an expression"),
        ("broken.py", "import nonesuch\n", "broken.py: ModuleNotFoundError: No module named"),
        ("empty.py", "x = 1\n", "empty.py: no rule at its top level"),
    ],
)
def test_a_file_that_is_no_rules(fails, tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert message in fails("rules", "verify", path)


def test_a_rule_file_for_the_pass_that_does_not_parse(fails, tmp_path):
    path = tmp_path / "rules.txt"
    path.write_text("(relu ?x\n", encoding="utf-8")
    line = fails("compile", "zoo:nasrnn", "--target", "llvm", "--tensat", "--tensat-rules", path)
    assert f"--tensat-rules {path}:1:9: expected ')', found the end of the line" in line
