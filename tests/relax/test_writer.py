"""Where chosen e-nodes go, and what survives of the input."""

from __future__ import annotations

import time

import pytest
import tvm
from tvm import relax
from tvm.script import relax as R

from tests.relax.support import bindings, by_name, read
from tvm_tensat.relax.writer import rebuild, write_segment


def _names(written):
    return [str(b.var.name) for b in written]


def _well_formed(plan, segment, written):
    function = rebuild(plan, {segment: written})
    relax.analysis.well_formed(function)
    return function


class Rewriting:
    """A function of one segment, whose classes are addressed by the names of their Vars."""

    def __init__(self, function):
        self.plan, ((self.read, self.nodes),) = read(function)
        self.language = self.read.language
        self.class_of = {}
        for number, indices in self.read.bound.items():
            for index in indices:
                self.class_of[str(self.read.segment.bindings[index].var.name)] = number
        for parameter in function.params:
            operator, ty = self.language.leaf(parameter)
            self.class_of[str(parameter.name)] = self.nodes.add(operator, (), ty)

    def make(self, name, attrs, *children):
        """Add an e-node by name; return its class."""
        numbers = [self.class_of.get(child, child) for child in children]
        types = tuple(self.nodes.types[n] for n in numbers)
        operator, ty = self.language.make(name, attrs, types)
        return self.nodes.add(operator, numbers, ty)

    def write(self, **replaced):
        """Write with the e-nodes of other classes chosen for the named ones."""
        choice = self.nodes.choice
        merged = {self.class_of[name]: new for name, new in replaced.items()}
        for old, new in merged.items():
            choice[old] = choice[new]
        written = write_segment(self.read, choice)
        return _well_formed(self.plan, self.read.segment, written), written


@R.function
def chain(x: R.Tensor((4, 4), "float32"), y: R.Tensor((4, 4), "float32")):
    with R.dataflow():
        a = R.exp(x)
        b = R.matmul(a, y)
        c = R.sqrt(y)
        d = R.add(b, c)
        e = R.nn.relu(d)
        R.output(e)
    return e


def test_a_new_binding_comes_just_before_its_first_consumer():
    r = Rewriting(chain)
    doubled = r.make("relax.multiply", {}, "y", "y")
    new = r.make("relax.subtract", {}, "b", doubled)
    _, written = r.write(d=new)
    assert _names(written) == ["a", "b", "multiply", "d", "e"]
    assert [w.value.op.name for w in written][2:4] == ["relax.multiply", "relax.subtract"]


def test_what_does_not_change_is_the_same_object():
    r = Rewriting(chain)
    new = r.make("relax.subtract", {}, "b", "c")
    _, written = r.write(d=new)
    old = by_name(chain)
    assert _names(written) == ["a", "b", "c", "d", "e"]
    same = {name: w.same_as(old[name]) for name, w in zip("abcde", written, strict=True)}
    assert same == {"a": True, "b": True, "c": True, "d": False, "e": False}
    assert written[4].var.same_as(old["e"].var)  # the output Var
    assert written[4].value.attrs == old["e"].value.attrs


def test_an_output_that_becomes_a_parameter_or_constant_is_bound_to_it():
    r = Rewriting(chain)
    function, written = r.write(e=r.class_of["y"])
    assert _names(written) == ["e"]
    assert written[0].value.same_as(chain.params[1])

    r = Rewriting(chain)
    zero = r.make("scalar", {"value": 0.0, "dtype": "float32"})
    zeros = r.make("relax.broadcast_to", {"shape": (4, 4)}, zero)
    function, written = r.write(e=zeros)
    assert [w.value.op.name for w in written] == ["relax.broadcast_to"]
    assert written[0].var.same_as(bindings(chain)[-1].var)
    tvm.ir.assert_structural_equal(function.ret_ty, chain.ret_ty)


def test_two_outputs_that_become_one_are_both_bound():
    @R.function
    def two(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.sqrt(a)
            c = R.negative(x)
            R.output(b, c)
        return (b, c)

    r = Rewriting(two)
    choice = r.nodes.choice
    merge = {r.class_of["c"]: r.class_of["b"]}
    written = write_segment(r.read, choice, lambda number: merge.get(number, number))
    _well_formed(r.plan, r.read.segment, written)
    assert _names(written) == ["a", "b", "c"]
    assert written[2].value.same_as(written[1].var)


def test_find_is_applied_to_what_was_read_and_to_the_choice():
    r = Rewriting(chain)
    merge = {r.class_of["c"]: r.class_of["y"]}  # as if sqrt(y) = y had been found
    written = write_segment(r.read, r.nodes.choice, lambda n: merge.get(n, n))
    _well_formed(r.plan, r.read.segment, written)
    assert _names(written) == ["a", "b", "d", "e"]
    old = by_name(chain)["d"]
    assert written[2].var.same_as(old.var)
    assert written[2].value.args[1].same_as(chain.params[1])
    assert written[2].span == old.span


def test_names_and_spans_survive_where_the_class_survives():
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()

    def span(line):
        return tvm.ir.Span(tvm.ir.SourceName("model"), line, line, 0, 9)

    def bound(name, value, line, kind=relax.DataflowVar):
        value = builder.normalize(value)
        return relax.VarBinding(kind(name, value.ty), value, span(line))

    first = bound("first", relax.op.exp(x), 1)
    second = bound("second", relax.op.sqrt(first.var), 2)
    third = bound("third", relax.op.negative(second.var), 3, relax.Var)
    body = relax.SeqExpr([relax.DataflowBlock([first, second, third])], third.var)
    function = relax.Function([x], builder.normalize(body), x.ty)

    r = Rewriting(function)
    new = r.make("relax.abs", {}, "x")
    _, written = r.write(second=new)
    assert _names(written) == ["second", "third"]
    assert [w.span.line for w in written] == [2, 3]
    assert written[0].value.op.name == "relax.abs"


def test_a_new_tuple_is_written_inside_its_call_and_bound_for_its_fields():
    r = Rewriting(chain)
    pair = r.make("tuple", {}, "x", "y")
    wide = r.make("relax.concat", {"axis": 1}, pair)
    halves = r.make("relax.split", {"indices_or_sections": 2, "axis": 1}, wide)
    second = r.make("get", {"index": 1}, halves)
    _, written = r.write(d=second)
    assert _names(written) == ["concat", "split", "d", "e"]
    assert isinstance(written[0].value.args[0], relax.Tuple)

    r = Rewriting(chain)
    pair = r.make("tuple", {}, "x", "y")
    _, written = r.write(d=r.make("get", {"index": 1}, pair))
    assert _names(written) == ["tuple", "d", "e"]


def test_a_cyclic_choice_and_a_missing_class_are_errors():
    r = Rewriting(chain)
    choice = r.nodes.choice
    operator, (left, _) = choice[r.class_of["d"]]
    choice[r.class_of["b"]] = (operator, (r.class_of["d"], left))
    with pytest.raises(ValueError, match="cyclic"):
        write_segment(r.read, choice)
    choice = r.nodes.choice
    del choice[r.class_of["a"]]
    with pytest.raises(ValueError, match="no e-node for class"):
        write_segment(r.read, choice)


def test_rebuilding_nothing_returns_the_function_itself():
    plan, _ = read(chain)
    assert rebuild(plan, {}).same_as(chain)


def test_ten_thousand_bindings_neither_recurse_nor_take_quadratic_time():
    def seconds(length):
        x = relax.Var("x", relax.TensorType((4,), "float32"))
        builder = relax.BlockBuilder()
        with builder.function("main", [x]):
            with builder.dataflow():
                at = before = x
                for _ in range(length):
                    at, before = builder.emit(relax.op.add(at, before)), at
                output = builder.emit_output(relax.op.exp(at))
            builder.emit_func_output(output)
        function = builder.finalize()["main"]
        start = time.perf_counter()
        plan, ((segment, nodes),) = read(function)
        written = write_segment(segment, nodes.choice)
        rebuild(plan, {segment.segment: written})
        assert len(written) == length + 1
        return time.perf_counter() - start

    short = min(seconds(1000) for _ in range(2))
    assert seconds(10_000) < 40 * short
