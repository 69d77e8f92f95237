"""The values of a CUDA graph: a replay computes each captured operator again, into the tensors of the capture.

CUDA runs nothing during a capture. Here operators are computed, because later operators need their outputs. At the end
of the capture, tensors from before it are restored. Its results have undefined values until the first replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import GraphCapture, VirtualGpu, VirtualMachine
from gpututor.devices.virtual.operator_registry import Operator
from gpututor.devices.virtual.operators import fallbacks
from gpututor.devices.virtual.operators.draws import RandomState, draw_from, state_for
from gpututor.devices.virtual.operators.operands import resolved
from gpututor.devices.virtual.tensors.moves import saturate
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

Tensor = torch.Tensor
_Devices = tuple[torch.device, torch.device]
"""The devices of a copy: source and target."""
_COPIES = ("aten::copy_", "aten::_to_copy")


def _capture(machine: VirtualMachine, gpu: VirtualGpu) -> GraphCapture | None:
    """Return the capture of this thread's work on `gpu`, or None. Raises CUDA's error if the capture has failed."""
    capture = machine.capture
    if capture is None or not capture.includes(gpu.index, machine.stream_of(gpu)):
        return None
    capture.check()
    return capture


def save_before(machine: VirtualMachine, gpu: VirtualGpu, op: Operator, args: Sequence[Any], kwargs: Any) -> None:
    """Save the tensors that an operator is about to write to, to restore them at the end of the capture."""
    capture = _capture(machine, gpu)
    if capture is not None:
        undeclared = (args[place] for place in op.facts.writes if place < len(args))
        for tensor in (*op.written_among(args, kwargs), *undeclared):
            save(capture, tensor)


def save_before_copy(machine: VirtualMachine, devices: _Devices, target: Tensor) -> None:
    capture = _capture_of_copy(machine, devices)
    if capture is not None:
        save(capture, target)


def save(capture: GraphCapture, written: Any) -> None:
    """Save the values of a tensor that is about to be written to."""
    if not isinstance(written, Tensor) or written.is_meta:
        return
    key = torch_private.storage_id(written)
    if key not in capture.undo and key not in capture.own:
        storage = written.untyped_storage()
        capture.undo[key] = partial(_restore, storage, storage.clone())


def _restore(storage: torch.UntypedStorage, saved: torch.UntypedStorage) -> None:
    if storage.nbytes() == saved.nbytes():
        storage.copy_(saved)


def forget_effects(capture: GraphCapture) -> None:
    """Restore everything that the capture wrote to, and overwrite its results: on CUDA nothing has run so far."""
    with torch_private.host_only(), torch.inference_mode():
        for undo in capture.undo.values():
            undo()
        for result in capture.results:
            _spoil(result)


def _spoil(result: Tensor) -> None:
    """Write NaN, or the smallest integer; on CUDA, unwritten memory has arbitrary values."""
    if result.dtype.is_floating_point or result.dtype.is_complex:
        result.fill_(torch.nan)
    elif result.dtype is not torch.bool:
        result.fill_(torch.iinfo(result.dtype).min)


def capture_operator(
    machine: VirtualMachine, gpu: VirtualGpu, op: Operator, wrappers: Sequence[VirtualTensor], call: Any, out: Any
) -> Any:
    """Add an operator to the graph: the CPU called it with `call`, as (arguments, keywords), and it returned `out`.

    `wrappers` are its virtual tensors. Returns the results, as the tensors that replays write to.
    """
    capture = _capture(machine, gpu)
    if capture is None:
        return out
    if not machine.values:
        capture.add(lambda: None, (op.name,))
        return out
    virtual = {id(wrapper._host) for wrapper in wrappers}
    # The graph stores the current value of a CPU tensor that wraps a number.
    args, kwargs = torch_private.tree_map(
        lambda value: value.clone() if isinstance(value, Tensor) and id(value) not in virtual else value,
        (tuple(call[0]), call[1]),
    )
    known = _storages((args, kwargs))
    out = _resolved(out)
    own = [leaf for leaf in _tensors(out) if torch_private.storage_id(leaf) not in known]
    capture.own |= _storages(own)
    capture.results += own
    state = state_for(op, args, kwargs, gpu) if op.random else None
    capture.add(lambda: _write(_compute(op, args, kwargs, gpu, state), out, known), (op.name,))
    return out


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in torch_private.tree_leaves(values) if isinstance(leaf, Tensor)]


def _storages(values: Any) -> set[int]:
    return {torch_private.storage_id(leaf) for leaf in _tensors(values)}


def _compute(
    op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], gpu: VirtualGpu, state: RandomState | None
) -> Any:
    try:
        return op.call(*args, **kwargs) if state is None else draw_from(state, op, args, kwargs, gpu)
    except fallbacks.REFUSALS as error:
        return fallbacks.retry(error, op, list(args), kwargs)


def keep_copy(
    machine: VirtualMachine,
    devices: _Devices,
    target: Tensor,
    source: Tensor,
    non_blocking: bool,
    *,
    is_new: bool = False,
) -> None:
    """Add a copy between `devices`, from one CPU tensor to another, to the graph, which may make the target."""
    capture = _capture_of_copy(machine, devices)
    if capture is None:
        return
    again = partial(_overwrite, target, source, devices, non_blocking)
    capture.add(again if machine.values else lambda: None, _COPIES)
    if is_new and machine.values:
        capture.own.add(torch_private.storage_id(target))
        capture.results.append(target)


def _capture_of_copy(machine: VirtualMachine, devices: _Devices) -> GraphCapture | None:
    device = next((device for device in devices if device.type == "cuda"), None)
    return None if device is None else _capture(machine, machine.gpus[device.index])


def refuse_sparse(machine: VirtualMachine, gpu: VirtualGpu) -> None:
    """Raise `NotImplementedError` in a capture."""
    if _capture(machine, gpu) is not None:
        raise cuda_errors.unsupported("sparse tensors in CUDA graphs")


def replay(steps: tuple[Callable[[], None], ...]) -> None:
    """Compute everything again, in order, without advancing the clock.

    Runs in inference mode, which alone may write to tensors that were captured in inference mode.
    """
    with torch.inference_mode(), torch_private.host_only():
        for step in steps:
            step()


def _overwrite(target: Tensor, source: Tensor, devices: _Devices, non_blocking: bool) -> None:
    target.copy_(source)
    saturate(target, source, devices, non_blocking)


def _resolved(out: Any) -> Any:
    if type(out) is Tensor:
        return resolved(out)
    if type(out) in (list, tuple):
        return type(out)(_resolved(part) for part in out)
    return out


def _write(new: Any, old: Any, known: set[int]) -> None:
    """Write new values into the captured tensors; tensors that share memory with an input already have them."""
    if isinstance(old, Tensor):
        if torch_private.storage_id(old) not in known:
            old.copy_(new)
    elif type(old) in (list, tuple):
        for new_part, old_part in zip(new, old, strict=True):
            _write(new_part, old_part, known)
