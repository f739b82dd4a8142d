"""Which operators TVM computes in one kernel: the rules of FuseOps, without TVM.

TVM fuses after lowering each operator to one or more *steps*. A step has a pattern, which says how
its result's elements depend on its operands' elements. FuseOps (apache-tvm 0.27,
``src/relax/transform/fuse_ops.cc`` and ``src/relax/analysis/graph_partitioner.cc``) looks at each
step in the order of bindings and at the step where all its uses meet again, its immediate
post-dominator; it merges the step, that one and all between when their patterns allow:

- a product, convolution, pooling or norm (`OUT_FUSIBLE`) with elementwise work behind it;
- elementwise and broadcast work with elementwise, broadcast, injective or reducing work behind it,
  which may be in the kernel of an `OUT_FUSIBLE` step already;
- injective work (a transpose, a concat) with no more than injective work behind it, in a second
  phase.

A kernel holds at most one `OUT_FUSIBLE` or `REDUCTION` step. What the block returns may end a
kernel, but nothing may be fused behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, OUT_FUSIBLE, OPAQUE = 0, 1, 2, 3, 4, 8
"""TVM's `OpPatternKind`, ordered by how hard a step is to fuse."""

MOST_STEPS = 256
"""FuseOps' own limit for one kernel (``relax.FuseOps.max_depth``)."""


@dataclass(frozen=True)
class Step:
    """One lowered operator.

    Parameters
    ----------
    pattern : int
        One of the constants above.
    operands : tuple of int
        Positions of the steps whose results it reads; parameters and constants are left out.
    is_output : bool
        Whether its result is used outside the block.
    """

    pattern: int
    operands: tuple[int, ...]
    is_output: bool = False


def fuse(steps: Sequence[Step]) -> list[int]:
    """Return for each step the position of the last step of its kernel.

    Parameters
    ----------
    steps : sequence of Step
        In the order of bindings, operands before their users.
    """
    return _Partition(steps).run()


class _Partition:
    """The groups so far, as a union-find whose roots carry a group's pattern."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.users: list[list[int]] = [[] for _ in steps]
        for number, step in enumerate(steps):
            for operand in step.operands:
                self.users[operand].append(number)
        self.meeting, self.between = self._post_dominators()
        self.group = list(range(len(steps)))
        self.own_pattern = [step.pattern for step in steps]  # of the group a step is the name of
        self.anchored = [step.pattern == OUT_FUSIBLE for step in steps]
        self.size = [1] * len(steps)

    def run(self) -> list[int]:
        for phase in (0, 1):
            for number in range(len(self.steps)):
                self._try(number, phase)
        return [self._root(number) for number in range(len(self.steps))]

    def _post_dominators(self) -> tuple[list[int], list[int]]:
        """Return where each step's uses meet, -1 for nowhere, and the largest pattern till there.

        One sweep backwards: the meeting point is the least common ancestor of the users in the tree
        that their own meeting points make.
        """
        count = len(self.steps)
        meeting, between, depth = [-1] * count, [OPAQUE] * count, [1] * count
        for number in range(count - 1, -1, -1):
            users = self.users[number]
            if self.steps[number].is_output or not users:
                continue
            largest = max(self.steps[user].pattern for user in users)
            common = users[0]
            for user in users[1:]:
                left, right = common, user
                while left != right and left >= 0 and right >= 0:
                    move_left, move_right = depth[left] >= depth[right], depth[right] >= depth[left]
                    if move_left:
                        largest, left = max(largest, between[left]), meeting[left]
                    if move_right:
                        largest, right = max(largest, between[right]), meeting[right]
                common = left if left == right else -1
                if common < 0:
                    break
            meeting[number], between[number] = common, largest
            depth[number] = depth[common] + 1 if common >= 0 else 1
        return meeting, between

    def _root(self, number: int) -> int:
        while self.group[number] != number:
            self.group[number] = self.group[self.group[number]]
            number = self.group[number]
        return number

    def _try(self, number: int, phase: int) -> None:
        """Fuse a step up to where its uses meet, if the rules allow."""
        end, pattern = self.meeting[number], self.own_pattern[number]
        if end < 0 or self._root(number) == self._root(end):
            return
        largest = self.between[number]
        if pattern == OUT_FUSIBLE:
            if phase != 0 or largest != ELEMENTWISE:
                return
            inner = last = BROADCAST
        elif pattern <= BROADCAST:
            if largest > REDUCTION:
                return
            inner, last = INJECTIVE, OUT_FUSIBLE
        elif pattern == INJECTIVE:
            if phase != 1:
                return
            inner = last = INJECTIVE
        else:
            return
        path = self._path(number, end)
        allowed = all(
            self.own_pattern[self._root(step)] <= (last if step == end else inner)
            for step in path
            if step != number
        )
        if allowed and self._size_of(path, end) <= MOST_STEPS:
            for step in path:
                self._merge(step, end)

    def _path(self, start: int, end: int) -> list[int]:
        """Return all steps from `start` to `end`, both included."""
        found, waiting = {start}, [start]
        while waiting:
            step = waiting.pop()
            if step == end:
                continue
            for user in self.users[step]:
                if user not in found:
                    found.add(user)
                    waiting.append(user)
        return sorted(found)

    def _size_of(self, path: Sequence[int], end: int) -> int:
        # As TVM counts: steps that the last one's kernel has already may count again.
        return self.size[self._root(end)] + sum(self.size[step] for step in path if step != end)

    def _merge(self, step: int, end: int) -> None:
        child, parent = self._root(step), self._root(end)
        if child == parent:
            return
        self.group[child] = parent
        self.size[parent] += self.size[child]
        if self.anchored[child]:
            self.anchored[parent] = True
            self.own_pattern[parent] = max(self.own_pattern[child], self.own_pattern[parent])
