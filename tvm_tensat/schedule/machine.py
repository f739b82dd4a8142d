"""What a schedule needs to know of the machine: the width and number of its vector registers."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.target import Target
from tvm.target.codegen import target_has_features

CPU_KINDS = ("llvm", "c")


@dataclass(frozen=True)
class VectorUnit:
    """The vector registers of a target.

    Attributes
    ----------
    bits : int
        Width of one register.
    registers : int
        Number of registers.
    vectorize : bool
        Whether loops can be marked as vectorized. C source has no vectors; there the same tiles
        are plain loops, which the C compiler vectorizes or not.
    """

    bits: int
    registers: int
    vectorize: bool = True

    def lanes(self, dtype_bits: int) -> int:
        """Return the number of elements of `dtype_bits` bits that one register holds."""
        return max(1, self.bits // dtype_bits)


def is_cpu(target: Target) -> bool:
    """Return whether kernels for `target` run on a CPU and are scheduled by this package."""
    return str(target.kind.name) in CPU_KINDS


def vector_unit(target: Target) -> VectorUnit:
    """Return the vector unit of a CPU target, from the features that LLVM derives for it.

    `tvm.target.codegen.llvm_get_vector_width` answers 512 for every x86 target in TVM 0.27, so
    the features are asked for one by one. A target without `mcpu` has the baseline of its
    architecture: 128 bits on x86-64.
    """
    if str(target.kind.name) != "llvm":
        return VectorUnit(bits=128, registers=16, vectorize=False)
    if target_has_features("avx512f", target):
        return VectorUnit(bits=512, registers=32)
    if target_has_features("avx", target):
        return VectorUnit(bits=256, registers=16)
    triple = str(target.attrs.get("mtriple", ""))
    return VectorUnit(bits=128, registers=32 if triple.startswith("aarch64") else 16)
