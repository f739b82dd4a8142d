"""``tvmc run``: run what ``tvmc compile`` wrote; time it, print or save its outputs."""

from __future__ import annotations

import argparse
import signal
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax, rpc

from tvm_tensat.cli.errors import CommandError, one_line
from tvm_tensat.cli.files import check_writable
from tvm_tensat.cli.signature import Signature, TensorSpec, read_signature
from tvm_tensat.cost import Farm, MeasureError, Tracker
from tvm_tensat.cost.remote import send
from tvm_tensat.files import replacing

Array = NDArray[Any]

_SESSION_SECONDS = 3600.0
"""When a run on a remote device takes longer, its server ends it."""


def execute(args: argparse.Namespace) -> None:
    """Run the library that the arguments name.

    Raises
    ------
    CommandError
        When it cannot be loaded, or its inputs do not fit.
    """
    check_writable(args.outputs)
    tracker = _tracker(args)
    if tracker is None:
        _run(args, *load_library(args.library, args.device))
        return
    # TVM's client does not hear Ctrl-C while it waits for an answer, so Ctrl-C ends the process.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        # Any machine has a CPU; the library says which device of the machine it is for.
        with Farm(tracker).session(tvm.target.Target("llvm"), _SESSION_SECONDS) as (session, _):
            _run(args, *load_library(args.library, args.device, session))
    except MeasureError as error:
        raise CommandError(str(error)) from error
    finally:
        signal.signal(signal.SIGINT, before)


def _tracker(args: argparse.Namespace) -> Tracker | None:
    if args.rpc_tracker is None and args.rpc_key is None:
        return None
    if args.rpc_tracker is None or args.rpc_key is None:
        raise CommandError("--rpc-tracker and --rpc-key: expected both or none of them")
    try:
        return Tracker.at(args.rpc_tracker, args.rpc_key)
    except ValueError as error:
        raise CommandError(f"--rpc-tracker: {error}") from error


def _run(args: argparse.Namespace, machine: Any, signature: Signature, device: Any) -> None:
    if args.inputs is not None:
        values = read_inputs(args.inputs, signature)
    else:
        values = [fill(spec, args.fill_mode, seed) for seed, spec in enumerate(signature.inputs)]
    operands = [tvm.runtime.tensor(value, device) for value in values]
    if args.rpc_tracker is None:
        result = machine["main"](*operands)
    else:  # a tuple cannot be sent as a whole
        machine.set_input("main", *operands)
        machine.invoke_stateful("main")
        result = machine.get_outputs("main")
    outputs = [tensor.numpy() for tensor in _flat(result)]

    if args.outputs is not None:
        names = [spec.name for spec in signature.outputs]
        with replacing(args.outputs) as file, file.open("wb") as stream:
            np.savez(stream, **dict(zip(names, outputs, strict=True)))
    if args.print_top is not None:
        for spec, output in zip(signature.outputs, outputs, strict=True):
            _print_top(spec.name, output, args.print_top)
    if args.print_time:
        _print_time(machine, operands, device, args.repeat, args.number)


def load_library(
    path: Path, device: str | None = None, session: rpc.RPCSession | None = None
) -> tuple[Any, Signature, Any]:
    """Load a library that ``tvmc compile`` wrote.

    Parameters
    ----------
    path : Path
    device : {"cpu", "cuda"}, optional
        By default what the library was compiled for.
    session : RPCSession, optional
        The connection to the machine on which to load it; by default this one.

    Returns
    -------
    machine : relax.VirtualMachine
    signature : Signature
    device : tvm.runtime.Device
    """
    if not path.is_file():
        raise CommandError(f"{path}: no such file; check the path, or compile the model first")
    try:
        if session is None:
            library = tvm.runtime.load_module(str(path.resolve()))
        else:
            library = send(session, path)
        # The signature is read on the CPU: the device is known only from it.
        device_of = tvm.device if session is None else session.device
        signature = read_signature(relax.VirtualMachine(library, device_of("cpu", 0)), path)
    except (AttributeError, OSError, ValueError, RuntimeError) as error:
        if "loader of that name is not registered" in str(error):
            raise CommandError(
                f"{path}: was compiled for a device whose runtime cannot be loaded here; run it "
                f"where the device is ({one_line(error)})"
            ) from error
        raise CommandError(
            f"{path}: not a library that tvmc compile wrote ({one_line(error)}); compile the model "
            "with tvmc compile"
        ) from error
    if device is not None and device != signature.device:
        raise CommandError(
            f"--device {device}: {path} was compiled for {signature.device}; compile it for "
            f"{device}, or leave the option out"
        )
    place = device_of(signature.device, 0)
    if not place.exist:
        raise CommandError(f"{path}: was compiled for {signature.device}, and the machine has none")
    return relax.VirtualMachine(library, place), signature, place


def fill(spec: TensorSpec, mode: str, seed: int) -> Array:
    """Make an input: zeros, ones, or random values.

    Random floats are normal; values of other types are 0 or 1, which are indices of any table.
    """
    _require_tensor(spec)
    shape = [d for d in spec.shape or () if isinstance(d, int)]
    if spec.shape is None or len(shape) != len(spec.shape):
        raise CommandError(f"{spec}: has no fixed shape, so it cannot be filled; give -i FILE.npz")
    dtype = _numpy_dtype(spec)
    if mode != "random":
        return np.full(shape, 0 if mode == "zeros" else 1, dtype)
    draw = np.asarray(np.random.default_rng(seed).standard_normal(shape))
    is_float = np.issubdtype(dtype, np.floating) or "float" in str(spec.dtype)
    return draw.astype(dtype) if is_float else (draw > 0).astype(dtype)


def read_inputs(path: Path, signature: Signature) -> list[Array]:
    """Read one array for each input from an .npz file and check shapes and dtypes.

    Raises
    ------
    CommandError
        When the file cannot be read, an array is missing, or one does not fit.
    """
    wanted = "; ".join(str(spec) for spec in signature.inputs)
    if not path.is_file():
        raise CommandError(f"{path}: no such file; expected an .npz with {wanted}")
    if not zipfile.is_zipfile(path):
        raise CommandError(f"{path}: not an .npz file; write it with numpy.savez, with {wanted}")
    try:
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise CommandError(f"{path}: cannot be read ({one_line(error)})") from error
    missing = [spec.name for spec in signature.inputs if spec.name not in arrays]
    unknown = [name for name in arrays if name not in {spec.name for spec in signature.inputs}]
    if missing or unknown:
        faults = [f"no array {name!r}" for name in missing]
        faults += [f"unknown array {name!r}" for name in unknown]
        raise CommandError(f"{path}: {', '.join(faults)}; expected {wanted}")
    symbols: dict[str, int] = {}
    for spec in signature.inputs:
        _check_fits(path, spec, arrays[spec.name], symbols)
    return [np.ascontiguousarray(arrays[spec.name]) for spec in signature.inputs]


def _check_fits(path: Path, spec: TensorSpec, array: Array, symbols: dict[str, int]) -> None:
    """Compare an array with its input; `symbols` collects the values of symbolic dimensions."""
    _require_tensor(spec)
    given = f"{array.dtype} {list(array.shape)}"
    fits = array.dtype == _numpy_dtype(spec)
    if spec.shape is not None:
        fits &= array.ndim == len(spec.shape)
        for expected, size in zip(spec.shape, array.shape, strict=False):
            # An expression of symbols, such as "n * 2", is left to the check of the compiled code.
            if isinstance(expected, str) and expected.isidentifier():
                fits &= symbols.setdefault(expected, size) == size
            elif isinstance(expected, int):
                fits &= expected == size
    if not fits:
        raise CommandError(f"{path}: array {spec.name!r} is {given}; expected {spec}")


def _require_tensor(spec: TensorSpec) -> None:
    if spec.dtype is None:
        raise CommandError(f"input {spec.name} is no tensor; tvmc run passes tensors only")


def _numpy_dtype(spec: TensorSpec) -> np.dtype[Any]:
    try:
        return np.dtype(str(spec.dtype))
    except TypeError as error:
        raise CommandError(f"{spec}: numpy has no such dtype") from error


def _flat(value: Any) -> list[Any]:
    """Return the tensors of a result, tuples taken apart."""
    if isinstance(value, tvm.runtime.Tensor):
        return [value]
    return [tensor for field in value for tensor in _flat(field)]


def _print_top(name: str, output: Array, count: int) -> None:
    flat = output.ravel()
    order = np.argsort(flat, kind="stable")[::-1][:count]
    print(f"{name} {list(output.shape)}, the {len(order)} largest of {flat.size}:")
    for index in order:
        place = ", ".join(str(int(i)) for i in np.unravel_index(index, output.shape))
        print(f"  [{place}]  {flat[index]:.6g}")


def _print_time(machine: Any, operands: list[Any], device: Any, repeat: int, number: int) -> None:
    """Time ``main`` by the virtual machine's evaluator, whose first run is not counted."""
    evaluate = machine.time_evaluator("main", device, repeat=repeat, number=number)
    result = evaluate(*operands)
    statistics = ("mean", "median", "std", "min", "max")
    print("".join(f"{name + ' (ms)':>14}" for name in statistics))
    print("".join(f"{getattr(result, name) * 1e3:14.4f}" for name in statistics))
