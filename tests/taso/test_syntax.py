"""The text format: what is read, and where a mistake is."""

from __future__ import annotations

import pytest

from tvm_tensat.taso.syntax import (
    Apply,
    RuleFileError,
    Variable,
    grouped,
    read_equations,
    variables,
)


def write(tmp_path, text):
    path = tmp_path / "rules.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_equation_is_two_expressions(tmp_path):
    (equation,) = read_equations(write(tmp_path, "# a comment\n\n (transpose ?x 1_0 1) => ?x \n"))
    assert equation.line == 3
    assert equation.left == Apply("transpose", (Variable("x"), "1_0", 1), column=2)
    assert equation.right == Variable("x")
    assert str(equation.left) == "(transpose ?x 1_0 1)"


def test_variables_come_in_order_of_first_occurrence(tmp_path):
    (equation,) = read_equations(write(tmp_path, "(ewadd (ewmul ?b ?a) (ewmul ?a ?c))=>?a"))
    assert variables(equation.left) == ["b", "a", "c"]


def test_a_line_that_lacks_a_variable_goes_with_the_next(tmp_path):
    lines = [
        "(relu (relu ?x))=>(relu ?x)",
        "(matmul 0 ?x ?a)=>(split_0 (split 1 (matmul 0 ?x (concat 1 2 ?a ?b))))",
        "(matmul 0 ?x ?b)=>(split_1 (split 1 (matmul 0 ?x (concat 1 2 ?a ?b))))",
        "(ewadd ?x ?y)=>(ewadd ?y ?x)",
    ]
    groups = grouped(read_equations(write(tmp_path, "\n".join(lines))))
    assert [[e.line for e in group] for group in groups] == [[1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("line", "column", "reason"),
    [
        ("(relu ?x)", 10, "expected '=>', found the end of the line"),
        ("(relu ?x=>?x", 9, "expected ')', found =>"),
        ("(relu ?x))=>?x", 10, "expected '=>', found )"),
        ("(relu ?x)=>?x ?y", 15, "expected the end of the line, found y"),
        ("(?x)=>?x", 2, "expected an operator, found x"),
        ("(relu $x)=>?x", 7, "unexpected '$'"),
        ("=>?x", 1, "expected an expression, found =>"),
        ("(relu ?x)=>", 12, "expected an expression, found the end of the line"),
    ],
)
def test_a_mistake_has_a_line_and_a_column(tmp_path, line, column, reason):
    path = write(tmp_path, f"(relu (relu ?x))=>(relu ?x)\n{line}\n")
    with pytest.raises(RuleFileError) as error:
        read_equations(path)
    assert str(error.value) == f"{path}:2:{column}: {reason}"


def test_a_file_that_is_absent_or_no_text(tmp_path):
    with pytest.raises(RuleFileError, match="cannot be read"):
        read_equations(tmp_path / "absent.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RuleFileError, match="cannot be read"):
        read_equations(tmp_path / "binary")
