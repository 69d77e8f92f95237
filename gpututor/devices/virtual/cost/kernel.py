"""The price of one kernel on one GPU, from its operator's name and the shapes and types of its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from gpututor.devices.virtual.cost import convolutions, matrices, reductions
from gpututor.devices.virtual.cost.calibration import AchievableRates, CalibrationFactors, calibrated, fitted
from gpututor.devices.virtual.cost.memory_traffic import bytes_accessed, is_multi_tensor, multi_tensor_kernels
from gpututor.devices.virtual.cost.registry import Tensor, element_bytes
from gpututor.devices.virtual.operator_facts import NO_COST, kind_of
from gpututor.hardware.gpus import GpuSpec

Tensors = Sequence[Tensor]
_PER_THREAD = 4
"""Elements that a thread of an elementwise kernel computes."""
_PLAIN_FLOPS, _TRANSCENDENTAL_FLOPS = 2, 30
"""Instructions an element; of a function such as exp, its polynomial and the rest."""
_KERNELS = {"batch_norm": 3, "group_norm": 2, "loss": 2, "sort": 8, "norm_backward": 3, "attention_backward": 3}
"""Kernels that an operator launches, where it is more than one."""
_SHAPED = frozenset(
    {
        "matmul",
        "attention",
        "attention_backward",
        "convolution",
        "convolution_backward",
        "batch_norm",
        "eval_norm",
        "group_norm",
        "layer_norm",
        "norm_backward",
        "softmax",
        "pool",
        "scan",
        "loss",
        "nll",
        "sort",
        "linalg",
        "fft",
        "contraction",
        "recursion",
    }
)
"""Kinds that are priced by more than their bytes; an empty tensor among the first ones is not."""


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


@dataclass(frozen=True, slots=True)
class Cost:
    """One operator on tensors of some shapes and types."""

    duration: int
    """Of its kernels, in nanoseconds."""
    fill: int
    """The share of the GPU that they need, in millionths."""
    host: int
    """What the launch costs the host, in nanoseconds; on the CPU all of it."""
    flops: float
    dtype: str = ""
    """The floating type that they run in; see `gpututor.trace.events.compute_dtype`."""


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
    gpu: AchievableRates | None = None,
    dim: int = -1,
) -> Price:
    """Seconds on the GPU of one operator.

    `name` as in `aten.mm.default`; tensors as (shape, type), such as `((2, 3), "float32")`, what is
    written in place among the outputs too; `flops` as
    torch.utils.flop_counter has them, 0 where they are not known. `tf32` and `convolution_tf32` are the switches of
    `torch.backends.cuda.matmul` and `torch.backends.cudnn`. `gpu` takes other factors than the fitted ones.
    `dim` is the dimension that a scan goes along.
    """
    kind = kind_of(name)
    if kind == NO_COST:
        return FREE_PRICE
    gpu = gpu or calibrated(spec)
    moved = bytes_accessed(name, kind, inputs, outputs)
    if is_multi_tensor(name):
        kernels, fill = (
            multi_tensor_kernels(name, inputs),
            gpu.filled(sum(prod(one[0]) for one in inputs) / _PER_THREAD),
        )
        seconds = gpu.moved_s(moved)
    else:
        kernels = _KERNELS.get(kind, 1)
        seconds, fill = _seconds(gpu, name, kind, inputs, outputs, flops, (tf32, convolution_tf32), moved, dim)
    floor = gpu.factors["memory.floor_us"] / 1e6 * kernels
    return Price(seconds + floor, moved, flops, min(max(fill, 0.0), 1.0))


def launches(name: str, factors: CalibrationFactors | None = None, tensors: int = 1) -> float:
    """What an operator costs the host, in launches of an elementwise one (`GpuSpec.launch_s`); some also for a view.

    `tensors` is how many an operator on lists has.
    """
    factors, kind = factors or fitted(), kind_of(name)
    if kind == NO_COST:
        return factors["host.view"]
    if is_multi_tensor(name):
        return 1.0 + factors["host.listed"] * tensors
    if kind.startswith("convolution"):
        return factors["host.convolution"]
    if "norm" in kind:
        return factors["host.norm"]
    return factors["host.reduction"] if kind == "reduction" else 1.0


def _seconds(
    gpu: AchievableRates,
    name: str,
    kind: str,
    inputs: Tensors,
    outputs: Tensors,
    flops: float,
    tf32: tuple[bool, bool],
    moved: int,
    dim: int,
) -> tuple[float, float]:
    """Seconds and filled share; whatever the shapes do not fit is priced by its bytes."""
    if kind in _SHAPED and inputs and inputs[0][0] and all(map(prod, (one[0] for one in (*inputs[:3], *outputs)))):
        match kind:
            case "matmul" if sum(1 for one in inputs if one[0]) > 1:
                return matrices.product(gpu, inputs, outputs, tf32[0])
            case "attention" | "attention_backward" if len(inputs) > 2 and len(inputs[1][0]) > 1:
                return matrices.attention(gpu, inputs, outputs, flops, tf32[0], kind == "attention_backward")
            case "convolution" if outputs and len(inputs) > 1 and _are_images(inputs[:2], outputs):
                seconds, fill = convolutions.convolution(gpu, inputs[0], inputs[1], outputs[0], flops, tf32[1])
                return seconds + convolutions.bias_s(gpu, inputs, outputs), fill
            case "convolution_backward" if len(inputs) > 2 and _are_images(inputs[:3], ()):
                return convolutions.convolution_backward(gpu, inputs, outputs, tf32[1])
            case "batch_norm" | "eval_norm" | "group_norm" | "layer_norm":
                return reductions.norm(gpu, kind, inputs, outputs)
            case "norm_backward":
                return reductions.norm_backward(gpu, name, inputs, outputs)
            case "softmax":
                return reductions.softmax(gpu, inputs)
            case "pool":
                return reductions.pool(gpu, inputs, outputs)
            case "scan":
                return reductions.scan(gpu, name, inputs, outputs, dim)
            case "loss":
                return reductions.loss(gpu, inputs, outputs)
            case "nll":
                return reductions.negative_log_likelihood(gpu, inputs, outputs)
            case "sort":
                return reductions.sort(gpu, name, inputs, outputs)
            case "linalg":
                return matrices.factorisation(gpu, name, inputs, outputs)
            case "fft":
                return reductions.fourier(gpu, inputs, outputs)
            case "contraction" if matrices.fits(name, inputs):
                return matrices.contraction(gpu, name, inputs, outputs, tf32[0])
            case "recursion":
                return reductions.recursion(gpu, inputs, outputs)
    if kind == "sort" and not inputs and outputs:
        return reductions.sort(gpu, name, inputs, outputs)
    return _by_bytes(gpu, kind, inputs, outputs, flops, moved)


def _are_images(inputs: Tensors, outputs: Tensors) -> bool:
    return all(len(one[0]) > 2 for one in (*inputs, *outputs[:1]))


def _by_bytes(
    gpu: AchievableRates, kind: str, inputs: Tensors, outputs: Tensors, flops: float, moved: int
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
        case "elementwise" | "transcendental" if len({one[1] for one in inputs if one[0]}) > 1:
            seconds *= gpu.factors["memory.mixed_types"]
    each = _TRANSCENDENTAL_FLOPS if kind == "transcendental" else _PLAIN_FLOPS
    computed = max(elements * each, flops) / gpu.plain_rate(widest)
    return max(seconds, computed), gpu.filled(elements / _PER_THREAD)
