"""Collectives and their reductions, carried by gloo.

torch's Python functions and DDP's reducer in C++ all call operators of the namespaces `c10d` and `_c10d_functional`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch

from gpututor.devices.virtual import cuda_errors, execution, torch_private
from gpututor.devices.virtual.distributed import c10d_private, gloo, nccl_rules
from gpututor.devices.virtual.distributed.communicator import Operation, Rendezvous, communicator_of
from gpututor.devices.virtual.distributed.nccl_rules import tensors_in
from gpututor.devices.virtual.distributed.process_group_nccl import as_nccl, carrier_of, is_nccl
from gpututor.devices.virtual.distributed.sync_batch_norm import sync_norm_rules
from gpututor.devices.virtual.distributed.work import CollectiveWork
from gpututor.devices.virtual.machine import VirtualGpu, active_machine
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.operator_registry import Rule
from gpututor.devices.virtual.operators.operands import bytes_of, wrap
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

# Operators that write their first argument and send their second.
# fmt: off
_OUTPUTS_FIRST = frozenset({
    "_allgather_base_", "_reduce_scatter_base_", "allgather_", "allgather_coalesced_",
    "allgather_into_tensor_coalesced_", "alltoall_", "alltoall_base_", "gather_", "reduce_scatter_",
    "reduce_scatter_tensor_coalesced_", "scatter_",
})
_IN_PLACE = frozenset({"allreduce_", "allreduce_coalesced_", "broadcast_", "recv_", "recv_any_source_", "reduce_"})
# fmt: on
_FLAT = frozenset({"_allgather_base_", "_reduce_scatter_base_"})
"""Operators for which NCCL counts elements, but gloo compares shapes."""
_SENDING = frozenset({"barrier", "send"})
_WITHOUT_A_THREAD = frozenset({"recv_", "recv_any_source_", "send"})
"""Operators that gloo runs in the caller's thread."""
_KNOWN = _OUTPUTS_FIRST | _IN_PLACE | _SENDING


class Unwrapped:
    """Arguments of a collective with CPU tensors instead of virtual ones, and a group that accepts them."""

    def __init__(self, values: Any) -> None:
        self.by_host: dict[int, VirtualTensor] = {}
        self.group: Any = None
        self.values: list[Any] = [self._host(value) for value in values]

    def _host(self, value: Any) -> Any:
        if type(value) is VirtualTensor:
            active_machine().home(value._device)
            host = gloo.keep_alive_until_done(value._host)
            self.by_host[id(host)] = value
            return host
        if isinstance(value, torch.Tensor):
            # Same checks as NCCL's check_gpu_single_tensor (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp).
            raise ValueError("Tensors must be CUDA and dense")
        if type(value) is list or type(value) is tuple:
            return [self._host(item) for item in value]
        if c10d_private.script_class(value) == "ProcessGroup":
            self.group = c10d_private.unboxed(value)
            return carrier_of(self.group)[0].boxed()
        return value

    def as_bytes(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return arguments with float8 tensors as bytes, and remember the bytes' tensors."""
        changed = {name: nccl_rules.as_bytes(value) for name, value in given.items()}
        for host, view in zip(tensors_in([*given.values()]), tensors_in([*changed.values()]), strict=True):
            if id(host) in self.by_host:
                self.by_host[id(view)] = self.by_host[id(host)]
        return changed

    @property
    def device(self) -> torch.device:
        return next(iter(self.by_host.values()))._device


def _collective(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = func.overloadpacket.__name__
    if name not in _KNOWN:
        raise cuda_errors.unsupported(f"{func._schema.name} on a device")
    unwrapped = Unwrapped(args)
    hosts, group = unwrapped.values, unwrapped.group
    _refuse_in_graphs(func, unwrapped)
    communicator = communicator_of(group)
    gpu = communicator.gpu_for(name, args, active_machine(), unwrapped.device)
    finish: Callable[[], None] | None = None
    if is_nccl(group):
        nccl_rules.check(name, args, group.size())
        finish = _reduce_as_nccl(name, hosts, group)
        hosts[:2] = nccl_rules.as_bytes(hosts[:2])
        if name in _FLAT:
            hosts[:2] = [host.view(-1) for host in hosts[:2]]
    in_a_thread = name not in _WITHOUT_A_THREAD
    call = func
    inputs = list(tensors_in(hosts[1] if name in _OUTPUTS_FIRST and name != "scatter_" else hosts[0]))
    if name == "alltoall_":
        hosts, call, finish = _as_single_tensors(hosts)
    elif name == "allgather_" and is_nccl(group) and _are_unequal(hosts[0][0], group.size()):
        hosts, finish = _as_equal_tensors(hosts, group.rank())
    elif name in ("send", "recv_") and is_nccl(group) and args[2] == group.rank():
        call = partial(_to_self, communicator, name)
    with as_nccl(name, group, args, inputs), torch_private.without_function_modes():
        out = call(*hosts, **kwargs)
    if in_a_thread:
        gloo.track_tensors(tensors_in(hosts))
    if out is None:
        return None
    results = [] if name in _SENDING else list(tensors_in(args[0]))
    used = list(unwrapped.by_host.values())
    done = CollectiveWork(out[1] if type(out) is tuple else out, results, finish, in_a_thread, used)
    size_bytes = sum(map(bytes_of, tensors_in(args[1] if name in _OUTPUTS_FIRST else args[0])))
    # Only the root of a scatter passes inputs; other ranks send nothing.
    whole = bytes_of(args[0]) * communicator.size if name == "scatter_" else size_bytes
    operation = _operation(func, gpu, size_bytes, communicator.stream_of(name))._replace(size_bytes=whole)
    if name == "send":
        done.rendezvous = communicator.send(operation, args[2], args[3])
    elif name == "recv_":
        done.rendezvous = communicator.receive(operation, args[2], args[3])
    elif name == "recv_any_source_":
        done.rendezvous = communicator.receive(operation, done.sender, args[2])
    else:
        done.rendezvous = communicator.collective(operation)
    written = [] if _is_off_the_root(name, args, group) else results
    execution.races.record_collective(operation.machine, done.rendezvous.task, used, written)
    return (args[0], done.boxed()) if type(out) is tuple or name == "alltoall_" else done.boxed()


def _is_off_the_root(name: str, args: Any, group: Any) -> bool:
    """Return True if an operator is a reduction to another rank: NCCL only reads its tensor, and gloo writes it too."""
    return name == "reduce_" and is_nccl(group) and group.rank() != args[3]


def _reduce_as_nccl(name: str, hosts: list[Any], group: Any) -> Callable[[], None] | None:
    """Change the arguments of a reduction so that gloo computes NCCL's result; return what corrects this result."""
    place = next((place for place, value in enumerate(hosts) if c10d_private.script_class(value) == "ReduceOp"), None)
    if place is None:
        return None
    if _is_off_the_root(name, hosts, group):
        hosts[0] = nccl_rules.copies(hosts[0])
    reduced = list(tensors_in(hosts[0]))
    dtype, kind = reduced[0].dtype, nccl_rules.reduction_name(hosts[place])
    nccl_rules.check_reduction(kind, dtype)
    if kind == "AVG":
        hosts[place] = nccl_rules.summing()
        if dtype.is_floating_point or dtype.is_complex:
            sent = 1 if name in _OUTPUTS_FIRST else 0
            hosts[sent] = nccl_rules.scaled(hosts[sent], group.size(), in_place=sent == 0)
            return None
    elif dtype is not torch.bool:
        return None
    return partial(nccl_rules.correct, reduced, group.size())


def _as_single_tensors(hosts: list[Any]) -> tuple[list[Any], Any, Callable[[], None]]:
    """Return the arguments of `alltoall_` as those of `alltoall_base_`, this operator, and what copies the results.

    gloo sends lists only from PyTorch 2.12 on.
    """
    received, sent, *rest = hosts
    with torch_private.host_only(), torch_private.unprofiled():
        incoming, outgoing = (torch.cat([tensor.reshape(-1) for tensor in tensors]) for tensors in (received, sent))
    sizes = [[tensor.numel() for tensor in tensors] for tensors in (received, sent)]

    def copy_results() -> None:
        with torch_private.host_only(), torch_private.unprofiled():
            for tensor, part in zip(received, incoming.split(sizes[0]), strict=True):
                tensor.copy_(part.view_as(tensor))

    group, *options = rest
    return [incoming, outgoing, group, *sizes, *options], torch.ops.c10d.alltoall_base_.default, copy_results


def _are_unequal(outputs: list[torch.Tensor], count: int) -> bool:
    """Return True for `count` tensors of different shapes; gloo raises torch's error for another number of tensors."""
    return len(outputs) == count and len({output.shape for output in outputs}) > 1


def _as_equal_tensors(hosts: list[Any], rank: int) -> tuple[list[Any], Callable[[], None]]:
    """Return the arguments of `allgather_` with tensors of one length, and what copies the results.

    NCCL's process group sends tensors of unequal shapes in a broadcast for each rank.
    """
    (outputs,), (given,), *rest = hosts
    if given.numel() != outputs[rank].numel():
        raise ValueError("Tensor input and output of _broadcast_oop must have the same number of elements")
    longest = max(output.numel() for output in outputs)
    with torch_private.host_only(), torch_private.unprofiled():
        outgoing = given.new_zeros(longest)
        outgoing[: given.numel()].copy_(given.reshape(-1))
        incoming = [given.new_zeros(longest) for _ in outputs]

    def copy_results() -> None:
        with torch_private.host_only(), torch_private.unprofiled():
            for output, part in zip(outputs, incoming, strict=True):
                output.copy_(part[: output.numel()].view_as(output))

    return [[incoming], [outgoing], *rest], copy_results


def _to_self(communicator: Any, name: str, tensors: list[torch.Tensor], group: Any, rank: int, tag: int) -> Any:
    return communicator.to_self(name, tensors[0], tag)


def _operation(func: Any, gpu: VirtualGpu, size_bytes: int, stream: int) -> Operation:
    """Record a collective in the trace."""
    machine, name = active_machine(), func._schema.name
    launched = machine.clock.host.now + gpu.launch_ns
    row = machine.recorder.collective(name, gpu.name, size_bytes, stream=stream, launched=launched)
    return Operation(machine, gpu, name, size_bytes, row)


def _refuse_in_graphs(func: Any, unwrapped: Unwrapped) -> None:
    machine = active_machine()
    gpu = machine.home(unwrapped.device)
    if execution.waits.is_captured(machine, gpu):
        assert machine.capture is not None
        machine.capture.failed = True
        raise cuda_errors.unsupported(f"{func._schema.name} in CUDA graphs")


_unfinished: WeakKeyDictionary[Allocation, Rendezvous] = WeakKeyDictionary()
"""Functional collectives that nothing has waited for, by the memory of their results."""


def _functional(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator of `_c10d_functional`, which names its group, and whose result torch waits for."""
    unwrapped = Unwrapped([*args, *kwargs.values()])
    given_tensors = list(unwrapped.by_host.values())
    if func.overloadpacket.__name__ == "_wrap_tensor_autograd":
        # torch wraps a result so that its first use waits. Here the wrapping itself waits.
        done = torch.ops._c10d_functional.wait_tensor(unwrapped.values[0])
        _join(given_tensors)
        return wrap(done.detach(), given_tensors, unwrapped.device)
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip([*names[: len(args)], *kwargs], unwrapped.values, strict=True))
    if "group_name" not in given:
        with torch_private.without_function_modes():
            out = func(**given)
        _join(given_tensors)
        return _on_device(out, unwrapped)
    group = unwrapped.group
    if group is None:
        # A name, or a group that Python has not yet passed to C++.
        group = given["group_name"]
        group = c10d_private.process_group_named(group) if isinstance(group, str) else group
        given["group_name"] = carrier_of(group)[1]
    _refuse_in_graphs(func, unwrapped)
    name, dtype = func.overloadpacket.__name__, given_tensors[0].dtype
    corrects = False
    if is_nccl(group):
        corrects = _functional_reduction_as_nccl(name, given, dtype, group.size())
        given = unwrapped.as_bytes(given)
    communicator = communicator_of(group)
    gpu = communicator.gpu_for(name, args, active_machine(), unwrapped.device)
    with as_nccl(name, group, args, [tensor._host for tensor in given_tensors]), torch_private.without_function_modes():
        out = func(**given)
    gloo.track_tensors(tensors_in([*unwrapped.values, out]))
    if corrects:
        nccl_rules.correct(map(torch.ops._c10d_functional.wait_tensor, tensors_in(out)), group.size())
    operation = _operation(func, gpu, sum(map(bytes_of, tensors_in(args))), communicator.stream)
    rendezvous = communicator.collective(operation)
    results = _on_device(out, unwrapped)
    written = [tensor for tensor in tensors_in(results) if type(tensor) is VirtualTensor]
    execution.races.record_collective(operation.machine, rendezvous.task, given_tensors, written)
    for tensor in written:
        _unfinished[tensor._block] = rendezvous
    return results


def _functional_reduction_as_nccl(name: str, given: dict[str, Any], dtype: torch.dtype, size: int) -> bool:
    """Change a reduction so that gloo computes NCCL's result; return True if this result has to be corrected."""
    reduction = given.get("reduce_op")
    if reduction is None:
        return False
    kind = str(reduction).upper()
    nccl_rules.check_reduction(kind, dtype)
    if kind == "AVG":
        given["reduce_op"] = "sum"
        if dtype.is_floating_point or dtype.is_complex:
            first = next(iter(given))
            given[first] = nccl_rules.scaled(given[first], size, in_place=name.endswith("_"))
            return False
    return kind == "AVG" or dtype is torch.bool


def _join(tensors: list[VirtualTensor]) -> None:
    """Wait for the functional collectives that return these tensors."""
    for tensor in tensors:
        rendezvous = _unfinished.pop(tensor._block, None)
        if rendezvous is not None:
            rendezvous.join()


def _on_device(out: Any, unwrapped: Unwrapped) -> Any:
    if type(out) is list or type(out) is tuple:
        return [_on_device(part, unwrapped) for part in out]
    known = unwrapped.by_host.get(id(out))
    if known is not None:
        return known
    tensors = list(unwrapped.by_host.values())
    host = gloo.keep_alive_until_done(nccl_rules.from_bytes(out, tensors[0].dtype))
    return wrap(host, tensors, unwrapped.device)


def _shard_another_dim(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """Run `_dtensor.shard_dim_alltoall` in the steps of torch/csrc/distributed/c10d/Functional.cpp."""
    values, gathered, sharded, group = args
    group = c10d_private.process_group_named(group) if isinstance(group, str) else c10d_private.unboxed(group)
    parts = values.unflatten(sharded, (group.size(), -1)).movedim(sharded, 0).contiguous()
    received = torch.empty_like(parts)
    torch.distributed.all_to_all_single(received, parts, group=group)
    return received.movedim(0, gathered).contiguous().flatten(gathered, gathered + 1)


def collective_rules() -> dict[Any, Rule]:
    rules = {"c10d": _collective, "_c10d_functional": _functional, **sync_norm_rules()}
    if c10d_private.HAS_DISTRIBUTED:
        rules[torch.ops._dtensor.shard_dim_alltoall.default] = _shard_another_dim
    return rules
