"""Watches real devices (cpu, cuda, mps, xpu) and records what they do, by the recorder's conventions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual.operators.inputs import bytes_of
from gpututor.devices.virtual.operators.overloads import operator_of

aten = torch.ops.aten
Tensor = torch.Tensor


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _at(places: Iterable[int | str], args: Any, kwargs: Any) -> Iterator[Any]:
    """The arguments at these positions and of these names, as far as the call has them."""
    for place in places:
        if isinstance(place, str):
            yield kwargs.get(place)
        elif place < len(args):
            yield args[place]


def name_of(device: torch.device) -> str:
    """`cuda:0`; a device without a number is the first of its kind."""
    return "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"


class ObservingMode(TorchDispatchMode):
    """Sees each operator after autograd, as a device does."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        op = operator_of(func)
        if op.composite:
            with self:
                return func.decompose(*args, **kwargs)
        out = func(*args, **kwargs)
        recorder = self.recorder
        if not recorder.enabled:
            return out
        if func is aten._to_copy.default:
            source = args[0]
            self._copy(source, out, bool(kwargs.get("non_blocking", False)), "aten::_to_copy")
        elif func is aten.copy_.default:
            non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
            self._copy(args[1], args[0], non_blocking, "aten::copy_")
        elif func is aten._local_scalar_dense.default:
            device = name_of(args[0].device)
            if device != "cpu":
                recorder.transfer(device, "cpu", args[0].element_size(), name="aten::_local_scalar_dense")
                recorder.synchronise("aten::_local_scalar_dense", device)
        elif op.is_kernel:
            self._kernel(op, out, args, kwargs)
        return out

    def _kernel(self, op: Any, out: Any, args: Any, kwargs: Any) -> None:
        found = [*_tensors([out]), *_tensors(args), *_tensors(kwargs.values())]
        devices = [name_of(one.device) for one in found]
        device = next((one for one in devices if one != "cpu"), "cpu" if devices else "")
        if not device:
            return
        if device != "cpu":
            for index in _tensors(_at(op.host_places, args, kwargs)):
                if index.device.type == "cpu":
                    self.recorder.transfer("cpu", device, bytes_of(index), name=op.name)
        # What is written in place is among the arguments and the results: it is read, and it is written.
        self.recorder.kernel(op.name, device, sum(map(bytes_of, found)))
        if device != "cpu" and op.waits is not None and op.waits(args):
            self.recorder.synchronise(op.name, device)

    def _copy(self, source: Tensor, target: Tensor, non_blocking: bool, name: str) -> None:
        """As CUDA copies; see `gpututor.devices.virtual.tensors.moves`."""
        start, end = name_of(source.device), name_of(target.device)
        count = target.numel()
        source_bytes, target_bytes = count * source.element_size(), count * target.element_size()
        converts = source.dtype is not target.dtype
        if start == end:
            self.recorder.kernel(name, start, source_bytes + target_bytes)
        elif start == "cpu":
            pinned = non_blocking and source.is_pinned()
            self.recorder.transfer(start, end, source_bytes if non_blocking else target_bytes, pinned, name)
            if converts and non_blocking:
                self.recorder.kernel("aten::copy_", end, source_bytes + target_bytes)
        elif end == "cpu":
            pinned = non_blocking and target.is_pinned()
            self.recorder.transfer(start, end, target_bytes if non_blocking else source_bytes, pinned, name)
            if not pinned:
                self.recorder.synchronise(name, start)
        else:
            self.recorder.transfer(start, end, target_bytes, True, name)


def _waiting(recorder: Recorder, real: Callable[..., Any], name: str, device_of: Callable[[Any], str]) -> Any:
    def synchronize(device: Any = None) -> Any:
        recorder.synchronise(name, device_of(device))
        return real(device) if device is not None else real()

    return synchronize


def _printing(recorder: Recorder, real: Callable[..., str]) -> Any:
    """Printing reads elements one by one: written down as one copy and one wait, as for the virtual GPU."""

    def __repr__(self: Tensor, **kwargs: Any) -> str:
        device = name_of(self.device)
        was_enabled = recorder.enabled
        if device != "cpu" and device.split(":")[0] != "meta":
            recorder.transfer(device, "cpu", bytes_of(self), name="print")
            recorder.synchronise("print", device)
        recorder.enabled = False
        try:
            return real(self, **kwargs)
        finally:
            recorder.enabled = was_enabled

    return __repr__


@contextmanager
def observe(recorder: Recorder) -> Iterator[None]:
    """Record what real devices do in this thread, for the time of the block; the virtual GPU records by itself.

    A dispatch mode, and wrappers of the calls that do not dispatch; all are gone after the block.
    """

    def of_kind(kind: str) -> Callable[[Any], str]:
        def device_of(device: Any) -> str:
            if device is None or isinstance(device, int):
                module = getattr(torch, kind)
                index = device if device is not None else (module.current_device() if kind != "mps" else 0)
                return f"{kind}:{index}"
            return name_of(torch.device(device))

        return device_of

    def of_accelerator(device: Any) -> str:
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is None:
            return "cpu"
        index = torch.accelerator.current_device_index() if device is None else torch.device(device).index
        return f"{accelerator.type}:{index or 0}"

    wrapped: list[tuple[Any, str, Any]] = [(Tensor, "__repr__", _printing(recorder, Tensor.__repr__))]
    for kind in ("cuda", "mps", "xpu"):
        module = getattr(torch, kind)
        name = f"torch.{kind}.synchronize"
        wrapped.append((module, "synchronize", _waiting(recorder, module.synchronize, name, of_kind(kind))))
    name = "torch.accelerator.synchronize"
    wrapped.append(
        (torch.accelerator, "synchronize", _waiting(recorder, torch.accelerator.synchronize, name, of_accelerator))
    )
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in wrapped]
    for owner, name, replacement in wrapped:
        setattr(owner, name, replacement)
    try:
        with ObservingMode(recorder):
            yield
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)
