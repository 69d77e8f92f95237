"""Random numbers: operators draw on the CPU, and each generator counts its offset as CUDA's does.

CUDA's generator has a seed and an offset. Each kernel advances the offset by the numbers that one of its threads draws
(aten/src/ATen/native/cuda/DistributionTemplates.h). The CPU's generator cannot jump to an offset. So only offset 0, and
offsets that were read before, can be set.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.execution import waits
from gpututor.devices.virtual.execution.costs import tensors_of
from gpututor.devices.virtual.machine import GraphCapture, VirtualGpu, VirtualMachine, active_machine
from gpututor.devices.virtual.operator_registry import Operator

_BLOCK = 256
"""Threads of a block of CUDA's distribution kernels."""
_PER_CALL = 4
"""Numbers that one call of Philox returns (curand4_engine_calls)."""
_FIXED = {"poisson": 20, "_standard_gamma": 10, "_sample_dirichlet": 10, "binomial": 42}
"""Offset increments of kernels that use rejection sampling (Distributions.cu)."""
_WARP = 32
"""Numbers that flash attention draws for each head of a sequence (flash_api.cpp)."""
_Real = torch_private.Generator


class RandomState:
    """State of a generator: the CPU generator `real` draws, and `offset` is CUDA's offset."""

    def __init__(self) -> None:
        self.real = _Real("cpu")
        self.offset = 0
        self._seen: dict[int, torch.Tensor] = {}
        """State of the CPU's generator at the offsets that were read."""

    def clone(self) -> RandomState:
        copy = RandomState()
        copy.set(self.get(), self.offset)
        return copy

    def restart(self, seed: int | None) -> int:
        """Restart with `seed`, or with a seed from the system if it is None. Return the seed."""
        self.offset = 0
        self._seen.clear()
        if seed is None:
            return int(_Real.seed(self.real))
        _Real.manual_seed(self.real, seed)
        return seed

    def get(self) -> torch.Tensor:
        state: torch.Tensor = _Real.get_state(self.real)
        return state

    def set(self, state: torch.Tensor, offset: int) -> None:
        _Real.set_state(self.real, state)
        self.offset = offset
        self._seen.clear()

    def read_offset(self) -> int:
        """Return the offset, and save the state, so that `jump` can come back to it."""
        self._seen[self.offset] = self.get()
        return self.offset

    def jump(self, offset: int) -> None:
        """Continue drawing from an offset. Raises `NotImplementedError` for an offset that was never read."""
        if offset % _PER_CALL:
            raise RuntimeError("offset must be a multiple of 4")  # CUDAGeneratorImpl.cpp
        if offset == self.offset:
            return
        if offset == 0:
            _Real.manual_seed(self.real, _Real.initial_seed(self.real))
        elif offset in self._seen:
            _Real.set_state(self.real, self._seen[offset])
        else:
            raise cuda_errors.unsupported(
                f"Generator.set_offset({offset})", "Only 0 and offsets that get_offset() has returned are known."
            )
        self.offset = offset


class CapturedState:
    """State of a generator in a CUDA graph: its offsets count from the start of the graph.

    A replay starts at the generator's own offset. So it repeats the graph's reads and jumps among its draws.
    """

    def __init__(self, state: RandomState) -> None:
        self._state = state
        self._start = state.offset
        self._seen: dict[int, torch.Tensor] = {}
        """State of the CPU's generator at the offsets that the graph reads, in its latest run."""

    def read(self, capture: GraphCapture) -> int:
        """Return the offset during the capture, which can `jump` back to it."""
        offset = self._state.offset - self._start

        def save() -> None:
            self._seen[offset] = self._state.get()

        save()
        capture.add(save, ())
        return offset

    def jump(self, capture: GraphCapture, offset: int) -> None:
        """Continue drawing from an offset. Raises `NotImplementedError` for an offset that the graph has not read."""
        distance = offset - (self._state.offset - self._start)
        if offset not in self._seen:
            if distance == 0:
                return
            raise cuda_errors.unsupported(
                "this state of a generator in a CUDA graph", "Set a state that was read in the same capture."
            )

        def restore() -> None:
            _Real.set_state(self._state.real, self._seen[offset])
            self._state.offset += distance

        restore()
        capture.add(restore, ())


generators: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""GPUs' generators by their C++ address: a dispatch mode gets a different Python object."""


def draw(op: Operator, args: Any, kwargs: dict[str, Any], gpu: VirtualGpu) -> Any:
    """Run an operator that draws random numbers from its `generator` argument, by default from the GPU's generator."""
    state = state_for(op, args, kwargs, gpu)
    _check_capture(active_machine(), gpu, state)
    return draw_from(state, op, args, kwargs, gpu)


def state_for(op: Operator, args: Any, kwargs: dict[str, Any], gpu: VirtualGpu) -> RandomState:
    """Return the state that an operator draws from now. A captured graph keeps it for its replays."""
    place = _place(op, args)
    given = args[place] if place < len(args) else kwargs.get("generator")
    generator: Any = gpu.generator if given is None else generators[given._cdata]
    state: RandomState = generator.state
    return state


def draw_from(state: RandomState, op: Operator, args: Any, kwargs: dict[str, Any], gpu: VirtualGpu) -> Any:
    """Run an operator that draws random numbers from a state."""
    place = _place(op, args)
    if place < len(args):
        out = op.call(*args[:place], state.real, *args[place + 1 :], **kwargs)
    elif op.takes_generator:
        out = op.call(*args, **{**kwargs, "generator": state.real})
    else:
        out = _with_default_generator(state.real, op, args, kwargs)
    state.offset += _offset(op, args, out, gpu)
    return out


def _place(op: Operator, args: Any) -> int:
    """Return the place of the argument `generator`; behind the positional arguments if it is not one of them."""
    return op.parameters.index("generator") if op.takes_generator else len(args)


def _with_default_generator(generator: Any, op: Operator, args: Any, kwargs: dict[str, Any]) -> Any:
    host_state = torch.default_generator.get_state()
    torch.default_generator.set_state(_Real.get_state(generator))
    try:
        return op.call(*args, **kwargs)
    finally:
        _Real.set_state(generator, torch.default_generator.get_state())
        torch.default_generator.set_state(host_state)


def _check_capture(machine: VirtualMachine, gpu: VirtualGpu, state: RandomState) -> None:
    """Raise CUDA's error for a generator that the captured graph does not know."""
    capture = machine.capture
    if capture is not None and waits.is_captured(machine, gpu) and state not in capture.generators:
        raise RuntimeError("Attempt to increase offset for a CUDA generator not in capture mode.")


def _offset(op: Operator, args: Any, out: Any, gpu: VirtualGpu) -> int:
    """Return how far a kernel advances the offset."""
    if op.attends:
        return _offset_of_attention(op, args)
    tensors = tensors_of(out) or tensors_of(args)
    count = tensors[0].numel() if tensors else 0
    if not count:
        return 0
    short = op.func.overloadpacket.__name__
    fixed = _FIXED.get(short)
    if fixed is None and short.startswith("bernoulli") and op.func._overloadname not in ("p", "float"):
        fixed = 10  # a probability for each element (bernoulli_tensor_cuda_kernel)
    if fixed is not None:
        return -(-fixed // _PER_CALL) * _PER_CALL
    blocks = min(gpu.spec.multiprocessors * (gpu.spec.threads_per_multiprocessor // _BLOCK), -(-count // _BLOCK))
    unroll = 2 if tensors[0].dtype is torch.float64 else 4
    return ((count - 1) // (_BLOCK * blocks * unroll) + 1) * _PER_CALL


def _offset_of_attention(op: Operator, args: Any) -> int:
    """Return how far fused attention advances the offset: only for dropout, in the forward pass (attention.cu)."""
    place = op.parameters.index("dropout_p")
    if "backward" in op.name or place >= len(args) or not args[place]:
        return 0
    batch, heads, length, _ = args[0].shape
    count = batch * heads * (_WARP if "flash" in op.name else length * args[1].shape[2])
    return int(-(-count // _PER_CALL) * _PER_CALL)
