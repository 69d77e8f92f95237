"""Collectives and their reductions, carried by gloo.

torch's Python calls, and DDP's reducer in C++, all end in operators of the namespaces `c10d` and `_c10d_functional`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.virtual import cuda_errors, execution, torch_private
from gpututor.devices.virtual.distributed import communicator
from gpututor.devices.virtual.distributed import communicator as lending
from gpututor.devices.virtual.distributed.communicator import Rendezvous, carrier_of, communicator_of, is_nccl
from gpututor.devices.virtual.distributed.sync_batch_norm import sync_norm_rules
from gpututor.devices.virtual.distributed.work import CollectiveWork
from gpututor.devices.virtual.machine import active_machine
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.operator_registry import Rule
from gpututor.devices.virtual.operators.operands import bytes_of, wrap
from gpututor.devices.virtual.tensors.tensor import VirtualTensor


class _Caught(Exception):
    pass


class _Catching(TorchDispatchMode):
    """Keeps the reduction that an operator is called with, in the form in which operators take it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reduction: Any = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.reduction = args[2]
        raise _Caught


_known: dict[str, Any] = {}


def summing() -> Any:
    """`ReduceOp.SUM`, as the operators of `c10d` take it."""
    if "sum" not in _known:
        catching = _Catching()
        try:
            with catching:
                torch_private.group_of_none().allreduce([torch.empty(1)])
        except _Caught:
            _known["sum"] = catching.reduction
    return _known["sum"]


def is_average(reduction: Any) -> bool:
    """Whether a reduction, as the operators of `c10d` take it, is `ReduceOp.AVG`: gloo says so when it is asked."""
    if "alone" not in _known:
        _known["alone"] = torch_private.lonely_group()
    try:
        with torch_private.host_only(), torch_private.function_modes_aside():
            value = torch.zeros(1)
            work = torch.ops.c10d.allreduce_([value], _known["alone"].boxed(), reduction, None)[1]
            communicator.lend([value])
            torch_private.CollectiveWork.unbox(work).wait()
    except (RuntimeError, ValueError) as error:
        return "ReduceOp.AVG" in str(error)
    return False


class Dividing:
    """Called when a sum has arrived."""

    def __init__(self, hosts: list[torch.Tensor], count: int) -> None:
        self._hosts = hosts
        self._count = count

    def __call__(self) -> None:
        with torch_private.host_only():
            for host in self._hosts:
                if host.is_floating_point() or host.is_complex():
                    host.div_(self._count)
                else:
                    host.div_(self._count, rounding_mode="trunc")


# Their first argument is written, their second is sent.
# fmt: off
_OUTPUTS_FIRST = frozenset({
    "_allgather_base_", "_reduce_scatter_base_", "allgather_", "allgather_coalesced_",
    "allgather_into_tensor_coalesced_", "alltoall_", "alltoall_base_", "gather_", "reduce_scatter_",
    "reduce_scatter_tensor_coalesced_", "scatter_",
})
_IN_PLACE = frozenset({"allreduce_", "allreduce_coalesced_", "broadcast_", "recv_", "recv_any_source_", "reduce_"})
# fmt: on
_FLAT = frozenset({"_allgather_base_", "_reduce_scatter_base_"})
"""NCCL counts their elements, gloo looks at their shapes."""
_SENDING = frozenset({"barrier", "send"})
_WITHOUT_A_THREAD = frozenset({"recv_", "recv_any_source_", "send"})
"""Gloo starts these in the caller's thread."""
_KNOWN = _OUTPUTS_FIRST | _IN_PLACE | _SENDING


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """The tensors in `values`, lists within lists included."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from tensors_in(value)


class Unwrapped:
    """The arguments of a collective with CPU tensors in the place of virtual ones, and the group to match."""

    def __init__(self, values: Any) -> None:
        self.by_host: dict[int, VirtualTensor] = {}
        self.group: Any = None
        self.values: list[Any] = [self._host(value) for value in values]

    def _host(self, value: Any) -> Any:
        if type(value) is VirtualTensor:
            active_machine().home(value._device)
            host = lending.keep_alive_until_done(value._host)
            self.by_host[id(host)] = value
            return host
        if isinstance(value, torch.Tensor):
            # As NCCL's check_gpu_single_tensor (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp).
            raise ValueError("Tensors must be CUDA and dense")
        if type(value) is list or type(value) is tuple:
            return [self._host(one) for one in value]
        if torch_private.script_class(value) == "ProcessGroup":
            self.group = torch_private.ProcessGroup.unbox(value)
            return carrier_of(self.group)[0].boxed()
        return value

    @property
    def device(self) -> torch.device:
        return next(iter(self.by_host.values()))._device


def _collective(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator of the namespace `c10d`."""
    name = func.overloadpacket.__name__
    if name not in _KNOWN:
        raise cuda_errors.unsupported(f"{func._schema.name} on a device")
    unwrapped = Unwrapped(args)
    hosts, group = unwrapped.values, unwrapped.group
    if is_nccl(group):
        if not all(one.is_contiguous() for one in tensors_in(args)):
            raise ValueError("Tensors must be contiguous")
        if name in _FLAT:
            hosts[:2] = [one.view(-1) for one in hosts[:2]]
    finish = None
    for position, value in enumerate(hosts):
        if torch_private.script_class(value) == "ReduceOp" and is_average(value):
            hosts[position] = summing()
            finish = Dividing(list(tensors_in(hosts[0])), group.size())
    _refuse_in_graphs(func, unwrapped)
    in_a_thread = name not in _WITHOUT_A_THREAD
    with torch_private.function_modes_aside():
        out = func(*hosts, **kwargs)
    if in_a_thread:
        lending.lend(tensors_in(hosts))
    if out is None:
        return None
    written = [] if name in _SENDING else list(tensors_in(args[0]))
    used = list(unwrapped.by_host.values())
    done = CollectiveWork(out[1] if type(out) is tuple else out, written, finish, in_a_thread, used)
    sent = args[1] if name in _OUTPUTS_FIRST else args[0]
    size_bytes = sum(map(bytes_of, tensors_in(sent)))
    done.meeting = _on_the_clock(func, args, unwrapped, size_bytes, done)
    return (args[0], done.boxed()) if type(out) is tuple else done.boxed()


def _on_the_clock(func: Any, args: Any, unwrapped: Unwrapped, size_bytes: int, done: CollectiveWork) -> Rendezvous:
    """Put an operator of `c10d` on the clock and into the trace."""
    machine, name = active_machine(), func.overloadpacket.__name__
    group = communicator_of(unwrapped.group)
    row = _recorded(func, unwrapped, size_bytes, group.stream_of(name))
    gpu = machine.home(unwrapped.device)
    what = (machine, gpu, func._schema.name)
    if name == "send":
        meeting = group.send(*what, size_bytes, row, args[2], args[3])
    elif name == "recv_":
        meeting = group.receive(*what, size_bytes, row, args[2], args[3])
    elif name == "recv_any_source_":
        meeting = group.receive(*what, size_bytes, row, done.sender, args[2])
    else:
        # The root's part is known to the root alone; others send nothing.
        whole = bytes_of(args[0]) * group.size if name == "scatter_" else size_bytes
        meeting = group.meet(*what, whole, row)
    written = [] if name in _SENDING else list(tensors_in(args[0]))
    execution.races.together(machine, meeting.task, unwrapped.by_host.values(), written)
    return meeting


def _recorded(func: Any, unwrapped: Unwrapped, size_bytes: int, stream: int) -> int:
    """The event in the trace."""
    machine = active_machine()
    gpu = machine.home(unwrapped.device)
    launched = machine.clock.host.now + gpu.launch_ns
    return machine.recorder.collective(func._schema.name, gpu.name, size_bytes, stream=stream, launched=launched)


def _refuse_in_graphs(func: Any, unwrapped: Unwrapped) -> None:
    machine = active_machine()
    gpu = machine.home(unwrapped.device)
    if execution.waits.is_captured(machine, gpu):
        assert machine.capture is not None
        machine.capture.failed = True
        raise cuda_errors.unsupported(f"{func._schema.name} in CUDA graphs")


_owed: WeakKeyDictionary[Allocation, Rendezvous] = WeakKeyDictionary()
"""By the memory of what a functional collective gave: what its first use waits for."""


def _functional(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator of the namespace `_c10d_functional`: it names its group, and its result is waited for by torch."""
    unwrapped = Unwrapped([*args, *kwargs.values()])
    given_tensors = list(unwrapped.by_host.values())
    if func.overloadpacket.__name__ == "_wrap_tensor_autograd":
        # torch wraps a result so that its first use waits; this waits at once.
        done = torch.ops._c10d_functional.wait_tensor(unwrapped.values[0])
        _waited(given_tensors)
        return wrap(done.detach(), given_tensors, unwrapped.device)
    names = [one.name for one in func._schema.arguments]
    given = dict(zip([*names[: len(args)], *kwargs], unwrapped.values, strict=True))
    if "group_name" not in given:
        with torch_private.function_modes_aside():
            out = func(**given)
        _waited(given_tensors)
        return _on_device(out, unwrapped)
    group = unwrapped.group
    if group is None:
        # As a name, or as the group itself, which Python did not yet hand to C++.
        group = given["group_name"]
        group = torch_private.process_group_named(group) if isinstance(group, str) else group
        given["group_name"] = carrier_of(group)[1]
    _refuse_in_graphs(func, unwrapped)
    averages = str(given.get("reduce_op", "")).lower() == "avg"
    if averages:
        given["reduce_op"] = "sum"
    with torch_private.function_modes_aside():
        out = func(**given)
    lending.lend(tensors_in([*unwrapped.values, out]))
    for one in tensors_in(out) if averages else ():
        torch.ops._c10d_functional.wait_tensor(one).div_(group.size())
    size_bytes = sum(map(bytes_of, tensors_in(args)))
    communicator, machine = communicator_of(group), active_machine()
    row = _recorded(func, unwrapped, size_bytes, communicator.stream)
    meeting = communicator.meet(machine, machine.home(unwrapped.device), func._schema.name, size_bytes, row)
    found = _on_device(out, unwrapped)
    written = [one for one in tensors_in(found) if type(one) is VirtualTensor]
    execution.races.together(machine, meeting.task, given_tensors, written)
    for one in written:
        _owed[one._block] = meeting
    return found


def _waited(tensors: list[VirtualTensor]) -> None:
    """What a functional collective gave is used from now on."""
    for one in tensors:
        meeting = _owed.pop(one._block, None)
        if meeting is not None:
            meeting.join()


def _on_device(out: Any, unwrapped: Unwrapped) -> Any:
    if type(out) is list or type(out) is tuple:
        return [_on_device(one, unwrapped) for one in out]
    found = unwrapped.by_host.get(id(out))
    if found is not None:
        return found
    return wrap(lending.keep_alive_until_done(out), list(unwrapped.by_host.values()), unwrapped.device)


def collective_rules() -> dict[Any, Rule]:
    """The rules of the namespaces whose operators carry tensors between processes, and of SyncBatchNorm."""
    return {"c10d": _collective, "_c10d_functional": _functional, **sync_norm_rules()}
