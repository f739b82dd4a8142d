"""The kernels that TVM will make of a chosen graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_tensat.egraph.language import Operator
from tvm_tensat.fusion.lowering import Applied, Lowering, Piece, Pieces, count_fields
from tvm_tensat.fusion.rules import OPAQUE, Step, fuse
from tvm_tensat.relax.language import RelaxLanguage


@dataclass(frozen=True)
class Emitted:
    """One operator of a graph in the order of bindings.

    Parameters
    ----------
    operator : int
    operands : tuple of int
        Positions of what makes them, in the same order.
    types : tuple of int
        Of the operands.
    is_weight : bool
        Whether it is known at compile time, and so no part of any kernel.
    is_bound : bool
        Whether it gets a binding of its own; a leaf, and a tuple inside a call, does not.
    outputs : int
        Variables of it that are used outside; all but the first become copies of it.
    """

    operator: int
    operands: tuple[int, ...]
    types: tuple[int, ...]
    is_weight: bool
    is_bound: bool
    outputs: int

    def is_inline_tuple(self, language: RelaxLanguage) -> bool:
        """Whether it is a tuple that is written inside the calls that read it."""
        is_tuple = language.operator(self.operator).name == "tuple"
        return is_tuple and not self.is_bound and not self.is_weight


@dataclass(frozen=True)
class FusedKernel:
    """One or more operators that TVM computes together.

    Parameters
    ----------
    members : tuple of int
        Positions of the operators, in the order of bindings.
    names : tuple of tuple of str
        What its steps are called in TVM, for each kernel that is launched; more than one where an
        operator is lowered to several kernels.
    """

    members: tuple[int, ...]
    names: tuple[tuple[str, ...], ...]


def kernels_of(
    graph: Sequence[Emitted], language: RelaxLanguage, lowering: Lowering
) -> list[FusedKernel]:
    """Return the kernels of a graph, without those that cost nothing.

    Operators whose steps are spread over several kernels join these kernels into one here, since
    they can only be timed together. Lone views and fields of tuples are left out.
    """
    lowered = _Lowered(graph, language, lowering)
    groups = fuse(lowered.steps)
    together = _Joined(len(graph))
    first: dict[int, int] = {}
    names: dict[int, list[str]] = {}
    for step, (owner, group) in enumerate(zip(lowered.owner, groups, strict=True)):
        names.setdefault(group, []).append(lowered.pieces[step].name)
        together.join(owner, first.setdefault(group, owner))
    free = {group for group, found in names.items() if lowered.is_free(group, found)}
    members: dict[int, list[int]] = {}
    launched: dict[int, list[tuple[str, ...]]] = {}
    for owner in dict.fromkeys(lowered.owner):
        members.setdefault(together.find(owner), []).append(owner)
    for group, steps in names.items():
        if group not in free:
            launched.setdefault(together.find(first[group]), []).append(tuple(steps))
    return [
        FusedKernel(tuple(sorted(members[root])), tuple(found)) for root, found in launched.items()
    ]


class _Lowered:
    """The steps of a graph, and which operator each belongs to."""

    def __init__(
        self, graph: Sequence[Emitted], language: RelaxLanguage, lowering: Lowering
    ) -> None:
        self.steps: list[Step] = []
        self.pieces: list[Piece] = []
        self.owner: list[int] = []
        self._language = language
        self._operators = [language.operator(node.operator) for node in graph]
        operators = self._operators
        # For each operator the steps that make its result, one for each field of a tuple.
        self._made: list[tuple[int, ...]] = [()] * len(graph)
        wanted = [
            number
            for number, node in enumerate(graph)
            if node.is_bound and not node.is_weight and not _is_source(operators[number])
        ]
        applied = [
            Applied(
                graph[number].operator,
                graph[number].types,
                tuple(
                    graph[child].operator if operators[child].name == "scalar" else None
                    for child in graph[number].operands
                ),
            )
            for number in wanted
        ]
        found = dict(zip(wanted, lowering.lower(applied), strict=True))
        for number, node in enumerate(graph):
            if number in found:
                self._add(number, node, found[number])
            elif node.is_inline_tuple(language):
                self._made[number] = self._read_by(node)

    def _read_by(self, node: Emitted) -> tuple[int, ...]:
        """Return the steps of the operands, one for each field; -1 where none makes it."""
        read: list[int] = []
        for child, type_number in zip(node.operands, node.types, strict=True):
            if self._operators[child].name == "scalar":
                continue
            count = count_fields(self._language.info(type_number))
            made = self._made[child] or (-1,)
            read += made if len(made) == count else made[:1] * count
        return tuple(read)

    def _add(self, number: int, node: Emitted, pieces: Pieces) -> None:
        arguments = self._read_by(node)
        start = len(self.steps)
        for piece in pieces:
            read = [arguments[k] for k in piece.arguments]
            read += [start + k for k in piece.pieces]
            self._push(number, piece, tuple(dict.fromkeys(s for s in read if s >= 0)))
        result = len(self.steps) - 1 if pieces else arguments[0] if arguments else -1
        if node.outputs and pieces:
            last = self.steps[result]
            self.steps[result] = Step(last.pattern, last.operands, is_output=True)
        for _ in range(node.outputs - bool(pieces)):
            self._push(number, Piece("alias", OPAQUE, (), ()), (result,) if result >= 0 else ())
        self._made[number] = (result,)

    def _push(self, owner: int, piece: Piece, operands: tuple[int, ...]) -> None:
        self.steps.append(Step(piece.pattern, operands))
        self.pieces.append(piece)
        self.owner.append(owner)

    def is_free(self, last: int, names: Sequence[str]) -> bool:
        """Whether a kernel of these steps is none at run time.

        A view is one unless the block returns it, or something else is computed with it; a field of
        a tuple always is.
        """
        others = len(names) - names.count("get")
        if others == 0 or names in (["tuple"], ["alias"]):
            return True
        last_piece = self.pieces[last]
        return others == 1 and last_piece.is_view and not self.steps[last].is_output


class _Joined:
    """A union-find over operators."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def find(self, number: int) -> int:
        while self._parent[number] != number:
            self._parent[number] = self._parent[self._parent[number]]
            number = self._parent[number]
        return number

    def join(self, one: int, other: int) -> None:
        one, other = self.find(one), self.find(other)
        self._parent[max(one, other)] = min(one, other)


def _is_source(operator: Operator) -> bool:
    return operator.name in ("leaf", "weight", "scalar")
