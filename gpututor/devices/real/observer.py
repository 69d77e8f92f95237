"""The dispatch mode that observes a real device: operators, copies and the waits that belong to them.

Compilers do not trace the mode, so the observer does not change compiled code. The mode sees the operators that
compiled code calls; `gpututor.devices.real.patched_calls` sees its generated kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.real.observation import Observation
from gpututor.devices.real.timers import Lap, Stopwatch
from gpututor.devices.recorder import Place
from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.execution.costs import flops_of
from gpututor.devices.virtual.operator_registry import Operator, operator_of
from gpututor.devices.virtual.operators.operands import bytes_of
from gpututor.trace.events import compute_dtype

aten = torch.ops.aten
Tensor = torch.Tensor
_COLLECTIVES = frozenset({"c10d", "_c10d_functional"})
_CPU = torch.device("cpu")


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _dtypes(values: Any) -> Iterator[str]:
    return (str(tensor.dtype)[6:] for tensor in _tensors(values))


def _at(places: Iterable[int | str], args: Any, kwargs: Any) -> Iterator[Any]:
    """Yield the arguments at these positions and with these names, if the call has them."""
    for place in places:
        if isinstance(place, str):
            yield kwargs.get(place)
        elif place < len(args):
            yield args[place]


def _device_of(args: Any, kwargs: Any) -> torch.device:
    """Return the accelerator of one of the tensors or of the `device` argument; else the CPU."""
    for tensor in (*_tensors(args), *_tensors(kwargs.values())):
        if tensor.device.type != "cpu":
            return tensor.device
    device = kwargs.get("device")
    return _CPU if device is None else torch.device(device)


def _run(func: Any, op: Operator, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator below the mode, hidden from the profiler, which has already seen its first dispatch."""
    if func.namespace == "profiler" or not torch_private.profiler_is_on():
        return func(*args, **kwargs)  # `profiler` operators are the program's own named ranges
    if op.made_of_others is not None and not torch_private.has_kernel(func.name()):
        return op.made_of_others(*args, **kwargs)
    with torch_private.unprofiled():
        return func(*args, **kwargs)


class ObservingMode(TorchDispatchMode):
    """Sees each operator after autograd, as a device does.

    Autograd's threads run in the mode too. Their work belongs to the line at which the observed thread waits for them.
    """

    def __init__(self, observation: Observation) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._observation = observation
        self._recorder = observation.recorder

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True, so that `torch.compile` works while this mode is on, without tracing it."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if (types and torch_private.is_traced(types)) or self._observation.is_unobserved():
            return func(*args, **kwargs)
        if types and torch_private.has_own_dispatch(types):
            return NotImplemented  # the tensor's class runs next, and this mode sees the operators that it calls
        if not isinstance(func, torch_private.OPERATOR):
            return self._higher_order(func, args, kwargs)
        op = operator_of(func)
        if op.custom:
            return self._custom(func, op, args, kwargs)
        if op.composite:
            with self:
                return torch_private.run_composite(func, *args, **kwargs)
        if func is aten.lift_fresh.default:
            return self._lifted(_run(func, op, args, kwargs))
        is_read = func is aten._local_scalar_dense.default
        if not (op.is_kernel or op.is_plain or is_read):
            return _run(func, op, args, kwargs)
        device = _device_of(args, kwargs)
        if not self._recorder.enabled:
            self._recorder.unseen(device.type)
            return _run(func, op, args, kwargs)
        if func is aten.copy_.default and args[1].device.type != "cpu":
            device = args[1].device  # between two GPUs, the source copies
        watch = self._observation.watch_of(device)
        if watch is None:
            return _run(func, op, args, kwargs)
        runs = op.is_kernel or is_read
        lap = watch.start() if runs else Lap(-1)
        try:
            out = _run(func, op, args, kwargs)
        except BaseException as error:
            watch.drop(lap)
            if isinstance(error, torch.OutOfMemoryError):
                self._observation.record_out_of_memory(device, error, lap.stream, self._observation.place())
            raise
        if type(out) is not Tensor and torch_private.is_traced((type(out),)):
            watch.drop(lap)  # a factory call that a compiler traces
            return out
        if runs:
            self._write(func, op, (args, kwargs), out, (device, watch, lap))
        if op.is_plain:
            self._memory(device, out, lap.stream)
        return out

    def _higher_order(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run a higher-order operator, such as `torch.cond`, and observe the functions that it calls."""
        if torch_private.is_traced(map(type, _tensors(args))):
            return func(*args, **kwargs)
        body = torch_private.higher_order_body(func)
        if body is None:
            return func(*map(self._seen, args), **kwargs)
        with self:
            return body(*args, **kwargs)

    def _seen(self, argument: Any) -> Any:
        """Wrap a function to run in this mode; return any other argument unchanged."""
        if not callable(argument) or isinstance(argument, Tensor):
            return argument

        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return argument(*args, **kwargs)

        return call

    def _custom(self, func: Any, op: Operator, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run a custom operator. If its body launches no recorded kernels, record it as one kernel."""
        device = _device_of(args, kwargs)
        kernel = torch_private.kernel_of(func, device.type.upper())
        watch = self._observation.watch_of(device)
        if kernel is None or watch is None or not self._recorder.enabled:
            return func(*args, **kwargs)
        lap, before = watch.start(), len(self._recorder.trace)
        try:
            with self, torch_private.below_autograd_of(func):
                out = kernel.call_boxed(torch_private.keys(device.type.upper()), *args, **kwargs)
        except BaseException:
            watch.drop(lap)
            raise
        if len(self._recorder.trace) > before or not op.is_kernel:
            watch.drop(lap)
        else:
            self._kernel(func, op, (args, kwargs), out, (device, watch, lap))
        return out

    def _lifted(self, tensor: Tensor) -> Tensor:
        """Record the copy of values to an accelerator: `torch.tensor` and others lift the finished tensor."""
        device, recorder = tensor.device, self._recorder
        watch = None if device.type == "cpu" else self._observation.watch_of(device)
        if watch is None:
            return tensor
        if not recorder.enabled:
            recorder.unseen(device.type)
            return tensor
        lap = watch.start()
        watch.drop(lap)  # the copy is over: its times are unknown
        name, place = self._observation.name_of(device), self._observation.place()
        recorder.transfer("cpu", name, bytes_of(tensor), stream=lap.stream, launched=lap.launched, place=place)
        self._memory(device, tensor, lap.stream)
        return tensor

    def _write(self, func: Any, op: Operator, call: Any, out: Any, launch: tuple[torch.device, Stopwatch, Lap]) -> None:
        """Record an operator that was launched, and returned `out`."""
        (args, kwargs), (device, watch, lap) = call, launch
        if func is aten._to_copy.default:
            non_blocking = bool(kwargs.get("non_blocking", False))
            self._copy(args[0], out, non_blocking, op.name, watch, lap)
        elif func is aten.copy_.default:
            non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
            self._copy(args[1], args[0], non_blocking, op.name, watch, lap)
        elif func is aten._local_scalar_dense.default:
            self._observation.reads += 1
            watch.stop(lap, waited=True)
            if device.type != "cpu":
                self._to_host(self._observation.name_of(device), args[0].element_size(), op.name, watch, lap)
        elif func.namespace in _COLLECTIVES:
            watch.drop(lap)
            first = func._schema.arguments[0].name if func._schema.arguments else ""
            sent = args[1:2] if func.namespace == "c10d" and first.startswith("output") else args[:1]
            name = self._observation.name_of(device)
            size = sum(map(bytes_of, _tensors(sent)))
            self._recorder.collective(op.name, name, size, stream=lap.stream, launched=lap.launched)
        else:
            self._kernel(func, op, call, out, (device, watch, lap))

    def _kernel(
        self, func: Any, op: Operator, call: Any, out: Any, launch: tuple[torch.device, Stopwatch, Lap]
    ) -> None:
        (args, kwargs), (device, watch, lap) = call, launch
        waits = device.type != "cpu" and op.waits is not None and op.waits(args, kwargs)
        watch.stop(lap, waited=waits)
        recorder, name, place = self._recorder, self._observation.name_of(device), self._observation.place()
        size = sum(map(bytes_of, (*_tensors([out]), *_tensors(args), *_tensors(kwargs.values()))))
        flops = flops_of(func, args, kwargs, out)
        if self._observation.captured(device, size, flops):
            watch.drop(lap)
            return
        if device.type != "cpu":
            for index in _tensors(_at(op.host_places, args, kwargs)):
                if index.device.type == "cpu":
                    recorder.transfer("cpu", name, bytes_of(index), name=op.name, launched=lap.launched, place=place)
        # A tensor changed in place counts twice, as an argument and as a result: it is read and written.
        row = recorder.kernel(
            op.name,
            name,
            size,
            stream=lap.stream,
            flops=flops,
            dtype=compute_dtype(_dtypes((*args, *kwargs.values())), _dtypes([out])),
            launched=lap.launched,
            start=lap.start,
            end=lap.end if lap.start >= 0 else -1,
            place=place,
        )
        watch.keep(lap, row)
        if waits:
            self._waited(name, op.name, watch, lap, place)

    def _copy(self, source: Tensor, target: Tensor, non_blocking: bool, name: str, watch: Stopwatch, lap: Lap) -> None:
        """Record a copy as CUDA does it; see `gpututor.devices.virtual.tensors.moves`."""
        recorder, place = self._recorder, self._observation.place()
        start, end = self._observation.name_of(source.device), self._observation.name_of(target.device)
        count = target.numel()
        source_bytes, target_bytes = count * source.element_size(), count * target.element_size()
        both = source_bytes + target_bytes
        if self._observation.captured(target.device, both, 0.0):
            watch.drop(lap)
            return
        times: dict[str, Any] = {"stream": lap.stream, "launched": lap.launched, "place": place}
        if start == end:
            watch.stop(lap)
            if lap.start >= 0:
                times |= {"start": lap.start, "end": lap.end}
            watch.keep(lap, recorder.kernel(name, start, both, **times))
        elif start == "cpu":
            watch.stop(lap)
            pinned = non_blocking and source.is_pinned()
            size = source_bytes if non_blocking else target_bytes
            watch.keep(lap, recorder.transfer(start, end, size, pinned, name, **times))
            if source.dtype is not target.dtype and non_blocking:
                # The copy's times are those of both.
                recorder.kernel("aten::copy_", end, both, **times)
        elif end != "cpu" or (non_blocking and target.is_pinned()):
            watch.stop(lap)
            watch.keep(lap, recorder.transfer(start, end, target_bytes, True, name, **times))
        else:
            watch.stop(lap, waited=True)
            self._to_host(start, target_bytes if non_blocking else source_bytes, name, watch, lap)

    def _to_host(self, device: str, size_bytes: int, name: str, watch: Stopwatch, lap: Lap) -> None:
        """Record a copy to the host, which waited for it."""
        place = self._observation.place()
        row = self._recorder.transfer(
            device, "cpu", size_bytes, name=name, stream=lap.stream, launched=lap.launched, place=place
        )
        watch.keep(lap, row)
        self._waited(device, name, watch, lap, place)

    def _waited(self, device: str, name: str, watch: Stopwatch, lap: Lap, place: Place | None) -> None:
        self._recorder.synchronize(
            name, device, stream=lap.stream, launched=lap.launched, start=lap.launched, end=lap.end, place=place
        )
        watch.host_waited()

    def _memory(self, device: torch.device, out: Any, stream: int) -> None:
        """Record new memory of an accelerator, but not of the CPU."""
        if device.type == "cpu":
            return
        for tensor in _tensors([out]):
            if tensor.device.type != "cpu":
                self._observation.record_allocation(tensor, stream, self._observation.place())
