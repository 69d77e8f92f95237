"""Costs of convolutions: cuDNN's kernels on tensor cores, its plain kernels and its depthwise kernels.

Shares and passes named `convolution.*` are fitted factors of `calibration.toml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pow, prod

from gpututor.devices.virtual.cost.calibration import AchievableRates
from gpututor.devices.virtual.cost.memory_traffic import Tensor, Tensors, ceil_div, tensor_bytes, total_bytes

_FEW = 4
"""Largest number of input channels that is too small to fill a tile."""
_STEP, _TILE = 32, 128
"""Channels that 3-d tensor-core kernels need multiples of, and output channels of a tile."""
_TUNED_TAPS = 9
"""Taps of the largest window for which cuDNN has its fastest kernels."""
_NON_SQUARE_CYCLES = 34
"""Cycles of a multiprocessor for each output of a depthwise convolution with a non-square window, in channels-last
layout. Measured with two programs on an H100 PCIe: cuDNN has fast kernels for square windows only."""
_NON_SQUARE_BASE = 1.7
"""Base cycles of a depthwise output with a non-square window, relative to a square window, from the same two programs.
PyTorch's kernels are compiled for windows of 1, 3 and 5; for other windows they loop."""
_BLOCK_OUTPUTS = 128 * 64
"""Output elements that one block computes."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """Convolution as described by its shapes."""

    groups: int
    channels_in: int
    """Input channels of a group; `channels_out` counts its output channels."""
    channels_out: int
    taps: int
    """Elements of the window."""
    sides: int
    """Spatial dimensions: 1, 2 or 3."""
    outputs: int
    """Elements of the output."""
    needed: float
    """FLOPs by definition."""
    transposed: bool

    @property
    def visited(self) -> float:
        """FLOPs of a kernel that applies each tap to each output, even between a strided image's elements."""
        return 2.0 * self.outputs * self.channels_in * self.taps


def describe_convolution(image: Tensor, weight: Tensor, output: Tensor, flops: float) -> Convolution:
    """Return the convolution of image (N, C, ...) and output (N, O, ...).

    The weight is (O, C/groups, ...), or (C, O/groups, ...) if transposed. If both fit, `flops` decides.
    """
    channels, made, (first, second, *window) = image[0][1], output[0][1], weight[0]
    forward = first == made and channels % max(second, 1) == 0
    backward = first == channels and made % max(second, 1) == 0
    if forward and backward:
        as_forward = 2.0 * prod(output[0]) * second * prod(window)
        as_backward = 2.0 * prod(image[0]) * second * prod(window)
        backward = bool(flops) and abs(flops - as_backward) < abs(flops - as_forward)
    groups = max(made // second if backward else channels // max(second, 1), 1)
    needed = 2.0 * prod(image[0] if backward else output[0]) * second * prod(window)
    return Convolution(
        groups, max(channels // groups, 1), max(made // groups, 1), prod(window), len(window), prod(output[0]), needed,
        backward,
    )  # fmt: skip


def _computed_s(gpu: AchievableRates, shape: Convolution, dtype: str, tf32: bool) -> float:
    """Return the seconds of the arithmetic on a filled GPU."""
    factors, plain = gpu.factors, gpu.plain_rate(dtype)
    # Kernels of a strided transposed convolution skip some of the taps between the image's elements.
    needed = min(shape.needed, shape.visited)
    flops = needed * pow(shape.visited / needed, factors["convolution.visits"])
    if shape.groups > 1:
        return flops / (plain * factors["convolution.grouped"])
    if shape.channels_in <= _FEW:
        return flops / (plain * factors["convolution.few_channels"])
    # cuDNN has no float64 kernels on tensor cores.
    peak = 0.0 if dtype == "float64" else gpu.tensor_rate(dtype, tf32)
    plainly = flops / (plain * factors["convolution.plain"])
    if shape.sides == 3 and (shape.channels_in % _STEP or shape.channels_out % _STEP):
        return plainly
    tile = shape.channels_out / (ceil_div(shape.channels_out, _TILE) * _TILE)
    tensor = peak * factors["convolution.tensor"] * pow(tile, factors["convolution.tile"])
    if not shape.transposed and shape.taps > _TUNED_TAPS:
        tensor *= pow(_TUNED_TAPS / shape.taps, factors["convolution.window"])
    return min(flops / tensor, plainly) if tensor else plainly


def convolution(
    gpu: AchievableRates,
    image: Tensor,
    weight: Tensor,
    output: Tensor,
    flops: float,
    tf32: bool,
    channels_last: bool = False,
) -> tuple[float, float]:
    """Return the seconds and filled share of a convolution; image and output are (N, C, ...).

    With `channels_last`, the tensors already have the layout of the tensor-core kernels. Otherwise the kernels convert
    it first.
    """
    shape = describe_convolution(image, weight, output, flops)
    channels_last = channels_last and gpu.tensor_rate(image[1], tf32) > 0
    factors, moved = gpu.factors, total_bytes((image, weight, output))
    if shape.groups > 1 and shape.channels_in == 1:
        non_square = len(set(weight[0][2:])) > 1
        if channels_last:
            cycles = _NON_SQUARE_CYCLES if non_square else 0.0
            computed = shape.outputs * cycles / (gpu.multiprocessors * gpu.clock_hz)
            return max(gpu.moved_s(moved), computed), gpu.filled(shape.outputs)
        base = factors["convolution.depthwise_base"] * (_NON_SQUARE_BASE if non_square else 1.0)
        cycles = base + factors["convolution.depthwise_tap"] * shape.taps
        loads_per_s = gpu.multiprocessors * gpu.spec.load_units_per_multiprocessor * gpu.clock_hz
        return max(shape.outputs * cycles / loads_per_s, gpu.moved_s(moved)), gpu.filled(shape.outputs)
    filled = min(1.0, shape.outputs / _BLOCK_OUTPUTS / gpu.multiprocessors)
    computed = _computed_s(gpu, shape, image[1], tf32) / filled
    if channels_last:
        return max(gpu.moved_s(moved), computed), filled
    if shape.taps == 1:
        return max(gpu.moved_s(moved) * factors["convolution.pointwise_passes"], computed), filled
    if shape.channels_in <= _FEW:
        return gpu.moved_s(moved) + computed, filled
    read, written = gpu.moved_s(total_bytes((image, weight)), moved), gpu.moved_s(tensor_bytes(output), moved)
    into = factors["convolution.transposed_passes" if shape.transposed else "convolution.write_passes"]
    return read * factors["convolution.read_passes"] + written * into + computed, filled


def bias_s(gpu: AchievableRates, inputs: Tensors, outputs: Tensors) -> float:
    """Return the seconds of the kernel that adds a bias after cuDNN's kernel; 0 without a bias."""
    if len(inputs) < 3 or len(inputs[2][0]) != 1:
        return 0.0
    return gpu.moved_s(2 * tensor_bytes(outputs[0])) + gpu.factors["memory.floor_us"] / 1e6


def convolution_backward(
    gpu: AchievableRates, inputs: Tensors, outputs: Tensors, tf32: bool, channels_last: bool = False
) -> tuple[float, float]:
    """Return the seconds and filled share of a backward pass; inputs are (gradient, image, weight, ...)."""
    gradient, image, weight = inputs[:3]
    seconds, filled = convolution(gpu, image, weight, gradient, 0.0, tf32, channels_last)
    slower = gpu.factors["convolution.weight_gradient" + "_tensor" * (gpu.tensor_rate(image[1], tf32) > 0)]
    wanted = [shape for shape, _ in outputs if shape in (image[0], weight[0])]
    times = sum(slower if shape == weight[0] else 1.0 for shape in wanted) or 1.0
    # The bias's gradient is the sum of the output's gradient.
    summed = gpu.moved_s(tensor_bytes(gradient)) if any(len(shape) == 1 for shape, _ in outputs) else 0.0
    return seconds * times + summed, filled
