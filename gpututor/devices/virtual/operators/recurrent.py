"""Recurrent layers as on CUDA, where each LSTM, GRU and RNN is a single operator of cuDNN.

For a virtual tensor, C++ would run products and elementwise operators. Here a layer becomes `_cudnn_rnn` whenever CUDA
uses cuDNN (aten/src/ATen/native/RNN.cpp), and PyTorch's own autograd runs `_cudnn_rnn_backward`. The CPU's layers
compute the values. The backward operator runs the forward pass again, so only sizes and the dropout seed are saved.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.cost.recurrent import GRU, LSTM, RecurrentLayers
from gpututor.devices.virtual.cuda_errors import warn_at_caller
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

Tensor = torch.Tensor
aten = torch.ops.aten
_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": LSTM, "gru": GRU}
_LAYERS: dict[int, Any] = {0: torch.rnn_relu, 1: torch.rnn_tanh, LSTM: torch.lstm, GRU: torch.gru}
_OVERLOADS = [getattr(getattr(aten, name), overload) for name in _MODES for overload in ("input", "data")]
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_SEED_BYTES = 8
SCATTERED = (
    "RNN module weights are not part of single contiguous chunk of memory. This means they need to be compacted at "
    "every call, possibly greatly increasing memory usage. To compact weights again call flatten_parameters()."
)
"""The warning of cudnn/RNN.cpp."""


@dataclass(frozen=True)
class _Call:
    """The arguments of `_cudnn_rnn` and its backward operator that are not tensors."""

    mode: int
    hidden: int
    projected: int
    layers: int
    batch_first: bool
    dropout: float
    train: bool
    bidirectional: bool
    batch_sizes: list[int]

    def compute(self, data: Tensor, weight: list[Tensor], stride: int, hx: Tensor, cx: Tensor | None) -> list[Tensor]:
        state = hx if cx is None else [hx, cx]
        numbers = (stride > 2, self.layers, self.dropout, self.train, self.bidirectional)
        layers = _LAYERS[self.mode]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # oneDNN, which CUDA does not use, has no projections
            if self.batch_sizes:
                return list(layers(data, torch.tensor(self.batch_sizes), state, weight, *numbers))
            return list(layers(data, state, weight, *numbers, self.batch_first))

    def shapes(self, data: Tensor, hx: Tensor, cx: Tensor | None) -> list[Tensor]:
        width = hx.shape[2] * (1 + self.bidirectional)
        shape = [*data.shape[:-1], width]
        if self.batch_first and not self.batch_sizes:
            out = data.new_empty((shape[1], shape[0], width)).transpose(0, 1)
        else:
            out = data.new_empty(shape)
        return [out, torch.empty_like(hx), *([] if cx is None else [torch.empty_like(cx)])]

    def blank_gradient(self, data: Tensor) -> Tensor:
        """Return a tensor for the gradient of the input, laid out steps first."""
        if self.batch_first and not self.batch_sizes:
            return data.new_empty((data.shape[1], data.shape[0], data.shape[2])).transpose(0, 1)
        return data.new_empty(data.shape)

    def reserve_bytes(self, data: Tensor) -> int:
        """Return the bytes that training saves for the backward operator."""
        rows, features = data.numel() // max(data.shape[-1], 1), data.shape[-1]
        sizes = (self.mode, 0, rows, features, self.hidden, self.projected, self.layers, 1 + self.bidirectional)
        return max(RecurrentLayers(*sizes, str(data.dtype)[6:]).reserve_bytes, _SEED_BYTES)


def _forward(
    data: Tensor,
    weight: list[Tensor],
    stride: int,
    weight_buffer: Tensor | None,
    hx: Tensor,
    cx: Tensor | None,
    *numbers: Any,
) -> tuple[Tensor, ...]:
    call, reserve_bytes = _Call(*numbers[:-1]), 0
    if call.train:
        reserve_bytes = call.reserve_bytes(data)
    reserve = torch.empty((reserve_bytes,), dtype=torch.uint8, device=data.device)
    if data.is_meta:
        results = call.shapes(data, hx, cx)
    else:
        seed = _new_seed(reserve) if call.train and call.dropout else None
        wide = partial(_widened, data.dtype)
        with _seeded(seed):
            results = call.compute(wide(data), [wide(part) for part in weight], stride, wide(hx), wide(cx))
        results = [result.to(data.dtype) for result in results]
    if cx is None:
        results.append(data.new_empty((0,)))
    return (*results, reserve, data.new_empty((0,)))


def _backward(
    data: Tensor,
    weight: list[Tensor],
    stride: int,
    weight_buffer: Tensor,
    hx: Tensor,
    cx: Tensor | None,
    output: Tensor,
    grad_output: Tensor | None,
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    *rest: Any,
) -> tuple[Any, ...]:
    *numbers, _, reserve, mask = rest
    call = _Call(*numbers)
    if not call.train:
        raise RuntimeError("cudnn RNN backward can only be called in training mode")
    inputs = [data, hx, *([] if cx is None else [cx]), *weight]
    blanks = [call.blank_gradient(data), *(part.new_empty(part.shape) for part in inputs[1:])]
    if data.is_meta:
        return _arranged(blanks, cx, mask)
    seed = int(reserve[:_SEED_BYTES].view(torch.int64)) if call.dropout else None
    with torch_private.autograd_in_operator(), torch.enable_grad(), _seeded(seed):
        leaves = [_widened(data.dtype, part.detach()).requires_grad_() for part in inputs]
        states, weights = (leaves[1], None if cx is None else leaves[2]), leaves[len(inputs) - len(weight) :]
        results = call.compute(leaves[0], weights, stride, *states)
        given = [
            (result, grad.to(result.dtype))
            for result, grad in zip(results, (grad_output, grad_hy, grad_cy), strict=False)
            if grad is not None
        ]
        outs, grads = zip(*given, strict=True)
        gradients = torch.autograd.grad(outs, leaves, grads, allow_unused=True)
    for blank, gradient in zip(blanks, gradients, strict=True):
        blank.zero_() if gradient is None else blank.copy_(gradient)
    return _arranged(blanks, cx, mask)


def _arranged(gradients: list[Tensor], cx: Tensor | None, mask: list[bool]) -> tuple[Any, ...]:
    """Return the gradients of input, states and weights that `mask` selects."""
    states = 2 if cx is None else 3
    heads = [*gradients[:states], *([None] if cx is None else [])]
    return (*(head if wanted else None for head, wanted in zip(heads, mask, strict=False)), gradients[states:])


def _widened(dtype: torch.dtype, value: Any) -> Any:
    """Return a tensor in the type in which cuDNN computes: at least float32."""
    return value if value is None or dtype in (torch.float32, torch.float64) else value.float()


def _new_seed(reserve: Tensor) -> int:
    """Draw the seed of dropout, and save it for the backward operator."""
    seed = torch.randint(2**62, (1,))
    reserve[:_SEED_BYTES].view(torch.int64).copy_(seed)
    return int(seed)


@contextmanager
def _seeded(seed: int | None) -> Iterator[None]:
    if seed is None:
        yield
        return
    state = torch.default_generator.get_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(state)


DEVICE_CALLS: dict[Any, Callable[..., Any]] = {
    aten._cudnn_rnn.default: _forward,
    aten._cudnn_rnn_backward.default: _backward,
}
"""Functions that compute cuDNN's operators on the CPU."""


def _run(overload: Any, *args: Any) -> Any:
    """Run the layers as cuDNN's operator; as PyTorch's own operators if CUDA does so, or to raise their errors."""
    packed = overload._overloadname == "data"
    if not _suits_cudnn(args):
        return torch_private.run_composite(overload, *args)
    data, *rest = args
    lengths = rest.pop(0).tolist() if packed else []
    state, weight, has_biases, layers, dropout, train, bidirectional, *order = rest
    hx, cx = state if type(state) is list else (state, None)
    for name, part in (("hx", hx), ("cx", cx)):
        if part is not None and not part.is_contiguous():
            raise RuntimeError(f"rnn: {name} is not contiguous")
    hidden, projected = hx.shape[2], 0
    if cx is not None and cx.shape[2] != hidden:
        hidden, projected = cx.shape[2], hidden
    stride = (4 if has_biases else 2) + (projected > 0)
    mode = _MODES[overload.overloadpacket.__name__]
    sizes = (mode, hidden, projected, layers, bool(order and order[0]), dropout, train, bidirectional)
    if len({id(part._block) for part in weight}) > 1:
        warn_at_caller(SCATTERED)
    out, hy, cy, *_ = aten._cudnn_rnn(data, weight, stride, None, hx, cx, *sizes, lengths, None)
    return (out, hy) if cx is None else (out, hy, cy)


def _suits_cudnn(args: tuple[Any, ...]) -> bool:
    """Return True if the layers run on cuDNN (`cudnn_is_acceptable`), with all tensors on its device."""
    data = args[0]
    # Batch sizes are integers on the host.
    tensors = [
        leaf for leaf in torch_private.tree_leaves(args) if isinstance(leaf, Tensor) and leaf.dtype != torch.int64
    ]
    return (
        type(data) is VirtualTensor
        and bool(torch.backends.cudnn.enabled)
        and data.dtype in _DTYPES
        and bool(data.numel())
        and not torch_private.functorch_is_on()
        and all(type(tensor) is VirtualTensor and tensor._device is data._device for tensor in tensors)
        and len({tensor.dtype for tensor in tensors}) == 1
    )


def composites() -> dict[Any, Callable[..., Any]]:
    """Return the functions that run PyTorch's layers as cuDNN's operator; see `cuda_kernels.composites`."""
    return {overload: partial(_run, overload) for overload in _OVERLOADS}


def is_acceptable(tensor: Tensor) -> bool:
    """Replace `torch.backends.cudnn.is_acceptable`: return True if modules flatten their weights for cuDNN."""
    return (
        bool(torch.backends.cudnn.enabled)
        and tensor.device.type == "cuda"
        and tensor.dtype in torch.backends.cudnn.CUDNN_TENSOR_DTYPES
    )


def cudnn_mode(mode: str) -> int:
    """Replace `torch.backends.cudnn.rnn.get_cudnn_mode`, which reads cuDNN's enumeration."""
    if mode.lower() not in _MODES:
        raise ValueError(f"Unknown mode: {mode}")
    return _MODES[mode.lower()]


def flatten_weights(weights: list[Tensor], *_: Any) -> Tensor:
    """Copy each weight to one buffer, matrices first, and make it a view of the buffer (cudnn/RNN.cpp)."""
    buffer = weights[0].new_empty((sum(weight.numel() for weight in weights),))
    offset = 0
    for weight in sorted(weights, key=lambda weight: -weight.dim()):
        view = buffer.narrow(0, offset, weight.numel()).view_as(weight)
        view.copy_(weight)
        weight.data = view
        offset += weight.numel()
    return buffer
