"""Work counted from types, against counts made by hand."""

import pytest

from tvm_tensat.cost.work import Work, bytes_of, is_elementwise, work_of
from tvm_tensat.egraph.language import Dim, Operator, OtherInfo, TensorInfo, TupleInfo


def f32(*shape: int) -> TensorInfo:
    return TensorInfo(shape, "float32")


def op(name: str, **attrs: object) -> Operator:
    return Operator(name, tuple(sorted(attrs.items())), 0)


def test_matmul_is_two_operations_for_each_multiply_add() -> None:
    """2 * 3 rows * 7 columns * depth 5; (3*5 + 5*7) and 3*7 floats."""
    work = work_of(op("relax.matmul"), [f32(3, 5), f32(5, 7)], f32(3, 7))
    assert work == Work(flops=210, bytes_read=200, bytes_written=84)


def test_batched_matmul_counts_every_batch() -> None:
    work = work_of(op("relax.matmul"), [f32(4, 3, 5), f32(4, 5, 7)], f32(4, 3, 7))
    assert work.flops == 4 * 210


@pytest.mark.parametrize(
    ("kernel_layout", "weight", "result"),
    [
        ("OIHW", (64, 32, 3, 3), (1, 64, 56, 56)),
        ("HWIO", (3, 3, 32, 64), (1, 56, 56, 64)),
        ("OIHW16o", (4, 32, 3, 3, 16), (1, 4, 56, 56, 16)),
        ("OIHW8i16o", (4, 4, 3, 3, 8, 16), (1, 4, 56, 56, 16)),
    ],
)
def test_conv2d_counts_alike_in_every_layout(
    kernel_layout: str, weight: tuple[int, ...], result: tuple[int, ...]
) -> None:
    """64 x 56 x 56 results, each a sum over 32 channels and a 3x3 window."""
    conv = op("relax.nn.conv2d", kernel_layout=kernel_layout, groups=1)
    work = work_of(conv, [f32(1, 32, 56, 56), f32(*weight)], f32(*result))
    assert work.flops == 2 * (64 * 56 * 56) * (32 * 9) == 115_605_504


def test_depthwise_conv2d_reads_one_channel_for_each_result() -> None:
    conv = op("relax.nn.conv2d", kernel_layout="OIHW", groups=136)
    work = work_of(conv, [f32(1, 136, 28, 28), f32(136, 1, 3, 3)], f32(1, 136, 28, 28))
    assert work.flops == 2 * (136 * 28 * 28) * 9 == 1_919_232


def test_transposed_conv2d_scatters_each_input_over_its_weights() -> None:
    """8 channels of 4x4, each element added to 16 channels of a 2x2 window."""
    conv = op("relax.nn.conv2d_transpose", kernel_layout="IOHW")
    work = work_of(conv, [f32(1, 8, 4, 4), f32(8, 16, 2, 2)], f32(1, 16, 8, 8))
    assert work.flops == 2 * (8 * 4 * 4) * (16 * 4)


def test_max_pool_compares_each_window() -> None:
    pool = op("relax.nn.max_pool2d", pool_size=(3, 3))
    assert work_of(pool, [f32(1, 64, 112, 112)], f32(1, 64, 56, 56)).flops == 64 * 56 * 56 * 9


def test_softmax_takes_one_exp_for_each_element() -> None:
    work = work_of(op("relax.nn.softmax", axis=-1), [f32(2, 1000)], f32(2, 1000))
    assert work == Work(flops=8000, bytes_read=8000, bytes_written=8000, transcendentals=2000)


def test_attention_is_two_products_around_a_softmax() -> None:
    """Scores 2*6*10*12; query size 8, value size 16."""
    operands = [f32(2, 10, 6, 8), f32(2, 12, 6, 8), f32(2, 12, 6, 16)]
    work = work_of(op("relax.nn.attention"), operands, f32(2, 10, 6, 16))
    assert work.flops == 1440 * (2 * 8 + 2 * 16 + 5)
    assert work.transcendentals == 1440


def test_einsum_multiplies_the_extents_of_all_indices() -> None:
    einsum = op("relax.einsum", subscripts="bij,bjk->bik")
    work = work_of(einsum, [TupleInfo((f32(2, 3, 5), f32(2, 5, 7)))], f32(2, 3, 7))
    assert work.flops == 2 * (2 * 3 * 5 * 7)


@pytest.mark.parametrize(
    ("name", "flops", "transcendentals"),
    [("add", 24, 0), ("nn.relu", 24, 0), ("exp", 0, 24), ("sigmoid", 48, 24)],
)
def test_elementwise_work_is_per_element(name: str, flops: int, transcendentals: int) -> None:
    work = work_of(op(f"relax.{name}"), [f32(4, 6)], f32(4, 6))
    assert (work.flops, work.transcendentals) == (flops, transcendentals)


def test_a_reduction_is_one_operation_for_each_operand_element() -> None:
    work = work_of(op("relax.sum", axis=(1,), keepdims=False), [f32(4, 6)], f32(4))
    assert work == Work(flops=24, bytes_read=96, bytes_written=16)


def test_batch_norm_takes_one_root_for_each_channel() -> None:
    operands = [f32(1, 8, 4, 4), f32(8), f32(8), f32(8), f32(8)]
    result = TupleInfo((f32(1, 8, 4, 4), f32(8), f32(8)))
    work = work_of(op("relax.nn.batch_norm", axis=1), operands, result)
    assert (work.flops, work.transcendentals) == (4 * 128, 8)


def test_concat_reads_and_writes_all_fields() -> None:
    operand = TupleInfo((f32(2, 3), f32(2, 5)))
    work = work_of(op("relax.concat", axis=1), [operand], f32(2, 8))
    assert work == Work(bytes_read=64, bytes_written=64)


def test_a_slice_reads_only_what_it_writes() -> None:
    work = work_of(op("relax.strided_slice"), [f32(100, 100)], f32(10, 100))
    assert work == Work(bytes_read=4000, bytes_written=4000)


def test_take_reads_its_indices_and_the_rows_it_takes() -> None:
    operands = [f32(30000, 64), TensorInfo((7,), "int64")]
    work = work_of(op("relax.take", axis=0), operands, f32(7, 64))
    assert work == Work(bytes_read=7 * 64 * 4 + 7 * 8, bytes_written=7 * 64 * 4)


@pytest.mark.parametrize(
    ("operator", "operand", "result"),
    [
        (op("relax.reshape", shape=(6, 4)), f32(4, 6), f32(6, 4)),
        (op("relax.expand_dims", axis=(0,)), f32(4, 6), f32(1, 4, 6)),
        (op("relax.permute_dims", axes=(0, 2, 1)), f32(4, 6, 1), f32(4, 1, 6)),
        (op("get", index=0), TupleInfo((f32(4, 6),)), f32(4, 6)),
    ],
)
def test_renaming_bytes_is_no_work(
    operator: Operator, operand: TensorInfo | TupleInfo, result: TensorInfo
) -> None:
    assert work_of(operator, [operand], result) == Work()


def test_a_transpose_moves_everything_once() -> None:
    work = work_of(op("relax.permute_dims", axes=(1, 0)), [f32(4, 6)], f32(6, 4))
    assert work == Work(bytes_read=96, bytes_written=96)


def test_an_unknown_operator_is_one_operation_for_each_result_element() -> None:
    assert work_of(op("opaque", id=3), [f32(4, 6)], f32(4)).flops == 4


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("float32", 48), ("float16", 24), ("bfloat16", 24), ("int8", 12), ("bool", 12),
        ("int4", 6), ("float8_e4m3fn", 12), ("uint64", 96),
    ],
)  # fmt: skip
def test_sizes_follow_the_dtype(dtype: str, size: int) -> None:
    assert bytes_of(TensorInfo((3, 4), dtype)) == size


def test_unknown_shapes_and_other_types_count_nothing_and_symbols_something() -> None:
    assert bytes_of(OtherInfo("shape")) == 0
    assert bytes_of(TensorInfo(None, "float32")) == 0
    symbolic = TensorInfo((Dim("n", "n"), 5), "float32")
    work = work_of(op("relax.matmul"), [symbolic, f32(5, 7)], TensorInfo((Dim("n", "n"), 7), "f"))
    assert work.flops > 0


def test_elementwise_operators_are_told_from_others() -> None:
    names = ["add", "nn.relu", "clip", "matmul", "nn.softmax", "sum", "concat", "permute_dims"]
    assert [n for n in names if is_elementwise(op(f"relax.{n}"))] == ["add", "nn.relu", "clip"]
