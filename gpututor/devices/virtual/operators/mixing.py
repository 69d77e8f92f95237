"""Which tensors of an operator are on which device, and CUDA's words when they differ."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import torch

from gpututor.devices.virtual.operators.overloads import Operator

# Elementwise, reducing and indexing kernels check through TensorIterator, which names no argument
# (device_check: NoCheck in native_functions.yaml).
# fmt: off
_UNNAMED = frozenset({
    "_index_put_impl_", "all", "aminmax", "any", "argmax", "argmin", "binary_cross_entropy", "copy_", "cumprod",
    "cumsum", "index", "index_put", "index_put_", "lerp", "masked_fill", "masked_fill_", "max", "mean", "min",
    "mse_loss", "norm", "smooth_l1_loss", "std", "sum", "var", "where",
})
# fmt: on
# What an operator runs on CUDA where that is another one: its name, and the names of its arguments in CUDA's order.
_RUNS_AS = {
    "linear": ("addmm", {"bias": "self", "input": "mat1", "weight": "mat2"}),
    "embedding": ("index_select", {"weight": "self", "indices": "index"}),
    "stack": ("cat", {"tensors": "tensors"}),
    "_sparse_addmm": ("addmm", {"self": "self", "mat1": "mat1", "mat2": "mat2"}),
}


def is_stray(index: Any, device: torch.device) -> bool:
    """Whether an index tensor is on a GPU other than `device`; CPU index tensors may stand anywhere."""
    return isinstance(index, torch.Tensor) and index.is_cuda and index.device != device


def has_strays(args: tuple[Any, ...]) -> bool:
    """Whether the indices of an `index_put`, or its single value, are elsewhere than the tensor that it writes to."""
    target, indices, value = args[:3]
    device = target.device
    return any(is_stray(one, device) for one in indices) or (value.dim() == 0 and is_stray(value, device))


def _tensors(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    found = []
    # A wrapper looks at what it writes to before its inputs (torchgen/dest/register_dispatch_key.py).
    outs = [name for name in op.out_names if name in kwargs]
    others = [name for name in kwargs if name not in outs]
    places: list[tuple[int | str, Any]] = [
        *((name, kwargs[name]) for name in outs),
        *enumerate(args),
        *((name, kwargs[name]) for name in others),
    ]
    for where, value in places:
        if where in op.host_places:
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            scalars_count = op.checks_scalars or where in op.written_places
            if isinstance(one, torch.Tensor) and (one.dim() or one.is_cuda or scalars_count):
                found.append((op.argument(where), one))
    return found


@cache
def _wrappers() -> frozenset[str]:
    """The C++ functions that compare devices, by name, from `wrappers.toml`."""
    text = (Path(__file__).parent / "wrappers.toml").read_text(encoding="utf-8")
    return frozenset(
        f"wrapper_{key}_{name}" for key, names in tomllib.loads(text).items() for name in str(names).split()
    )


def _wrapper_name(op: Operator, kernel: str, tensors: list[tuple[str, torch.Tensor]], of_operator: bool) -> str | None:
    """What PyTorch's generator calls the C++ function that compares devices; None where no such one does.

    A structured kernel's name ends with its overload's, another's begins with it
    (torchgen/dest/register_dispatch_key.py).
    """
    overload = op.func._overloadname if of_operator else ""
    if overload == "default":
        overload = ""
    ending = "_out" if of_operator and op.out_names else ""
    layouts = {one.layout for _, one in tensors}
    if layouts == {torch.strided}:
        key = "CUDA"
    else:
        key = "SparseCUDA" if layouts <= {torch.strided, torch.sparse_coo} else "SparseCsrCUDA"
    structured = f"wrapper_{key}_{kernel}{ending}" + (f"_{overload}" if overload else "")
    return next(
        (name for name in (structured, f"wrapper_{key}_{overload}_{kernel}{ending}") if name in _wrappers()), None
    )


def _is_pointwise(op: Operator) -> bool:
    # `equal` is tagged pointwise, and has a kernel of its own; overloads with out= have lost the tag.
    packet = op.func.overloadpacket
    if packet.__name__ == "equal":
        return False
    return any(torch.Tag.pointwise in getattr(packet, name).tags for name in packet.overloads())


def explain(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RuntimeError | None:
    """The error for an operator whose tensors are on more than one device.

    None for one that compares no devices itself: those that it is made of do.
    """
    tensors = _tensors(op, args, kwargs)
    short = op.func.overloadpacket.__name__
    if short in ("convolution", "_convolution", "convolution_overrideable"):
        by_name = dict(tensors)
        if by_name["input"].device.type != by_name["weight"].device.type:
            ending = " or input should be a MKLDNN tensor and weight is a dense tensor"
            types = f"Input type ({by_name['input'].type()}) and weight type ({by_name['weight'].type()})"
            return RuntimeError(f"{types} should be the same" + ("" if by_name["input"].is_cuda else ending))
    if op.reads_at_indices:
        # check_indices_on_cpu_or_selfdevice in TensorAdvancedIndexing.cpp.
        return RuntimeError(
            f"indices should be either on cpu or on the same device as the indexed tensor ({args[0].device})"
        )
    if op.puts_at_indices and args[0].is_cuda and (args[3] if len(args) > 3 else kwargs.get("accumulate", False)):
        return RuntimeError(f"expected device {args[0].device} but got device {args[2].device} for value tensor")
    kernel, renamed = _RUNS_AS.get(short, (short, {}))
    if renamed:
        tensors = sorted(
            [(renamed[name], one) for name, one in tensors if name in renamed],
            key=lambda pair: list(renamed.values()).index(pair[0]),
        )
    if short in ("add", "add_") and any(one.layout is torch.sparse_coo for _, one in tensors):
        # add_out_sparse_cuda in aten/src/ATen/native/sparse/cuda/SparseCUDATensorMath.cu.
        host = next((name for name, one in tensors if one.device.type == "cpu"), None)
        if host is not None:
            return RuntimeError(f"add: expected '{host}' to be a CUDA tensor, but got a CPU tensor")
    if _is_pointwise(op) or short in _UNNAMED or short.startswith("_foreach"):
        return _two_devices(tensors)
    wrapper = _wrapper_name(op, kernel, tensors, kernel == short)
    if wrapper is None:
        return None if op.made_of_others is not None else _two_devices(tensors)
    first = tensors[0][1].device
    name, other = next((name, one.device) for name, one in tensors if one.device != first)
    return RuntimeError(
        f"Expected all tensors to be on the same device, but got {name} is on {other}, different from other tensors on "
        f"{first} (when checking argument in method {wrapper})"
    )


def _two_devices(tensors: list[tuple[str, torch.Tensor]]) -> RuntimeError:
    """TensorIterator's words: it takes the first GPU that it meets as the common device, wherever the CPU's stands."""
    devices = list(dict.fromkeys(one.device for _, one in tensors))
    devices.sort(key=lambda device: device.type == "cpu")
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {devices[0]} and {devices[1]}!"
    )
