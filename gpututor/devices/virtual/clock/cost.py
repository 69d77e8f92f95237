"""The price of one kernel on one GPU, from its operator's name and the shapes and types of its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from gpututor.devices.virtual.clock import convolutions, products, rows
from gpututor.devices.virtual.clock.attainable import Attainable, Factors, calibrated, fitted
from gpututor.devices.virtual.clock.kinds import FREE, kind_of
from gpututor.devices.virtual.clock.shapes import Tensor, element_bytes, tensor_bytes, total_bytes
from gpututor.devices.virtual.specs import GpuSpec

Tensors = Sequence[Tensor]
_PER_THREAD = 4
"""Elements that a thread of an elementwise kernel computes."""
_SECTOR = 32
"""Bytes that a read at an index moves at least."""
_PLAIN_FLOPS, _TRANSCENDENTAL_FLOPS = 2, 30
"""Instructions an element; of a function such as exp, its polynomial and the rest."""
_KERNELS = {"batch_norm": 3, "group_norm": 2, "loss": 2, "sort": 8, "norm_backward": 3, "attention_backward": 3}
"""Kernels that an operator launches, where it is more than one."""


@dataclass(frozen=True, slots=True)
class Price:
    """What one operator's kernels cost the GPU, launches not included."""

    seconds: float
    """0 for an operator that launches nothing."""
    bytes: int
    """Read and written, each tensor once."""
    flops: float
    fill: float
    """The share of the GPU that it occupies, from 0 to 1: what is left can run something else."""


FREE_PRICE = Price(0.0, 0, 0.0, 0.0)


def price(
    spec: GpuSpec,
    name: str,
    inputs: Tensors,
    outputs: Tensors,
    flops: float = 0.0,
    *,
    tf32: bool = False,
    convolution_tf32: bool = True,
    gpu: Attainable | None = None,
) -> Price:
    """Seconds on the GPU of one operator.

    `name` as in `aten.mm.default`; tensors as (shape, type), such as `((2, 3), "float32")`, what is
    written in place among the outputs too; `flops` as
    torch.utils.flop_counter has them, 0 where they are not known. `tf32` and `convolution_tf32` are the switches of
    `torch.backends.cuda.matmul` and `torch.backends.cudnn`. `gpu` takes other factors than the fitted ones.
    """
    kind = kind_of(name)
    if kind == FREE:
        return FREE_PRICE
    gpu = gpu or calibrated(spec)
    moved = _moved(kind, inputs, outputs)
    seconds, fill = _seconds(gpu, kind, inputs, outputs, flops, (tf32, convolution_tf32), moved)
    floor = gpu.factors["memory.floor_us"] / 1e6 * _KERNELS.get(kind, 1)
    return Price(seconds + floor, moved, flops, min(max(fill, 0.0), 1.0))


def launches(name: str, factors: Factors | None = None) -> float:
    """What an operator costs the host, in launches of an elementwise one (`GpuSpec.launch_s`); some also for a view."""
    factors, kind = factors or fitted(), kind_of(name)
    if kind == FREE:
        return factors["host.view"]
    if kind.startswith("convolution"):
        return factors["host.convolution"]
    if "norm" in kind:
        return factors["host.norm"]
    return factors["host.reduction"] if kind == "reduction" else 1.0


def _moved(kind: str, inputs: Tensors, outputs: Tensors) -> int:
    """Bytes read and written, each tensor once; of tables only what is read at the indices."""
    written = total_bytes(outputs)
    if kind == "gather" and inputs:
        largest = max(inputs, key=tensor_bytes)
        row = max(element_bytes(largest[1]) * (largest[0][-1] if len(largest[0]) > 1 else 1), 1)
        spread = max(_SECTOR / row, 1.0)
        return int(min(tensor_bytes(largest), written * spread)) + total_bytes(inputs) - tensor_bytes(largest) + written
    if kind == "nll" and len(inputs) > 1:
        return prod(inputs[1][0]) * (_SECTOR + 8) + written
    return total_bytes(inputs) + written


def _seconds(
    gpu: Attainable,
    kind: str,
    inputs: Tensors,
    outputs: Tensors,
    flops: float,
    tf32: tuple[bool, bool],
    moved: int,
) -> tuple[float, float]:
    """Seconds and filled share; whatever the shapes do not fit is priced by its bytes."""
    if inputs and inputs[0][0]:
        match kind:
            case "matmul" if sum(1 for one in inputs if one[0]) > 1:
                return products.product(gpu, inputs, outputs, tf32[0])
            case "attention" | "attention_backward" if len(inputs) > 2 and len(inputs[1][0]) > 1:
                return products.attention(gpu, inputs, outputs, flops, tf32[0], kind == "attention_backward")
            case "convolution" if outputs and len(inputs) > 1 and _are_images(inputs[:2], outputs):
                return convolutions.convolution(gpu, inputs[0], inputs[1], outputs[0], flops, tf32[1])
            case "convolution_backward" if len(inputs) > 2 and _are_images(inputs[:3], ()):
                return convolutions.convolution_backward(gpu, inputs, outputs, tf32[1])
            case "batch_norm" | "eval_norm" | "group_norm" | "layer_norm":
                return rows.norm(gpu, kind, inputs, outputs)
            case "softmax":
                return rows.softmax(gpu, inputs)
            case "pool":
                return rows.pool(gpu, inputs, outputs)
            case "scan":
                return rows.scan(gpu, inputs, outputs)
            case "loss":
                return rows.loss(gpu, inputs, outputs)
            case "nll":
                return rows.negative_log_likelihood(gpu, inputs, outputs)
            case "sort":
                return rows.sort(gpu, inputs, outputs)
            case "linalg":
                return rows.factorisation(gpu, inputs, outputs)
            case "fft":
                return rows.fourier(gpu, inputs, outputs)
    return _by_bytes(gpu, kind, inputs, outputs, flops, moved)


def _are_images(inputs: Tensors, outputs: Tensors) -> bool:
    return all(len(one[0]) > 2 for one in (*inputs, *outputs[:1]))


def _by_bytes(
    gpu: Attainable, kind: str, inputs: Tensors, outputs: Tensors, flops: float, moved: int
) -> tuple[float, float]:
    """Seconds and filled share of elementwise kernels, copies, reductions, and of what is not known."""
    sizes = [prod(one[0]) for one in outputs] if kind == "gather" else [prod(one[0]) for one in (*outputs, *inputs)]
    elements = max(sizes, default=1)
    widest = max((*inputs, *outputs), key=lambda one: element_bytes(one[1]), default=((), "float32"))[1]
    seconds = gpu.moved_s(moved)
    match kind:
        case "rearrange":
            seconds *= gpu.factors["memory.rearranged"]
        case "gather" | "scatter":
            seconds *= gpu.factors["memory.gathered"]
        case "norm_backward":
            seconds += gpu.moved_s(total_bytes(inputs[:2]))
        case "elementwise" | "transcendental" if len({one[1] for one in inputs if one[0]}) > 1:
            seconds *= gpu.factors["memory.mixed_types"]
    each = _TRANSCENDENTAL_FLOPS if kind == "transcendental" else _PLAIN_FLOPS
    computed = max(elements * each, flops) / gpu.plain_rate(widest)
    return max(seconds, computed), gpu.filled(elements / _PER_THREAD)
