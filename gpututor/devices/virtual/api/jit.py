"""TorchScript on the virtual GPU.

Virtual tensors have no memory that C++ could save. So a saved module contains their values as CPU tensors, and names
their devices in an extra file of the archive. Every PyTorch can load it.
"""

from __future__ import annotations

import json
import os
import re
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import python_device, requested_device
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_CONVOLUTIONS = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}
_TRANSPOSED = {torch.conv_transpose1d: 1, torch.conv_transpose2d: 2, torch.conv_transpose3d: 3}
_NAMES = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_TRANSPOSED_NAMES = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")


class _OfThread(threading.local):
    is_tracing = False


_of_thread = _OfThread()


@contextmanager
def for_tracing() -> Iterator[None]:
    """Enter `ForTracing`, unless it is active: PyTorch traces again to check a trace."""
    if _of_thread.is_tracing:
        yield
        return
    _of_thread.is_tracing = True
    try:
        with ForTracing():
            yield
    finally:
        _of_thread.is_tracing = False


class ForTracing(TorchFunctionMode):
    """Function mode that replaces `aten::convolution`, which traces omit (torchgen's DONT_RECORD_TRACE)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _CONVOLUTIONS:
            return _convolution(_CONVOLUTIONS[func], dict(zip(_NAMES, args, strict=False)) | (kwargs or {}), False)
        if func in _TRANSPOSED:
            given = dict(zip(_TRANSPOSED_NAMES, args, strict=False)) | (kwargs or {})
            return _convolution(_TRANSPOSED[func], given, True)
        return func(*args, **(kwargs or {}))


def _each(value: Any, count: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def _convolution(dims: int, given: dict[str, Any], transposed: bool) -> torch.Tensor:
    x, weight = given["input"], given["weight"]
    dilation = _each(given.get("dilation", 1), dims)
    padding = given.get("padding", 0)
    if padding == "same":
        totals = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:], strict=True)]
        if any(total % 2 for total in totals):
            # An odd total pads one more on the right, as in Convolution.cpp.
            x = torch.nn.functional.pad(x, [side for total in reversed(totals) for side in (0, total % 2)])
        padding = [int(total) // 2 for total in totals]
    elif padding == "valid":
        padding = 0
    single = x.dim() == dims + 1
    out = torch._convolution(
        x.unsqueeze(0) if single else x,
        weight,
        given.get("bias"),
        _each(given.get("stride", 1), dims),
        _each(padding, dims),
        dilation,
        transposed,
        _each(given.get("output_padding", 0), dims),
        given.get("groups", 1),
        False,
        False,
        True,
        True,
    )
    return out.squeeze(0) if single else out


DEVICES_FILE = "virtual_gpu_devices.json"
_NO_CUDA = (
    *("PyTorch is not linked with support for cuda", "Cannot initialize CUDA without ATen_cuda"),
    # The error of a CUDA build without a GPU.
    *("CUDA driver version is insufficient", "Found no NVIDIA driver on your system"),
)
"""C++'s messages if a script moves a tensor to a GPU: C++ looks for a real GPU, unseen by modes."""
_GPU_NAME = re.compile(rb"cuda:\d+")
_ScriptModule: Any = torch_private.ScriptModule


def _tracing(real: Any) -> Any:
    def trace(*args: Any, **kwargs: Any) -> Any:
        with for_tracing():
            # C++ would save the example inputs with the trace.
            return real(*args, **{**kwargs, "_store_inputs": False})

    return trace


def make_stub(func: Any, name: str) -> Any:
    """Return what TorchScript compiles for a method: torch's own method instead of a replacement of it."""
    function = getattr(func, "__func__", func)
    is_replacement = getattr(function, "__globals__", {}).get("__name__", "").startswith("gpututor.devices.virtual.")
    return torch_private.make_script_stub(getattr(function, "__wrapped__", func) if is_replacement else func, name)


trace = _tracing(torch.jit.trace)
trace_module = _tracing(torch.jit.trace_module)
_real_load: Any = torch.jit.load


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _constants(graph: Any, kind: str) -> list[Any]:
    """Return the graph's constants of a kind: `t` for tensors, `s` for strings and devices."""
    nodes = [node for node in _nodes(graph) if node.kind() == "prim::Constant" and node.hasAttribute("value")]
    return [node for node in nodes if node.kindOf("value") == kind]


def _graphs(program: Any) -> list[Any]:
    if isinstance(program, torch.jit.ScriptFunction):
        return [program.graph]
    parts = [part._c for part in program.modules()]
    return [part._get_method(name).graph for part in parts for name in part._method_names()]


@dataclass(frozen=True)
class _Slot:
    """A tensor that a scripted module holds."""

    full_name: str
    owner: Any
    """The C++ module that holds it."""
    name: str
    value: torch.Tensor
    is_parameter: bool

    def put(self, value: torch.Tensor) -> None:
        self.owner.setattr(self.name, value)

    def like(self, value: torch.Tensor) -> torch.Tensor:
        """Return `value` as a parameter if the original is a parameter: C++ drops the Python class on loading."""
        return torch.nn.Parameter(value, self.value.requires_grad) if self.is_parameter else value


def _slots(program: Any) -> list[_Slot]:
    if isinstance(program, torch.jit.ScriptFunction):
        return []
    return [
        _Slot(f"{prefix}.{name}".lstrip("."), part._c, name, value, is_parameter)
        for prefix, part in program.named_modules()
        for is_parameter, held in ((True, part._parameters), (False, part._buffers))
        for name, value in held.items()
        if isinstance(value, torch.Tensor)
    ]


@contextmanager
def _values_on_host(program: Any) -> Iterator[dict[str, str]]:
    """Put CPU tensors in place of virtual ones inside the block; yield the device of each by name."""
    devices: dict[str, str] = {}
    undo: list[Any] = []
    cpu_tensors: dict[int, torch.Tensor] = {}
    try:
        for slot in _slots(program):
            value = slot.value
            if type(value) is not VirtualTensor:
                continue
            devices[slot.full_name] = str(value._device)
            if id(value) not in cpu_tensors:
                cpu_tensors[id(value)] = slot.like(value.detach().cpu())
            slot.put(cpu_tensors[id(value)])
            undo.append(partial(slot.put, value))
        places = set()
        for graph in _graphs(program):
            for node in _constants(graph, "t"):
                value = node.t("value")
                if value.dim():
                    places.add(str(value.device))
                if type(value) is VirtualTensor:
                    node.t_("value", value.detach().cpu())
                    undo.append(partial(node.t_, "value", value))
            for node in _constants(graph, "s"):
                text = node.s("value")
                if re.fullmatch(r"meta:\d", text):  # C++'s name of a virtual GPU
                    node.s_("value", text.replace("meta", "cuda"))
                    undo.append(partial(node.s_, "value", text))
        if len(places) > 1:
            raise cuda_errors.unsupported(
                "saving a traced function whose constants are on several devices", "Make them buffers of a module."
            )
        if places - {"cpu"}:
            devices[""] = places.pop()
        yield devices
    finally:
        for restore in reversed(undo):
            restore()


def _with_cuda_messages(real: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return real(*args, **kwargs)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            if error.args and isinstance(error.args[0], str):
                if any(words in error.args[0] for words in _NO_CUDA):
                    raise cuda_errors.unsupported(
                        "moving a tensor to a GPU inside TorchScript", "Move it before the call."
                    ) from None
                error.args = (cuda_errors.with_cuda_device_names(error.args[0]), *error.args[1:])
            raise

    return call


def _translated(real: Any) -> Any:
    return lambda self: cuda_errors.with_cuda_device_names(real(self))


graph_text = _translated(torch_private.Graph.__str__)
graph_repr = _translated(torch_private.Graph.__repr__)
code = property(_translated(_ScriptModule.code.fget))
method_call = _with_cuda_messages(torch_private.ScriptMethod.__call__)
function_call = _with_cuda_messages(torch.jit.ScriptFunction.__call__)


def _saving(real: Any) -> Any:
    def save(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _values_on_host(self) as devices:
            if not devices:
                return real(self, *args, **kwargs)
            extra = {**(kwargs.pop("_extra_files", None) or {}), DEVICES_FILE: json.dumps(devices)}
            return real(self, *args, _extra_files=extra, **kwargs)

    return save


save = _saving(_ScriptModule.save)
save_to_buffer = _saving(_ScriptModule.save_to_buffer)
function_save = _saving(torch.jit.ScriptFunction.save)
function_save_to_buffer = _saving(torch.jit.ScriptFunction.save_to_buffer)


def _refusing(real: Any, call: str) -> Any:
    """Return a function that rejects programs with virtual tensors: C++ would read their memory."""

    def refuse(program: Any, *args: Any, **kwargs: Any) -> Any:
        if any(type(slot.value) is VirtualTensor for slot in _slots(program)):
            raise cuda_errors.unsupported(f"{call} on a device", "Move the module to the CPU first.")
        return real(program, *args, **kwargs)

    return refuse


freeze = _refusing(torch.jit.freeze, "torch.jit.freeze")
optimize_for_inference = _refusing(torch.jit.optimize_for_inference, "torch.jit.optimize_for_inference")
save_for_mobile = _refusing(_ScriptModule._save_for_lite_interpreter, "saving a module for mobile devices")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """Read a file on the CPU, then move it to the devices of `map_location` or of the file."""
    device = None if map_location is None else requested_device(map_location)
    written = _location_in_file(f) if device is None else ""
    extra = {**(_extra_files or {}), DEVICES_FILE: ""}
    program = _real_load(f, "cpu", extra, _restore_shapes)
    text = extra.pop(DEVICES_FILE)
    if _extra_files is not None:
        _extra_files.update(extra)
    devices: dict[str, str] = json.loads(text) if text else {}
    if devices and device is None:
        chosen = {name: python_device(place) for name, place in devices.items()}
        _place(program, chosen, chosen.get(""))
    elif device is not None or written:
        device = device or python_device(written)
        _place(program, {slot.full_name: device for slot in _slots(program)}, device)
    return program


def _location_in_file(f: Any) -> str:
    """Return the GPU of the tensors in a file that was saved on CUDA; empty if there is none."""
    is_path = isinstance(f, str | os.PathLike)
    start = None if is_path else f.tell()
    try:
        with zipfile.ZipFile(f) as archive:
            pickles = [name for name in archive.namelist() if name.endswith(("/data.pkl", "/constants.pkl"))]
            names = [match for name in pickles for match in _GPU_NAME.findall(archive.read(name))]
    except (zipfile.BadZipFile, FileNotFoundError, ValueError):
        return ""  # torch.jit.load raises its own error
    finally:
        if start is not None:
            f.seek(start)
    return names[0].decode() if names else ""


def _place(program: Any, chosen: dict[str, torch.device], constants: torch.device | None) -> None:
    moved: dict[int, torch.Tensor] = {}
    for slot in _slots(program):
        device = chosen.get(slot.full_name)
        if device is None or device.type != "cuda":
            continue
        if id(slot.value) not in moved:
            moved[id(slot.value)] = slot.like(slot.value.detach().to(device))
        slot.put(moved[id(slot.value)])
    if constants is None or constants.type != "cuda":
        return
    for graph in _graphs(program):
        for node in _constants(graph, "t"):
            value = node.t("value")
            if value.dim():
                node.t_("value", value.to(constants))
