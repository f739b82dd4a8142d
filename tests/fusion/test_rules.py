"""The rules of FuseOps on graphs small enough to be worked out by hand."""

from tvm_tensat.fusion.rules import (
    BROADCAST,
    ELEMENTWISE,
    INJECTIVE,
    OPAQUE,
    OUT_FUSIBLE,
    REDUCTION,
    Step,
    fuse,
)


def chain(*patterns: int) -> list[int]:
    """Return the groups of steps of which each reads the one before."""
    last = len(patterns) - 1
    return fuse(
        [Step(p, (k - 1,) if k else (), is_output=k == last) for k, p in enumerate(patterns)]
    )


def test_elementwise_work_joins_the_product_before_it():
    assert chain(OUT_FUSIBLE, ELEMENTWISE, ELEMENTWISE) == [2, 2, 2]


def test_broadcasting_work_does_not_join_the_product_before_it():
    assert chain(OUT_FUSIBLE, BROADCAST) == [0, 1]


def test_elementwise_work_does_not_join_the_product_behind_it():
    assert chain(ELEMENTWISE, OUT_FUSIBLE) == [0, 1]


def test_elementwise_work_joins_the_reduction_behind_it_and_not_the_one_before():
    assert chain(ELEMENTWISE, REDUCTION) == [1, 1]
    assert chain(REDUCTION, ELEMENTWISE) == [0, 1]


def test_two_products_are_two_kernels_and_what_is_between_belongs_to_the_first():
    assert chain(OUT_FUSIBLE, ELEMENTWISE, OUT_FUSIBLE, ELEMENTWISE) == [1, 1, 3, 3]


def test_injective_work_joins_injective_and_elementwise_work_but_no_product():
    assert chain(INJECTIVE, INJECTIVE, ELEMENTWISE) == [2, 2, 2]
    assert chain(OUT_FUSIBLE, INJECTIVE, ELEMENTWISE) == [0, 2, 2]


def test_an_opaque_step_is_alone():
    assert chain(ELEMENTWISE, OPAQUE, ELEMENTWISE) == [0, 1, 2]


def test_nothing_is_fused_behind_what_the_block_returns():
    steps = [Step(ELEMENTWISE, (), is_output=True), Step(ELEMENTWISE, (0,), is_output=True)]
    assert fuse(steps) == [0, 1]


def test_a_value_with_two_uses_that_meet_again_is_one_kernel_with_them():
    diamond = [
        Step(OUT_FUSIBLE, ()),
        Step(ELEMENTWISE, (0,)),
        Step(ELEMENTWISE, (0,)),
        Step(ELEMENTWISE, (1, 2), is_output=True),
    ]
    assert fuse(diamond) == [3, 3, 3, 3]


def test_a_value_with_two_uses_that_never_meet_is_alone():
    fork = [
        Step(OUT_FUSIBLE, ()),
        Step(ELEMENTWISE, (0,), is_output=True),
        Step(ELEMENTWISE, (0,), is_output=True),
    ]
    assert fuse(fork) == [0, 1, 2]


def test_the_order_of_bindings_decides_which_of_two_products_takes_a_sum():
    """exp(r) + (r + p) for r = relu(x) and a product p, with r before p and after it."""
    first = [
        Step(ELEMENTWISE, ()),  # r
        Step(OUT_FUSIBLE, ()),  # p
        Step(ELEMENTWISE, (0, 1)),
        Step(ELEMENTWISE, (0,)),
        Step(ELEMENTWISE, (2, 3), is_output=True),
    ]
    assert fuse(first) == [4, 4, 4, 4, 4]
    last = [
        Step(OUT_FUSIBLE, ()),  # p
        Step(ELEMENTWISE, ()),  # r
        Step(ELEMENTWISE, (0, 1)),
        Step(ELEMENTWISE, (1,)),
        Step(ELEMENTWISE, (2, 3), is_output=True),
    ]
    assert fuse(last) == [4, 1, 4, 4, 4]


def test_a_kernel_has_at_most_256_steps():
    groups = chain(*[ELEMENTWISE] * 300)
    assert max(groups.count(group) for group in groups) == 256
