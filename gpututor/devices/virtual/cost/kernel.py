"""Cost of one operator on one GPU, from its name and the shapes and dtypes of its tensors.

A roofline: the longer of arithmetic and memory traffic, plus a floor for each kernel. The rates are the GPU's peaks
times fitted factors (`calibration.toml`); the modules of each kind of operator cite their formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from gpututor.devices.virtual.cost import convolutions, matrices, recurrent, reductions
from gpututor.devices.virtual.cost.calibration import AchievableRates, CalibrationFactors, calibrated, fitted
from gpututor.devices.virtual.cost.memory_traffic import (
    Tensors,
    bytes_accessed,
    chunk_bytes,
    element_bytes,
    is_multi_tensor,
    multi_tensor_kernels,
)
from gpututor.devices.virtual.operator_facts import NO_COST, kind_of, short_name
from gpututor.hardware.gpus import GpuSpec

Layout = Literal["", "channels_last", "transposed"]
"""Layout in memory of images, or of the first factor of a product; empty if it is contiguous."""
_PER_THREAD = 4
"""Elements that a thread of an elementwise kernel computes."""
_PLAIN_FLOPS, _TRANSCENDENTAL_FLOPS = 2, 30
"""Instructions per element, for plain arithmetic and for functions such as exp."""
_BLOCK_CYCLE_BYTES = {False: 50, True: 34}
"""Bytes per cycle that a block of a multi-tensor kernel moves; True for a fused optimizer's step. Each block works on
its own chunk (measured on an H200)."""
_KERNELS = {"batch_norm": 3, "group_norm": 2, "loss": 2, "sort": 8, "norm_backward": 3, "attention_backward": 3}
"""Kernels that an operator launches, for kinds with more than one."""


@dataclass(frozen=True, slots=True)
class Price:
    """Cost of an operator's kernels for the GPU, without launches."""

    seconds: float
    """0 for an operator that launches nothing."""
    bytes: int
    """Bytes read and written, each tensor once."""
    flops: float
    fill: float
    """Share of the GPU that the kernels occupy, from 0 to 1; other kernels can use the rest."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one operator on tensors of certain shapes and dtypes."""

    duration: int
    """Nanoseconds of its kernels."""
    fill: int
    """Share of the GPU that the kernels need, in millionths."""
    host: int
    """Nanoseconds of the host for the launch; for an operator on the CPU, all of its time."""
    flops: float
    dtype: str = ""
    """Floating dtype of the kernels; see `gpututor.trace.events.compute_dtype`."""
    host_after: int = 0
    """Nanoseconds of the host after the first kernel, in which it launches the others."""


@dataclass(frozen=True, slots=True)
class _Options:
    """Properties of a call that do not follow from its shapes, and the bytes that it moves."""

    moved: int
    dim: int
    causal: bool
    layout: Layout


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
    layers: recurrent.RecurrentLayers | None = None,
    causal: bool = False,
    layout: Layout = "",
) -> Price:
    """Return the cost of one operator on a GPU.

    `name` as in `aten.mm.default`. Tensors are (shape, dtype), such as `((2, 3), "float32")`; outputs include what is
    written in place. `flops` are those of torch.utils.flop_counter, 0 if unknown. `tf32` and `convolution_tf32` are the
    switches of `torch.backends.cuda.matmul` and `torch.backends.cudnn`. `gpu` replaces the fitted rates. `dim` is the
    dimension of a scan, `layers` the sizes of recurrent layers. `causal` attention leaves out half of the pairs. In a
    `layout` of `channels_last` the channels of a pixel are adjacent; the columns of a `transposed` first factor of a
    product are contiguous.
    """
    kind = kind_of(name)
    if kind == NO_COST:
        return Price(0.0, 0, 0.0, 0.0)
    gpu = gpu or calibrated(spec)
    moved = bytes_accessed(name, kind, inputs, outputs)
    if layers is not None:
        backward = "backward" in name
        seconds, fill = recurrent.seconds(gpu, layers, convolution_tf32, backward), recurrent.filled(gpu, layers)
        return Price(seconds, moved, layers.flops * (2 if backward else 1), fill)
    if is_multi_tensor(name):
        kernels = multi_tensor_kernels(name, inputs)
        block_bytes = _BLOCK_CYCLE_BYTES["_fused" in name]
        seconds = max(gpu.moved_s(moved), chunk_bytes(name, inputs, moved) / (block_bytes * gpu.clock_hz))
        fill = gpu.filled(sum(prod(shape) for shape, _ in inputs) / _PER_THREAD)
    else:
        kernels = matrices.ATTENTION_KERNELS.get(short_name(name)) or _KERNELS.get(kind, 1)
        switches = (tf32, convolution_tf32)
        options = _Options(moved, dim, causal, layout)
        seconds, fill = _seconds(gpu, name, kind, inputs, outputs, flops, switches, options)
    floor = gpu.factors["memory.floor_us"] / 1e6 * kernels
    return Price(seconds + floor, moved, flops, min(max(fill, 0.0), 1.0))


def launches(name: str, factors: CalibrationFactors | None = None, tensors: int = 1) -> float:
    """Return an operator's cost for the host, in launches of an elementwise operator (`GpuSpec.launch_s`).

    Views cost a fraction of a launch. `tensors` is the number of tensors of an operator on lists.
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
    options: _Options,
) -> tuple[float, float]:
    """Return the seconds and filled share. Operators with unexpected shapes, or without a model, cost their bytes."""
    if inputs and inputs[0][0] and all(prod(shape) for shape, _ in (*inputs[:3], *outputs)):
        match kind:
            case "matmul" if sum(1 for shape, _ in inputs if shape) > 1:
                return matrices.product(gpu, inputs, outputs, tf32[0], options.layout == "transposed")
            case "attention" | "attention_backward" if len(inputs) > 2 and len(inputs[1][0]) > 1:
                return matrices.attention(gpu, name, inputs, outputs, flops, tf32[0], options.causal)
            case "convolution" if outputs and len(inputs) > 1 and _are_images(inputs[:2], outputs):
                images, last = (inputs[0], inputs[1], outputs[0]), options.layout == "channels_last"
                seconds, fill = convolutions.convolution(gpu, *images, flops, tf32[1], last)
                return seconds + convolutions.bias_s(gpu, inputs, outputs), fill
            case "convolution_backward" if len(inputs) > 2 and _are_images(inputs[:3], ()):
                last = options.layout == "channels_last"
                return convolutions.convolution_backward(gpu, inputs, outputs, tf32[1], last)
            case "batch_norm" | "eval_norm" | "group_norm" | "layer_norm":
                return reductions.norm(gpu, name, kind, inputs, outputs)
            case "norm_backward":
                return reductions.norm_backward(gpu, name, inputs, outputs)
            case "softmax":
                return reductions.softmax(gpu, inputs)
            case "softmax_backward" if len(inputs) > 1:
                return reductions.softmax_backward(gpu, name, inputs)
            case "pool":
                return reductions.pool(gpu, inputs, outputs)
            case "scan":
                return reductions.scan(gpu, name, inputs, outputs, options.dim)
            case "loss":
                return reductions.loss(gpu, inputs, outputs)
            case "nll":
                return reductions.negative_log_likelihood(gpu, inputs, outputs)
            case "sort":
                return reductions.sort(gpu, name, inputs, outputs)
            case "linalg":
                return matrices.factorization(gpu, name, inputs, outputs)
            case "fft":
                return reductions.fourier(gpu, inputs, outputs)
            case "contraction" if matrices.fits(name, inputs):
                return matrices.contraction(gpu, name, inputs, outputs, tf32[0])
            case "recursion":
                return reductions.recursion(gpu, inputs, outputs)
    if kind == "sort" and not inputs and outputs:
        return reductions.sort(gpu, name, inputs, outputs)
    return _by_bytes(gpu, kind, inputs, outputs, flops, options.moved)


def _are_images(inputs: Tensors, outputs: Tensors) -> bool:
    return all(len(shape) > 2 for shape, _ in (*inputs, *outputs[:1]))


def _by_bytes(
    gpu: AchievableRates, kind: str, inputs: Tensors, outputs: Tensors, flops: float, moved: int
) -> tuple[float, float]:
    """Return the seconds and filled share of elementwise kernels, copies, reductions and unknown operators."""
    elements = max((prod(shape) for shape, _ in (outputs if kind == "gather" else (*outputs, *inputs))), default=1)
    widest = max((dtype for _, dtype in (*inputs, *outputs)), key=element_bytes, default="float32")
    seconds = gpu.moved_s(moved)
    match kind:
        case "rearrange":
            seconds *= gpu.factors["memory.rearranged"]
        case "gather" | "scatter":
            seconds *= gpu.factors["memory.gathered"]
        case "elementwise" | "transcendental" if len({dtype for shape, dtype in inputs if shape}) > 1:
            seconds *= gpu.factors["memory.mixed_types"]
    per_element = _TRANSCENDENTAL_FLOPS if kind == "transcendental" else _PLAIN_FLOPS
    computed = max(elements * per_element, flops) / gpu.plain_rate(widest)
    return max(seconds, computed), gpu.filled(elements / _PER_THREAD)
