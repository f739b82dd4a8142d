"""Union-find over whole arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tvm_tensat.egraph.unionfind import UnionFind

PAIRS = st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=25)


@given(st.lists(PAIRS, max_size=4))
def test_representatives_are_the_smallest_members_of_the_connected_components(
    batches: list[list[tuple[int, int]]],
) -> None:
    sets = UnionFind()
    sets.grow(20)
    component = list(range(20))
    for batch in batches:
        before = len(set(component))
        for a, b in batch:
            low, high = sorted((component[a], component[b]))
            component = [low if each == high else each for each in component]
        pairs = np.array(batch, np.int64).reshape(-1, 2)
        assert sets.union(pairs[:, 0], pairs[:, 1]) == before - len(set(component))
        assert sets.parent.tolist() == component


def test_growing_keeps_the_sets_and_a_long_chain_is_flat() -> None:
    sets = UnionFind()
    sets.grow(5000)
    order = np.random.default_rng(0).permutation(4999)
    assert sets.union(order, order + 1) == 4999
    sets.grow(5002)
    assert not sets.parent[:5000].any()
    assert sets.parent[5000:].tolist() == [5000, 5001]
