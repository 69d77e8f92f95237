"""Prices of convolutions: cuDNN's kernels on tensor cores, the plain ones, and the depthwise ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pow, prod

from gpututor.devices.virtual.cost.calibration import AchievableRates
from gpututor.devices.virtual.cost.registry import Tensor, tensor_bytes, total_bytes, up

_FEW = 4
"""Input channels that fill no tile."""
_STEP, _TILE = 32, 128
"""Channels: 3-d kernels for tensor cores take whole steps; a tile has so many output channels."""
_TUNED_TAPS = 9
"""Elements of the largest kernel that cuDNN has its fastest kernels for."""
_BLOCK_OUTPUTS = 128 * 64
"""Elements of the result that one block computes."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """What shapes tell of a convolution."""

    groups: int
    channels_in: int
    """Of one group, as `channels_out`."""
    channels_out: int
    taps: int
    """Elements of the kernel for one channel."""
    sides: int
    """Dimensions of the image: 1, 2 or 3."""
    outputs: int
    """Elements of the result."""
    needed: float
    """FLOPs by the definition."""
    transposed: bool

    @property
    def visited(self) -> float:
        """FLOPs of a kernel that visits each output with each tap, also those between the image's elements."""
        return 2.0 * self.outputs * self.channels_in * self.taps


def described(image: Tensor, weight: Tensor, output: Tensor, flops: float) -> Convolution:
    """From image (N, C, ...), weight (O, C/groups, ...) or, transposed, (C, O/groups, ...), and output (N, O, ...)."""
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


def _computed_s(gpu: AchievableRates, one: Convolution, dtype: str, tf32: bool) -> float:
    """Seconds of the arithmetic, the GPU being filled."""
    factors, plain = gpu.factors, gpu.plain_rate(dtype)
    # In a strided transposed convolution kernels skip some of the taps that fall between the elements of the image.
    needed = min(one.needed, one.visited)
    flops = needed * pow(one.visited / needed, factors["convolution.visits"])
    if one.groups > 1:
        return flops / (plain * factors["convolution.grouped"])
    if one.channels_in <= _FEW:
        return flops / (plain * factors["convolution.few_channels"])
    # cuDNN has no float64 kernels on tensor cores.
    peak = 0.0 if dtype == "float64" else gpu.tensor_rate(dtype, tf32)
    plainly = flops / (plain * factors["convolution.plain"])
    if one.sides == 3 and (one.channels_in % _STEP or one.channels_out % _STEP):
        return plainly
    tile = one.channels_out / (up(one.channels_out, _TILE) * _TILE)
    tensor = peak * factors["convolution.tensor"] * pow(tile, factors["convolution.tile"])
    if not one.transposed and one.taps > _TUNED_TAPS:
        tensor *= pow(_TUNED_TAPS / one.taps, factors["convolution.window"])
    return min(flops / tensor, plainly) if tensor else plainly


def convolution(
    gpu: AchievableRates, image: Tensor, weight: Tensor, output: Tensor, flops: float, tf32: bool
) -> tuple[float, float]:
    """Seconds and filled share of one convolution; image and output (N, C, ...)."""
    one = described(image, weight, output, flops)
    factors, moved = gpu.factors, total_bytes((image, weight, output))
    if one.groups > 1 and one.channels_in == 1:
        cycles = factors["convolution.depthwise_base"] + factors["convolution.depthwise_tap"] * one.taps
        loads_per_s = gpu.multiprocessors * gpu.spec.load_units_per_multiprocessor * gpu.clock_hz
        return max(one.outputs * cycles / loads_per_s, gpu.moved_s(moved)), gpu.filled(one.outputs)
    filled = min(1.0, one.outputs / _BLOCK_OUTPUTS / gpu.multiprocessors)
    computed = _computed_s(gpu, one, image[1], tf32) / filled
    if one.taps == 1:
        return max(gpu.moved_s(moved) * factors["convolution.pointwise_passes"], computed), filled
    if one.channels_in <= _FEW:
        return gpu.moved_s(moved) + computed, filled
    read, written = gpu.moved_s(total_bytes((image, weight)), moved), gpu.moved_s(tensor_bytes(output), moved)
    into = factors["convolution.transposed_passes" if one.transposed else "convolution.write_passes"]
    return read * factors["convolution.read_passes"] + written * into + computed, filled


def bias_s(gpu: AchievableRates, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> float:
    """Seconds of adding the bias, where there is one: a kernel of its own after cuDNN's, over the whole result."""
    if len(inputs) < 3 or len(inputs[2][0]) != 1:
        return 0.0
    return gpu.moved_s(2 * tensor_bytes(outputs[0])) + gpu.factors["memory.floor_us"] / 1e6


def convolution_backward(
    gpu: AchievableRates, inputs: Sequence[Tensor], outputs: Sequence[Tensor], tf32: bool
) -> tuple[float, float]:
    """Seconds and filled share of the gradients of image and weight; inputs are (gradient, image, weight, ...)."""
    gradient, image, weight = inputs[:3]
    seconds, filled = convolution(gpu, image, weight, gradient, 0.0, tf32)
    wanted = sum(1 for one in outputs if one[0] in (image[0], weight[0]))
    # The bias's gradient is a sum over the gradient.
    summed = gpu.moved_s(tensor_bytes(gradient)) if any(len(one[0]) == 1 for one in outputs) else 0.0
    return seconds * max(wanted, 1) + summed, filled
