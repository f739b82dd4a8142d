"""TVM's types and dimensions as the plain values that rules see, and back.

`describe` turns a type into `TensorInfo`, `TupleInfo` or `OtherInfo`; `dim_of` turns a dimension
into an int or a `Dim` and `expr_of` turns it back into TVM's expression.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from tvm_tensat.egraph.language import Dim, DimLike, OtherInfo, TensorInfo, TupleInfo, TypeInfo

__all__ = [
    "describe",
    "dim_of",
    "dtype_text",
    "expr_of",
    "is_known",
    "numpy_dtype",
    "shape_values",
    "type_key",
]


def type_key(value: Any) -> object:
    """Return a hashable key of any TVM object: equal keys mean structurally equal objects.

    Variables that the object does not bind itself, such as symbolic dimensions, are told apart by
    identity.
    """
    return tvm_ffi.StructuralKey(value)


def dim_of(expr: Any) -> DimLike:
    """Return a dimension as an int where it is one, and otherwise as a `Dim`."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, tvm.tirx.IntImm):
        return int(expr.value)
    return Dim(type_key(expr), str(expr))


def expr_of(dim: DimLike) -> Any:
    """Return the TVM expression (or the int) that `dim_of` read."""
    return dim.key.key if isinstance(dim, Dim) else dim  # type: ignore[attr-defined]


def dtype_text(dtype: Any) -> str:
    """Return a dtype's name; unknown dtypes (None, void) give the empty string."""
    text = "" if dtype is None else str(dtype)
    return "" if text == "void" else text


def shape_values(ty: Any) -> tuple[Any, ...] | None:
    """Return the dimensions of a tensor type as TVM's expressions, None where unknown."""
    return tuple(ty.shape.values) if isinstance(ty.shape, relax.ShapeExpr) else None


def describe(ty: Any) -> TypeInfo:
    """Return a TVM type as rules see it."""
    if isinstance(ty, relax.TensorType):
        values = shape_values(ty)
        shape = None if values is None else tuple(dim_of(v) for v in values)
        return TensorInfo(shape, dtype_text(ty.dtype))
    if isinstance(ty, relax.TupleType):
        return TupleInfo(tuple(describe(field) for field in ty.fields))
    return OtherInfo(str(ty))


def is_known(info: TypeInfo) -> bool:
    """Whether every tensor in this type has a known rank, shape and dtype."""
    if isinstance(info, TensorInfo):
        return info.shape is not None and info.dtype != ""
    if isinstance(info, TupleInfo):
        return all(is_known(field) for field in info.fields)
    return True


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Return numpy's dtype of a TVM dtype, from `ml_dtypes` where numpy has none."""
    return np.dtype(getattr(ml_dtypes, dtype) if hasattr(ml_dtypes, dtype) else dtype)
