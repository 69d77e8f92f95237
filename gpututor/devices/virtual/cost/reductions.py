"""Costs of reductions, norms, scans, sorts and Fourier transforms.

Factors such as `norm.layer_block_gb_s` are fitted (`calibration.toml`).
"""

from __future__ import annotations

from math import ceil, log2, prod

from gpututor.devices.virtual.cost.calibration import AchievableRates
from gpututor.devices.virtual.cost.memory_traffic import (
    Tensor,
    Tensors,
    ceil_div,
    element_bytes,
    tensor_bytes,
    total_bytes,
)
from gpututor.devices.virtual.operator_facts import short_name

_ONE_READ = 1024
"""Elements of a row that softmax holds in registers."""
_CACHED = 64 * 1024
"""Bytes of rows that stay in a multiprocessor's cache between two reads."""
_LAYER_THREADS = 128
"""Threads of the block that layer norm and RMS norm give each row (layer_norm_kernel.cu)."""
_ROW_THREADS = 512
_ALL_BLOCKS = 1.1
"""Time of a scan by all blocks, relative to a copy: blocks wait for the sums of earlier blocks. An estimate."""
_COLUMN_STEP_S = 0.1e-6
"""Seconds for a thread to add one element of its column. An estimate."""
_TIME_STEP_S = 1e-6
"""Seconds of a time step of a loss: reads of the previous step, sums of logarithms, a barrier. An estimate."""


def _by_blocks_s(gpu: AchievableRates, moved: float, blocks: int, block_gb_s: float) -> float:
    """Return the seconds to move bytes divided among blocks: few blocks do not reach the GPU's bandwidth."""
    return max(gpu.moved_s(moved), moved / (max(blocks, 1) * block_gb_s * 1e9))


def norm(gpu: AchievableRates, name: str, kind: str, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """Return the seconds and filled share of a norm; in training, statistics by blocks, then a read and a write."""
    image = inputs[0]
    once = tensor_bytes(image)
    written = tensor_bytes(outputs[0]) if outputs else once
    apply_s = gpu.moved_s(once + written)
    groups = prod(outputs[1][0]) if len(outputs) > 1 else 0
    if kind == "eval_norm" or (kind == "batch_norm" and not groups):
        return apply_s, gpu.filled(prod(image[0]) / 4)
    if kind == "layer_norm":
        groups = max(groups or prod(image[0][:-1]), 1)
        moved = once + written + total_bytes(inputs[1:]) + total_bytes(outputs[1:])
        row_bytes = once / groups
        reading = row_bytes * min(groups, gpu.threads / _LAYER_THREADS)
        # Rows that all multiprocessors normalize at the same time are read again from the next level of memory.
        again_s = gpu.moved_s(once, reading) if reading > gpu.multiprocessors * _CACHED else 0.0
        rows = once + written + (once if row_bytes > _CACHED else 0)
        by_blocks_s = rows / (groups * gpu.factors["norm.layer_block_gb_s"] * 1e9)
        seconds = gpu.moved_s(moved) + again_s + _rows_s(gpu, name, groups)
        return max(seconds, by_blocks_s), gpu.filled(groups * _LAYER_THREADS)
    block = gpu.factors["norm.batch_block_gb_s" if kind == "batch_norm" else "norm.group_block_gb_s"]
    return _by_blocks_s(gpu, once, groups, block) + apply_s, gpu.filled(max(groups, 1) * _ROW_THREADS)


def _rows_s(gpu: AchievableRates, name: str, rows: int) -> float:
    """Return the seconds in which the blocks of a layer norm or RMS norm wait for sums of their rows.

    These waits come on top of the time for the bytes: all blocks of a multiprocessor wait at the same time.
    """
    factor = "norm.{}_row{}_us".format("rms" if "rms" in name else "layer", "_backward" * ("backward" in name))
    return rows * _LAYER_THREADS / gpu.threads * gpu.factors[factor] / 1e6


def norm_backward(gpu: AchievableRates, name: str, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """Return the seconds and filled share of a norm's gradients; inputs are (gradient, image, ...).

    Two reductions read gradient and image; both are read again for the gradient of the image. A batch norm has one
    block per channel, as in the forward pass.
    """
    both, image = total_bytes(inputs[:2]), inputs[0][0]
    total_s = gpu.moved_s(both + total_bytes(inputs) + total_bytes(outputs))
    if ("layer_norm" in name or "rms_norm" in name) and len(inputs) > 2:
        rows = prod(inputs[2][0])
        return total_s + _rows_s(gpu, name, rows), gpu.filled(rows * _LAYER_THREADS)
    if "batch_norm" not in name or len(image) < 2:
        return total_s, gpu.filled(prod(image) / 4)
    by_blocks_s = both / (image[1] * gpu.factors["norm.batch_block_gb_s"] * 1e9)
    return total_s + max(by_blocks_s - gpu.moved_s(both), 0.0), gpu.filled(image[1] * _ROW_THREADS)


def softmax(gpu: AchievableRates, inputs: Tensors) -> tuple[float, float]:
    """Return the seconds and filled share of a softmax over the last dimension."""
    shape, once = inputs[0][0], tensor_bytes(inputs[0])
    length = shape[-1] if shape else 1
    rows = prod(shape) // max(length, 1)
    if length <= _ONE_READ:
        return max(gpu.moved_s(2 * once), _computed_s(gpu, prod(shape), "warp")), gpu.filled(rows * 32)
    moved = once * gpu.factors["softmax.passes"]
    seconds = _by_blocks_s(gpu, moved, rows, gpu.factors["softmax.block_gb_s"])
    return max(seconds, _computed_s(gpu, prod(shape), "block")), gpu.filled(rows * 1024)


def softmax_backward(gpu: AchievableRates, name: str, inputs: Tensors) -> tuple[float, float]:
    """Return the seconds and filled share of the gradient of a softmax; inputs are (gradient, result).

    Without a logarithm, a kernel of its own multiplies both inputs first (SoftMax.cu).
    """
    shape, moved_s = inputs[0][0], gpu.moved_s(3 * tensor_bytes(inputs[0]))
    length = max(shape[-1], 1)
    computed_s = _computed_s(gpu, prod(shape), "backward") if length <= _ONE_READ else 0.0
    product_s = 0.0 if "log_softmax" in name else moved_s
    return max(moved_s, computed_s) + product_s, gpu.filled(prod(shape) // length * 32)


def _computed_s(gpu: AchievableRates, elements: int, kernel: str) -> float:
    """Return the seconds of a softmax's arithmetic, which takes longer than its bytes in half precision."""
    return elements * gpu.factors[f"softmax.{kernel}_cycles"] / (gpu.multiprocessors * gpu.clock_hz)


def pool(gpu: AchievableRates, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """Return the seconds and filled share of pooling. A window's side is assumed to be 3, or the stride if larger."""
    image, made = inputs[0][0], outputs[0][0] if outputs else inputs[0][0]
    sides = max(len(image) - 2, 1)
    steps = [
        max(ceil_div(before, max(after, 1)), 3) for before, after in zip(image[-sides:], made[-sides:], strict=False)
    ]
    cycles = prod(made) * prod(steps) * gpu.factors["pool.tap_cycles"]
    computed = cycles / (gpu.multiprocessors * gpu.spec.clock_khz * 1e3)
    return max(computed, gpu.moved_s(total_bytes(inputs) + total_bytes(outputs))), gpu.filled(prod(made))


def scan(gpu: AchievableRates, name: str, inputs: Tensors, outputs: Tensors, dim: int = -1) -> tuple[float, float]:
    """Return the seconds and filled share of a scan along `dim` (aten/src/ATen/native/cuda/ScanUtils.cuh).

    Along the last dimension one block scans each row; along another dimension one thread scans each column. A single
    row is scanned by all blocks together, except by cummax and cummin, which return indices.
    """
    shape = inputs[0][0]
    moved = total_bytes(inputs) + total_bytes(outputs)
    length = max(shape[dim] if -len(shape) <= dim < len(shape) else shape[-1], 1)
    rows = prod(shape) // length
    once = gpu.moved_s(moved)
    if rows == 1 and "cummax" not in name and "cummin" not in name:
        return once * _ALL_BLOCKS, gpu.filled(length / 4)
    once *= gpu.factors["scan.slowdown"]
    if dim not in (-1, len(shape) - 1):
        return max(once, length * _COLUMN_STEP_S), gpu.filled(rows)
    by_blocks_s = _by_blocks_s(gpu, moved, rows, gpu.factors["scan.block_gb_s"])
    return max(once, by_blocks_s), gpu.filled(rows * _ROW_THREADS)


def recursion(gpu: AchievableRates, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """Return the seconds and filled share of the CTC loss over (T, N, C), with sequential time steps."""
    probabilities = next((shape for shape, _ in inputs if len(shape) == 3), inputs[0][0])
    moved = gpu.moved_s(total_bytes(inputs) + total_bytes(outputs))
    return max(moved, probabilities[0] * _TIME_STEP_S), gpu.filled(prod(probabilities[1:2]) * 256)


def loss(gpu: AchievableRates, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """Return the seconds and filled share of a loss in two kernels: a value for each element, then the mean."""
    elements = max((prod(shape) for shape, _ in inputs), default=1)
    moved = total_bytes(inputs) + total_bytes(outputs)
    if outputs and prod(outputs[0][0]) < elements:
        moved += 2 * elements * element_bytes(inputs[0][1])
    return gpu.moved_s(moved), gpu.filled(elements / 4)


def negative_log_likelihood(gpu: AchievableRates, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """Return the seconds and filled share of an NLL loss; a single warp sums it to one number."""
    rows = prod(inputs[1][0]) if len(inputs) > 1 else 1
    moved = gpu.moved_s(rows * 64)
    if outputs and prod(outputs[0][0]) == 1:
        return moved + ceil_div(rows, 32) * gpu.factors["loss.nll_step_us"] / 1e6, gpu.filled(32)
    return moved, gpu.filled(rows)


def fourier(gpu: AchievableRates, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """Return the seconds and filled share of a Fourier transform: 5 · n · log2(n) FLOPs, two passes."""
    elements = max((prod(shape) for shape, _ in (*inputs, *outputs)), default=1)
    dtype = inputs[0][1] if inputs else "float32"
    computed = 5.0 * elements * log2(max(elements, 2)) / gpu.plain_rate(dtype)
    return max(computed, 2 * gpu.moved_s(total_bytes(inputs) + total_bytes(outputs))), gpu.filled(elements / 4)


_SECTOR = 32
"""Bytes that one step of a binary search reads."""
_CACHED_STEPS = 10
"""First steps of a binary search, served from cache: all threads read the same few elements."""
_KEY = 8
"""Bytes of a random key, and of its index, in a permutation."""


def sort(gpu: AchievableRates, name: str, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """Return the seconds and filled share of a radix sort of keys with indices, or of a search or selection."""
    match short_name(name):
        case "topk" if inputs and outputs:
            return _topk(gpu, inputs[0], outputs[0])
        case "kthvalue" | "median" | "nanmedian" if inputs:
            return _kthvalue(gpu, inputs[0], outputs)
        case "searchsorted" | "bucketize" if len(inputs) > 1 and outputs:
            bounds = inputs[0 if short_name(name) == "searchsorted" else 1]
            return _searchsorted(gpu, bounds, inputs, outputs)
        case "nonzero" | "argwhere" if inputs:
            # Counted, selected, then the positions are split into one index per dimension.
            read, written = total_bytes(inputs), total_bytes(outputs)
            return gpu.moved_s(2 * read + 3 * written), gpu.filled(prod(inputs[0][0]) / 4)
        case "unique_consecutive" if inputs:
            return gpu.moved_s(4 * total_bytes(inputs) + 2 * total_bytes(outputs)), gpu.filled(prod(inputs[0][0]) / 4)
        case "randperm":
            elements = max((prod(shape) for shape, _ in outputs), default=1)
            moved = elements * 2 * _KEY * gpu.factors["sort.passes"]
            return gpu.moved_s(moved), gpu.filled(elements / 4)
    elements = max((prod(shape) for shape, _ in (*inputs, *outputs)), default=1)
    widest = max((element_bytes(dtype) for _, dtype in inputs), default=4)
    return _sorted_s(gpu, elements, widest), gpu.filled(elements / 4)


def _sorted_s(gpu: AchievableRates, elements: int, widest: int) -> float:
    return gpu.moved_s(elements * (widest + 8) * gpu.factors["sort.passes"] / 2)


def _topk(gpu: AchievableRates, values: Tensor, selected: Tensor) -> tuple[float, float]:
    """Return the cost of a radix select by 8 bits, then a gather and sort of the selected (native/cuda/TensorTopK.cu).

    At most the cost of a whole sort.
    """
    size = element_bytes(values[1])
    searched = gpu.moved_s(tensor_bytes(values) * (size + 2)) + _sorted_s(gpu, prod(selected[0]), size)
    return min(searched, _sorted_s(gpu, prod(values[0]), size)), gpu.filled(prod(values[0]) / 4)


def _kthvalue(gpu: AchievableRates, values: Tensor, outputs: Tensors) -> tuple[float, float]:
    """Return the cost of a radix select by 2 bits with one block per row (native/cuda/Sorting.cu)."""
    rows = max(prod(outputs[0][0]) if outputs else 1, 1)
    moved = tensor_bytes(values) * (4 * element_bytes(values[1]) + 1)
    by_blocks_s = moved / (rows * gpu.factors["softmax.block_gb_s"] * 1e9)
    return max(gpu.moved_s(moved), by_blocks_s), gpu.filled(rows * 1024)


def _searchsorted(gpu: AchievableRates, bounds: Tensor, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """Return the cost of a binary search per value."""
    elements = prod(outputs[0][0])
    steps = max(ceil(log2(max(bounds[0][-1] if bounds[0] else 1, 2))) - _CACHED_STEPS, 0)
    read = gpu.moved_s(elements * steps * _SECTOR, tensor_bytes(bounds))
    return read + gpu.moved_s(total_bytes(inputs) + total_bytes(outputs)), gpu.filled(elements)
