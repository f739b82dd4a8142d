"""Union-find over whole arrays: hooking to the smaller root, then pointer jumping."""

from __future__ import annotations

import numpy as np

from tvm_tensat.egraph.columns import Ints, extended


class UnionFind:
    """Disjoint sets of the classes 0..n-1; the representative is the smallest member.

    After every method returns, `parent` points straight at representatives, so that
    ``parent[classes]`` is the find of a whole array.
    """

    def __init__(self) -> None:
        self.parent: Ints = np.empty(0, np.int64)  # (classes,)
        self.count = 0  # sets

    def grow(self, count: int) -> None:
        """Add singleton sets until there are `count` classes."""
        have = len(self.parent)
        if count > have:
            self.parent = extended(self.parent, np.arange(have, count))
            self.count += count - have

    def union(self, left: Ints, right: Ints) -> int:
        """Merge the sets of ``left[i]`` and ``right[i]`` for every i.

        Returns
        -------
        int
            How many sets fewer there are now.
        """
        parent, before = self.parent, self.count
        while True:
            a, b = parent[left], parent[right]
            differ = a != b
            if not differ.any():
                self.count = int(np.count_nonzero(parent == np.arange(len(parent))))
                return before - self.count
            left, right, a, b = left[differ], right[differ], a[differ], b[differ]
            high, low = np.maximum(a, b), np.minimum(a, b)
            # Where several pairs hook one root, the smallest wins; the losers hook next round.
            np.minimum.at(parent, high, low)
            self._jump()

    def _jump(self) -> None:
        """Point every class straight at its representative."""
        parent = self.parent
        while True:
            grand = parent[parent]
            if np.array_equal(grand, parent):
                return
            parent[:] = grand
