"""An e-graph and a saturation loop in egg's style, in dictionaries and recursion.

It is slow and meant to be obviously right: the tests compare the engine's tables with it. Its
rules are `Law`s, plain data, so that it shares no code with the engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.egraph.toy import Law, Pattern, Tree, split_name, variables_of
from tvm_tensat.egraph import EGraph
from tvm_tensat.egraph.language import Operator

Node = tuple[Operator, tuple[int, ...]]
Binding = dict[str, int]


MOST = 100_000  # combinations of matches that a search looks at


class TooSlow(Exception):
    """A search of the oracle would take too long; nothing was changed."""


class Oracle:
    """Classes are numbers; `nodes` maps each canonical e-node to its class, `birth` to its age."""

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.nodes: dict[Node, int] = {}
        self.birth: dict[Node, int] = {}
        self.members: dict[int, list[Node]] = defaultdict(
            list
        )  # of each class, at the last rebuild

    def find(self, number: int) -> int:
        while self.parent[number] != number:
            number = self.parent[number]
        return number

    def add(self, operator: Operator, children: Sequence[int]) -> int:
        node = operator, tuple(self.find(child) for child in children)
        if node not in self.nodes:
            self.birth[node] = self.nodes[node] = len(self.parent)
            self.parent.append(len(self.parent))
        return self.find(self.nodes[node])

    def add_tree(self, tree: Tree) -> int:
        head, *children = tree
        name, attrs = split_name(head)
        if not children and not attrs:
            name, attrs = "leaf", {"id": name}
        classes = [self.add_tree(child) for child in children]
        return self.add(Operator(name, tuple(sorted(attrs.items())), len(classes)), classes)

    def union(self, left: int, right: int) -> bool:
        left, right = self.find(left), self.find(right)
        self.parent[max(left, right)] = min(left, right)
        return left != right

    def rebuild(self) -> None:
        """Until nothing changes: make e-nodes canonical, merge the classes of equal ones."""
        merged = True
        while merged:
            merged = False
            nodes: dict[Node, int] = {}
            birth: dict[Node, int] = {}
            for node in self.nodes:  # in order of birth
                canonical = node[0], tuple(self.find(child) for child in node[1])
                if canonical in nodes:
                    merged |= self.union(nodes[canonical], self.nodes[node])
                else:
                    nodes[canonical], birth[canonical] = self.nodes[node], self.birth[node]
            self.nodes = {node: self.find(number) for node, number in nodes.items()}
            self.birth = birth
        self.members = defaultdict(list)
        for node, number in self.nodes.items():
            self.members[number].append(node)

    def project_tuples(self) -> None:
        """Field i of a tuple is its operand i, until nothing changes."""
        merged = True
        while merged:
            merged = False
            for (operator, children), number in self.nodes.items():
                if operator.name == "get":
                    for other, fields in self.members[self.find(children[0])]:
                        if other.name == "tuple":
                            merged |= self.union(number, fields[operator["index"]])
            self.rebuild()

    @property
    def class_count(self) -> int:
        return len({self.find(number) for number in self.nodes.values()})

    def tree_sizes(self) -> dict[int, int]:
        """The smallest term of each class, in e-nodes: improved until nothing changes.

        What an e-node has for several operands counts once, as in `tvm_tensat.extraction`.
        """
        size: dict[int, int] = {}
        smaller = True
        while smaller:
            smaller = False
            for (_, children), number in self.nodes.items():
                below = [size.get(child) for child in {self.find(child) for child in children}]
                if None not in below:
                    total = 1 + sum(each for each in below if each is not None)
                    if total < size.get(self.find(number), total + 1):
                        size[self.find(number)] = total
                        smaller = True
        return size

    # -- matching and applying ---------------------------------------------------------------

    def match(self, pattern: Pattern, node: Node, bound: Binding) -> Iterator[Binding]:
        """All bindings, extending `bound`, under which an e-node is an instance of a pattern."""
        name, given = split_name(pattern[0])
        operator, children = node
        if (operator.name, operator.arity) != (name, len(pattern) - 1):
            return
        if any(operator[attr] != value for attr, value in given.items()):
            return
        bindings = [bound]
        for inner, child in zip(pattern[1:], children, strict=True):
            bindings = [
                longer for each in bindings for longer in self.match_class(inner, child, each)
            ]
        yield from bindings

    def match_class(self, pattern: Pattern, number: int, bound: Binding) -> Iterator[Binding]:
        if isinstance(pattern, str):
            if bound.get(pattern, number) == number:
                yield {**bound, pattern: number}
            return
        for node in self.members[number]:
            yield from self.match(pattern, node, bound)

    def search(self, law: Law) -> list[tuple[list[int], Binding]]:
        """Matches of all sources together: the class of each source, and the binding."""
        found: list[tuple[list[Node], Binding]] = [([], {})]
        for k, source in enumerate(law.sources):
            if len(found) * len(self.nodes) > MOST:
                raise TooSlow
            ordered = k > 0 and interchangeable(law.sources, k - 1)
            found = [
                ([*before, node], binding)
                for before, bound in found
                for node in self.nodes
                if not ordered or self.birth[before[-1]] < self.birth[node]
                for binding in self.match(source, node, bound)
            ]
        return [([self.nodes[node] for node in nodes], binding) for nodes, binding in found]

    def build(self, pattern: Pattern, binding: Binding) -> int:
        if isinstance(pattern, str):
            return binding[pattern]
        children = [self.build(child, binding) for child in pattern[1:]]
        name, attrs = split_name(pattern[0])
        return self.add(Operator(name, tuple(sorted(attrs.items())), len(children)), children)

    def iterate(self, laws: Sequence[Law]) -> None:
        """Search all laws on the e-graph as it stands, then apply all matches."""
        self.rebuild()
        found = [(law, *match) for law in laws if not ill(law) for match in self.search(law)]
        merges = [
            (root, self.build(target, binding))
            for law, roots, binding in found
            for root, target in zip(roots, law.targets, strict=True)
        ]
        for left, right in merges:
            self.union(left, right)
        self.rebuild()
        self.project_tuples()


def ill(law: Law) -> bool:
    """Whether a target is ill-typed, so that the law is refused."""
    return any("'ill'" in repr(target) for target in law.targets)


def interchangeable(sources: Sequence[Pattern], k: int) -> bool:
    """Whether exchanging variables turns source k into k + 1 and back, and no other changes."""
    left, right = variables_of(sources[k]), variables_of(sources[k + 1])
    if len(left) != len(right):
        return False
    exchange = dict(zip(left, right, strict=True)) | dict(zip(right, left, strict=True))
    others = [each for at, each in enumerate(sources) if at not in (k, k + 1)]
    return (
        renamed(sources[k], exchange) == sources[k + 1]
        and renamed(sources[k + 1], exchange) == sources[k]
        and all(renamed(each, exchange) == each for each in others)
    )


def renamed(pattern: Pattern, names: Mapping[str, str]) -> Pattern:
    if isinstance(pattern, str):
        return names.get(pattern, pattern)
    return (pattern[0], *(renamed(child, names) for child in pattern[1:]))


def assert_same(oracle: Oracle, graph: EGraph, rows: Mapping[Node, int]) -> None:
    """Prove an isomorphism: every e-node of the oracle is in the engine, in corresponding classes.

    Every class has a derivation from the leaves, so mapping classes from the leaves up reaches all.
    """
    image: dict[int, int] = {}
    left = list(oracle.nodes)
    while left:
        ready = [node for node in left if all(child in image for child in node[1])]
        assert ready, "a class of the oracle is not derivable"
        left = [node for node in left if node not in set(ready)]
        for operator, children in ready:
            node = operator, tuple(image[child] for child in children)
            assert node in rows, f"the engine lacks {operator} of {children}"
            number = oracle.find(oracle.nodes[operator, children])
            assert image.setdefault(number, rows[node]) == rows[node], "merged too little"
    assert len(set(image.values())) == len(image), "merged too much"
    assert (graph.node_count, graph.class_count) == (len(oracle.nodes), oracle.class_count)
