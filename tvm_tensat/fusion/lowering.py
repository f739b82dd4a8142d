"""What each operator is lowered to, as steps for `tvm_tensat.fusion.rules`.

TVM's own legalization says it, for one operator on operands of given types at a time; the answers
are kept. An operator gives one step nearly always; some give several, or none.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax
from tvm.relax.backend.cpu_generic import pipeline as cpu_generic
from tvm.relax.backend.gpu_generic import pipeline as gpu_generic

from tvm_tensat.egraph.language import TupleInfo, TypeInfo
from tvm_tensat.fusion.rules import INJECTIVE, OPAQUE
from tvm_tensat.relax.attributes import Opaque
from tvm_tensat.relax.language import RelaxLanguage
from tvm_tensat.schedule.machine import is_cpu

logger = logging.getLogger(__name__)

_CALL_TIR = tvm.ir.Op.get("relax.call_tir")
_SUFFIX = re.compile(r"\d+$")  # TVM numbers functions of one name


@dataclass(frozen=True)
class Applied:
    """An operator on operands: what its lowering depends on.

    Parameters
    ----------
    operator : int
    types : tuple of int
        Of the operands.
    scalars : tuple of (int or None)
        For each operand the operator that makes it when it is a scalar constant, which lowering
        puts into the step.
    """

    operator: int
    types: tuple[int, ...]
    scalars: tuple[int | None, ...]


@dataclass(frozen=True)
class Piece:
    """One step of a lowered operator.

    Parameters
    ----------
    name : str
        TVM's name of the function, without number.
    pattern : int
        See `tvm_tensat.fusion.rules`.
    arguments : tuple of int
        Operands that it reads: the k-th field of all operands, tuples taken apart, as k.
    pieces : tuple of int
        Earlier pieces that it reads, by position.
    is_view : bool
        Whether it only gives its operand another shape: alone in a kernel, it costs nothing.
    """

    name: str
    pattern: int
    arguments: tuple[int, ...]
    pieces: tuple[int, ...]
    is_view: bool = False


Pieces = tuple[Piece, ...]  # the last one is the result; none where an operand is the result


class Lowering:
    """Lowers operators for one target, each only once.

    Parameters
    ----------
    language : RelaxLanguage
        In which operators and types are numbered.
    target : tvm.target.Target
    """

    def __init__(self, language: RelaxLanguage, target: tvm.target.Target) -> None:
        self._language = language
        self._target = target
        self._known: dict[Applied, Pieces] = {}
        backend = cpu_generic if is_cpu(target) else gpu_generic
        self._passes = [
            *backend.library_dispatch_passes(target),
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
        ]

    def lower(self, applications: Iterable[Applied]) -> list[Pieces]:
        """Return the pieces of each application; those that are new are lowered together."""
        wanted = list(applications)
        missing = []
        for applied in dict.fromkeys(wanted):
            if applied in self._known:
                continue
            name = self._language.operator(applied.operator).name
            if name == "get":
                self._known[applied] = (Piece(name, INJECTIVE, (0,), ()),)
            elif self._is_foreign(applied):
                self._known[applied] = (_opaque(name, applied, self._language),)
            else:
                missing.append(applied)
        self._lower(missing)
        return [self._known[applied] for applied in wanted]

    def _is_foreign(self, applied: Applied) -> bool:
        """Whether no legalization says what it does: a tuple, a call of something else."""
        operator = self._language.operator(applied.operator)
        if not operator.name.startswith("relax."):
            return True
        return any(isinstance(value, Opaque) for _, value in operator.attrs)

    def _lower(self, missing: Sequence[Applied]) -> None:
        """Lower together; one by one where that fails, to find the one that cannot be."""
        if not missing:
            return
        try:
            functions = self._legalized(missing)
        except Exception as error:  # TVM's passes refuse with many types of exception
            if len(missing) > 1:
                middle = len(missing) // 2
                self._lower(missing[:middle])
                self._lower(missing[middle:])
                return
            (applied,) = missing
            name = self._language.operator(applied.operator).name
            logger.debug("%s is taken as a kernel of its own: %s", name, error)
            functions = [(_opaque(name, applied, self._language),)]
        self._known.update(zip(missing, functions, strict=True))

    def _legalized(self, missing: Sequence[Applied]) -> list[Pieces]:
        builder = relax.BlockBuilder()
        for number, applied in enumerate(missing):
            self._emit(builder, f"f{number}", applied)
        with self._target:
            module = tvm.transform.Sequential(self._passes)(builder.finalize())
        return [_read(module, module[f"f{number}"]) for number in range(len(missing))]

    def _emit(self, builder: relax.BlockBuilder, name: str, applied: Applied) -> None:
        """Add a function that applies the operator to its parameters."""
        language = self._language
        parameters: list[relax.Var] = []
        operands: list[Any] = []
        for type_number, scalar in zip(applied.types, applied.scalars, strict=True):
            if scalar is not None:
                operands.append(language.call(scalar, ()))
            else:
                operands.append(_operand(language.tvm_type(type_number), parameters))
        with builder.function(name, parameters):
            with builder.dataflow():
                result = builder.emit_output(
                    builder.emit(language.call(applied.operator, operands))
                )
            builder.emit_func_output(result)


def _operand(ty: Any, parameters: list[relax.Var]) -> Any:
    """Return an expression of a type; a tuple is put together from one parameter a field."""
    if isinstance(ty, relax.TupleType):
        return relax.Tuple([_operand(field, parameters) for field in ty.fields])
    parameters.append(relax.Var(f"p{len(parameters)}", ty))
    return parameters[-1]


def _opaque(name: str, applied: Applied, language: RelaxLanguage) -> Piece:
    """Return a step that reads all operands and fuses with nothing."""
    count = sum(
        count_fields(language.info(type_number))
        for type_number, scalar in zip(applied.types, applied.scalars, strict=True)
        if scalar is None
    )
    return Piece(name, OPAQUE, tuple(range(count)), ())


def count_fields(info: TypeInfo) -> int:
    """Return how many tensors a value of this type holds, tuples within tuples taken apart."""
    return sum(map(count_fields, info.fields)) if isinstance(info, TupleInfo) else 1


def _read(module: tvm.IRModule, function: relax.Function) -> Pieces:
    """Return the steps of a legalized function, without what only passes its result on."""
    argument = {parameter: number for number, parameter in enumerate(function.params)}
    position: dict[relax.Var, int] = {}
    pieces: list[Piece] = []
    for binding in (b for block in function.body.blocks for b in block.bindings):
        read = relax.analysis.free_vars(binding.value)
        if isinstance(binding.value, relax.Var):
            if binding.value in position:
                position[binding.var] = position[binding.value]
            else:
                argument[binding.var] = argument[binding.value]
            continue
        name, pattern, is_view = _described(module, binding.value)
        arguments = tuple(argument[var] for var in read if var in argument)
        earlier = tuple(position[var] for var in read if var in position)
        position[binding.var] = len(pieces)
        pieces.append(Piece(name, pattern, arguments, earlier, is_view))
    return tuple(pieces)


def _described(module: tvm.IRModule, value: Any) -> tuple[str, int, bool]:
    """Return name and pattern of a lowered call, and whether it is a view."""
    if isinstance(value, relax.TupleGetItem):
        return "get", INJECTIVE, False
    if isinstance(value, relax.Tuple):
        return "tuple", OPAQUE, False
    if isinstance(value, relax.Call) and value.op == _CALL_TIR:
        callee = value.args[0]
        function = module[callee]
        pattern = (function.attrs or {}).get("op_pattern", OPAQUE)
        is_view = relax.analysis.has_reshape_pattern(function)
        return _SUFFIX.sub("", callee.name_hint), int(pattern), bool(is_view)
    return str(getattr(getattr(value, "op", None), "name", "unknown")), OPAQUE, False
