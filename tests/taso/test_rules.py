"""Rules from text: what they do to Relax, that they hold, and what is refused."""

from __future__ import annotations

import pytest

from tests.rules.harness import check_law
from tvm_tensat.taso import read_rules, sound_rules
from tvm_tensat.verify import FAILS, HOLDS, Example, apply, constant, refusal, tensor, verify


def read(tmp_path, *lines):
    path = tmp_path / "rules.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_rules(path)


def one(tmp_path, *lines):
    file = read(tmp_path, *lines)
    assert file.refused == ()
    (law,) = file.rules
    return law


# One law for each operator, written from what the operators mean.
SOUND = {
    "sum": ["(ewadd ?x (ewadd ?y ?z))=>(ewadd (ewadd ?x ?y) ?z)"],
    "distributed": ["(ewmul (ewadd ?x ?y) ?z)=>(ewadd (ewmul ?x ?z) (ewmul ?y ?z))"],
    "scaled": ["(smul (matmul 0 ?x ?y) ?w)=>(matmul 0 ?x (smul ?y ?w))"],
    "reassociated": ["(matmul 0 ?x (matmul 0 ?y ?z))=>(matmul 0 (matmul 0 ?x ?y) ?z)"],
    "transposed": ["(transpose (matmul 0 ?x ?y))=>(matmul 0 (transpose ?y) (transpose ?x 1_0 1))"],
    "activated": ["(tanh (matmul 0 ?x ?y))=>(matmul 3 ?x ?y)"],
    "sigmoid": ["(matmul 1 ?x ?y)=>(sigmoid (matmul 0 ?x ?y))"],
    "relu of a convolution": ["(relu (conv2d 2 2 0 0 ?x ?w))=>(conv2d 2 2 0 2 ?x ?w)"],
    "valid": [
        "(conv2d 1 2 1 0 ?x (ewadd ?v ?w))=>(ewadd (conv2d 1 2 1 0 ?x ?v) (conv2d 1 2 1 0 ?x ?w))"
    ],
    "enlarged": ["(conv2d 1 1 0 0 ?x ?w)=>(conv2d 1 1 0 0 ?x (enlarge 3 3 ?w))"],
    "merged": ["(conv2d 1 1 0 0 ?x ?w)=>(conv2d 1 1 0 0 ?x (merge ?w 2))"],
    "identity kernel": ["(relu ?x)=>(conv2d 1 1 0 2 ?x (Iconv 3 3))"],
    "averaging kernel": ["(poolavg ?x 2 2 2 2 1 0)=>(conv2d 2 2 1 0 ?x (Cpool 2 2))"],
    "pools": [
        "(concat 0 4 (poolmax ?x 2 2 2 2 1 0) (poolmax ?y 2 2 2 2 1 0))"
        "=>(poolmax 2 2 2 2 1 (concat 0 4 ?x ?y))"
    ],
    "ones": ["(ewmul ?x Iewmul)=>?x"],
    "concat3": ["(relu (concat3 0 2 ?x ?y ?z))=>(concat3 0 2 (relu ?x) (relu ?y) (relu ?z))"],
    "split": ["(split_1 (split 0 (concat 0 2 ?x ?y)))=>?y"],
    "part": ["(relu (split_0 (split 1 ?x)))=>(split_0 (split 1 (relu ?x)))"],
    "reshape": ["(reshape (relu ?x) 2_2)=>(relu (reshape ?x 2_2))"],
    "products sharing an operand": [
        "(matmul 0 ?x ?a)=>(split_0 (split 1 (matmul 0 ?x (concat 1 2 ?a ?b))))",
        "(matmul 0 ?x ?b)=>(split_1 (split 1 (matmul 0 ?x (concat 1 2 ?a ?b))))",
    ],
    "convolutions of one input": [
        "(conv2d 1 1 0 2 ?x ?a)=>(split_0 (split 1 (conv2d 1 1 0 2 ?x (concat 0 4 ?a ?b))))",
        "(conv2d 1 1 0 2 ?x ?b)=>(split_1 (split 1 (conv2d 1 1 0 2 ?x (concat 0 4 ?a ?b))))",
    ],
    "convolutions of unequal kernels": [
        "(conv2d 1 1 0 0 ?x ?a)"
        "=>(split_0 (split 1 (conv2d 1 1 0 0 ?x (concat 0 4 (enlarge ?a ?b) ?b))))",
        "(conv2d 1 1 0 0 ?x ?b)"
        "=>(split_1 (split 1 (conv2d 1 1 0 0 ?x (concat 0 4 (enlarge ?a ?b) ?b))))",
    ],
}


@pytest.mark.parametrize("name", SOUND)
def test_a_law_of_each_operator_is_read_and_holds(tmp_path, name):
    verdict = verify(one(tmp_path, *SOUND[name]), examples=6, compiled=2, seconds=20.0)
    assert verdict.status == HOLDS, str(verdict)
    assert verdict.compiled > 0


WRONG = {
    # Padding does not count in TASO's average, and it does in a convolution.
    "padding": ["(poolavg ?x 3 3 1 1 0 0)=>(conv2d 1 1 0 0 ?x (Cpool 3 3))"],
    "order": ["(matmul 0 ?x (matmul 0 ?y ?z))=>(matmul 0 ?x (matmul 0 ?z ?y))"],
    "part": ["(split_1 (split 0 (concat 0 2 ?x ?y)))=>?x"],
    "activation": [
        "(ewadd (conv2d 1 1 0 2 ?x ?v) (conv2d 1 1 0 2 ?x ?w))=>(conv2d 1 1 0 2 ?x (ewadd ?v ?w))"
    ],
    # Two groups of as many outputs each, which kernels of other sizes do not give.
    "groups": [
        "(concat 1 4 (conv2d 1 1 0 0 ?x ?a) (conv2d 1 1 0 0 ?y ?b))"
        "=>(conv2d 1 1 0 0 (concat 1 4 ?x ?y) (concat 0 4 ?a ?b))"
    ],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_law_is_caught(tmp_path, name):
    verdict = verify(one(tmp_path, *WRONG[name]), examples=400, compiled=1, seconds=60.0)
    assert verdict.status == FAILS, str(verdict)


def test_same_padding_is_what_keeps_the_extents(tmp_path):
    law = one(tmp_path, "(conv2d 1 1 0 0 ?x ?w)=>(conv2d 1 1 0 0 ?x (enlarge 3 5 ?w))")
    x, w = tensor(1, 2, 6, 6), tensor(4, 2, 1, 3)
    made = apply(Example(law, (x, w), ({"padding": (0, 1, 0, 1)},))).targets[0]
    assert (made.padding, made.operands[1].shape) == ((1, 2, 1, 2), (4, 2, 3, 5))
    assert refusal(Example(law, (x, w), ({"padding": (1, 1, 1, 1)},))) == "another padding"
    assert refusal(Example(law, (x, w), ())) == "another padding"


def test_an_averaging_kernel_is_known_by_its_numbers(tmp_path):
    law = one(tmp_path, "(conv2d 1 1 1 2 ?x (Cpool 3 3))=>(poolavg ?x 3 3 1 1 1 2)")
    x, attrs = tensor(1, 2, 5, 9), ({}, {"groups": 2})
    check_law(Example(law, (x, constant(1 / 9, 2, 1, 3, 3)), attrs))
    assert refusal(Example(law, (x, constant(1 / 8, 2, 1, 3, 3)), attrs)) == "another constant"
    assert refusal(Example(law, (x, constant(1 / 9, 2, 1, 1, 9)), attrs)) == "another constant"


def test_strided_same_padding_rounds_up_on_both_sides(tmp_path):
    """Of 6 pixels at stride 2, a window of 3 sees 3: one pixel is lacking, TASO adds it twice."""
    law = one(tmp_path, "(relu (conv2d 2 2 0 0 ?x ?w))=>(conv2d 2 2 0 2 ?x ?w)")
    operands = tensor(1, 2, 6, 6), tensor(4, 2, 3, 3)
    made = apply(Example(law, operands, ({}, {"padding": (1, 1, 1, 1)}))).targets[0]
    assert made.shape == (1, 4, 3, 3)


def test_what_taso_takes_for_granted_is_asked_for(tmp_path):
    added = one(tmp_path, "(ewadd ?x ?y)=>(ewadd ?y ?x)")
    reason = "elementwise operands of different types"
    assert refusal(Example(added, (tensor(2, 3), tensor(3)))) == reason
    product = one(tmp_path, "(matmul 0 ?x ?y)=>(matmul 0 ?x ?y)")
    reason = "a product of vectors, or of different batches"
    assert refusal(Example(product, (tensor(2, 3), tensor(3)))) == reason
    joined = one(tmp_path, "(concat 0 2 ?x ?y)=>(concat 0 2 ?x ?y)")
    assert refusal(Example(joined, (tensor(1, 2, 3), tensor(1, 2, 3)))) == "not of rank 2"
    ones = one(tmp_path, "(ewmul ?x Iewmul)=>?x")
    assert refusal(Example(ones, (tensor(2), constant(2.0, 2)))) == "another constant"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("?x=>(transpose (transpose ?x))", "the left side, ?x, would match everything"),
        ("(noop ?x ?y)=>?x", "operator noop has no meaning in Relax here"),
        (
            "(matmul ?x ?y)=>?x",
            "matmul takes an activation mode, a tensor, a tensor, not 2 arguments",
        ),
        ("(matmul 7 ?x ?y)=>?x", "matmul: 7 is not an activation mode"),
        ("(conv2d 1 1 3 0 ?x ?y)=>?x", "conv2d: 3 is not a padding mode"),
        ("(conv2d 0 1 0 0 ?x ?y)=>?x", "conv2d: 0 is not a number from 1"),
        ("(concat 2 2 ?x ?y)=>?x", "concat: there is no axis 2 in 2 dimensions"),
        ("(matmul 0 ?x Imatmul)=>?x", "matmul: Imatmul is not a tensor"),
        ("(split_0 ?x)=>?x", "split_0: ?x is not a split"),
        ("(split 0 ?x)=>?x", "a split is no tensor"),
        ("(relu (Cpool 3 3))=>(Cpool 3 3)", "Cpool has a meaning only as the kernel of a conv2d"),
        (
            "(conv2d 1 1 0 0 ?x (Iconv 3 3))=>?x",
            "Iconv on the left side: whether a constant is an identity kernel cannot be asked",
        ),
        ("(relu ?x)=>(ewadd ?x ?y)", "?y stands on the right side only"),
    ],
)
def test_a_line_without_a_meaning_is_refused_and_the_others_go_on(tmp_path, line, reason):
    file = read(tmp_path, "(relu (relu ?x))=>(relu ?x)", line)
    assert len(file.rules) == 1
    assert file.refused == ((2, reason),)


def test_rules_are_named_by_file_and_line(tmp_path):
    law = one(tmp_path, "", *SOUND["products sharing an operand"])
    assert (law.name, law.kind, law.keeps) == ("rules.txt:2", "multi", "real")
    assert law.origin == f"{tmp_path / 'rules.txt'}:2"
    assert law.law == "; ".join(SOUND["products sharing an operand"])


def test_wrong_rules_are_left_out_and_the_reason_is_kept(tmp_path):
    file = sound_rules(read(tmp_path, *WRONG["part"], *SOUND["split"]))
    assert [law.name for law in file.rules] == ["rules.txt:2"]
    ((line, reason),) = file.refused
    assert line == 1 and reason.startswith("wrong: the sides differ over the rational numbers")
    assert file.lines()[0] == f"rules of {file.path}: 1 used, 1 refused"
