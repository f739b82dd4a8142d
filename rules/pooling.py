"""Pools of images.

    pool([x y])     =  [pool(x) pool(y)]   pool_of_joined_images, joined_pools

[x y] joins batches or channels, of which a pool sees neither, so joining is `EXACT`.

Relu does not change places with a max pool: TVM's relu turns NaN into 0 and its pool keeps NaN, so
of 1, 2, 3 and NaN the pool of the relu is 3 and the relu of the pool 0.
"""

from __future__ import annotations

from tvm_tensat.egraph.rule import ANY, EXACT, Rule, Term, refuse, rule
from tvm_tensat.rules.common import Apply, for_each
from tvm_tensat.rules.operators import avg_pool2d, concat, max_pool2d, need_same_operator

POOLS: tuple[Apply, ...] = (max_pool2d, avg_pool2d)


def _outer_axis(pool: Term, axis: int) -> int:
    """Return which axis of the result an axis of the image is; refuse the pixels' axes."""
    letter = pool.layout[axis] if pool.layout.isalpha() else ""
    if letter not in ("N", "C"):
        refuse("joined along the pixels, or a layout with inner blocks")
    return pool.out_layout.index(letter)


def _pool_of_joined_images(pool: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def pool_of_joined_images(x, y):
        """A pool of images joined by batches or channels joins their pools."""
        joined = concat(x, y)
        pooled = pool(joined)
        yield pooled
        yield concat(pooled.on(x), pooled.on(y), axis=_outer_axis(pooled, joined.axis))

    return pool_of_joined_images


def _joined_pools(pool: Apply) -> Rule:
    @rule(keeps=EXACT, dtypes=ANY)
    def joined_pools(x, y):
        """Pools joined by batches or channels are a pool of the joined images."""
        p, q = pool(x), pool(y)
        joined = concat(p, q)
        yield joined
        need_same_operator(p, q)
        if p.layout != p.out_layout:
            refuse("the result is in another layout")
        _outer_axis(p, joined.axis)
        yield p.on(concat(x, y, axis=joined.axis))

    return joined_pools


pools_of_joined_images = for_each(POOLS, _pool_of_joined_images)
joined_pools = for_each(POOLS, _joined_pools)
