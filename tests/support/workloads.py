"""Operators of training programs by the number of their elements, for sweeps over sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isqrt

from gpututor.devices.virtual.cost.kernel import Price, price
from gpututor.devices.virtual.cost.memory_traffic import Tensor
from gpututor.hardware.gpus import gpu_spec

Made = tuple[list[Tensor], list[Tensor], float]
"""Inputs, outputs, and the FLOPs that the operator needs at least."""


@dataclass(frozen=True)
class Workload:
    """An operator; `make` returns its tensors for a number of elements and a dtype."""

    label: str
    name: str
    make: Callable[[int, str], Made]

    def price(self, gpu: str, elements: int, dtype: str, tf32: bool = False) -> Price:
        """Return the operator's price on a GPU."""
        inputs, outputs, flops = self.make(elements, dtype)
        return price(gpu_spec(gpu), self.name, inputs, outputs, flops, tf32=tf32)


def tensor(*shape: int, dtype: str = "float32") -> Tensor:
    return shape, dtype


def _elementwise(inputs: int, outputs: int) -> Callable[[int, str], Made]:
    return lambda n, d: ([tensor(n, dtype=d)] * inputs, [tensor(n, dtype=d)] * outputs, 0.0)


def _row_operators(width: int) -> Iterator[tuple[str, Callable[[int, str], Made]]]:
    def rows(n: int, d: str) -> Tensor:
        return tensor(max(n // width, 1), width, dtype=d)

    def each(n: int, dtype: str = "float32") -> Tensor:
        return tensor(max(n // width, 1), dtype=dtype)

    weights = [tensor(width)] * 2
    yield "sum", lambda n, d: ([rows(n, d)], [each(n, d)], 0.0)
    yield "_softmax", lambda n, d: ([rows(n, d)], [rows(n, d)], 0.0)
    yield "_log_softmax_backward_data", lambda n, d: ([rows(n, d)] * 2, [rows(n, d)], 0.0)
    yield "native_layer_norm", lambda n, d: ([rows(n, d), *weights], [rows(n, d), each(n), each(n)], 0.0)
    yield (
        "native_layer_norm_backward",
        lambda n, d: ([rows(n, d), rows(n, d), each(n), each(n), *weights], [rows(n, d), *weights], 0.0),
    )
    yield "cumsum", lambda n, d: ([rows(n, d)], [rows(n, d)], 0.0)
    yield "sort", lambda n, d: ([rows(n, d)], [rows(n, d), (rows(n, d)[0], "int64")], 0.0)
    yield "nll_loss_forward", lambda n, d: ([rows(n, d), each(n, "int64")], [tensor(dtype=d), tensor(dtype=d)], 0.0)
    table = (30_000, width)
    yield "embedding", lambda n, d: ([(table, d), each(n, "int64")], [rows(n, d)], 0.0)
    yield "embedding_dense_backward", lambda n, d: ([rows(n, d), each(n, "int64")], [(table, d)], 0.0)
    yield "index_add_", lambda n, d: ([(table, d), each(n, "int64"), rows(n, d)], [(table, d)], 0.0)


def _image_operators(channels: int, side: int) -> Iterator[tuple[str, str, Callable[[int, str], Made]]]:
    def image(n: int, d: str, shrink: int = 1) -> Tensor:
        return tensor(max(n // (channels * side * side), 1), channels, side // shrink, side // shrink, dtype=d)

    def flops(n: int, taps: int, depth: int) -> float:
        return 2.0 * image(n, "")[0][0] * channels * side * side * taps * depth

    stats = [tensor(channels)] * 2
    for taps, depth in ((3, channels), (1, channels), (3, 1)):

        def convolution(n: int, d: str, taps: int = taps, depth: int = depth) -> Made:
            weight = tensor(channels, depth, taps, taps, dtype=d)
            return [image(n, d), weight], [image(n, d)], flops(n, taps * taps, depth)

        yield f"convolution {taps}×{taps} of {depth}", "convolution", convolution

    def backward(n: int, d: str) -> Made:
        weight = tensor(channels, channels, 3, 3, dtype=d)
        return [image(n, d), image(n, d), weight], [image(n, d), weight], 2 * flops(n, 9, channels)

    yield "convolution_backward", "convolution_backward", backward
    for name, inputs, outputs in (
        ("native_batch_norm", 1, 1), ("native_batch_norm_backward", 2, 1), ("native_group_norm_backward", 2, 1),
    ):  # fmt: skip

        def norm(n: int, d: str, inputs: int = inputs, outputs: int = outputs) -> Made:
            return [*[image(n, d)] * inputs, *stats], [*[image(n, d)] * outputs, *stats], 0.0

        yield name, name, norm
    places = "int64"
    yield (
        "max_pool2d_with_indices", "max_pool2d_with_indices",
        lambda n, d: ([image(n, d)], [image(n, d, 2), (image(n, d, 2)[0], places)], 0.0),
    )  # fmt: skip
    yield (
        "max_pool2d_with_indices_backward", "max_pool2d_with_indices_backward",
        lambda n, d: ([image(n, d, 2), image(n, d), (image(n, d, 2)[0], places)], [image(n, d)], 0.0),
    )  # fmt: skip


def _products() -> Iterator[tuple[str, str, Callable[[int, str], Made]]]:
    for wide in (64, 1024, 4096):

        def tall(n: int, d: str, wide: int = wide) -> Made:
            rows = max(n // wide, 1)
            return (
                [tensor(rows, wide, dtype=d), tensor(wide, wide, dtype=d)],
                [tensor(rows, wide, dtype=d)],
                2.0 * rows * wide**2,
            )

        yield f"mm by {wide}", "mm", tall

    def square(n: int, d: str) -> Made:
        matrix = tensor(isqrt(n), isqrt(n), dtype=d)
        return [matrix, matrix], [matrix], 2.0 * isqrt(n) ** 3

    def batched(n: int, d: str) -> Made:
        matrices = tensor(max(n // 4096, 1), 64, 64, dtype=d)
        return [matrices, matrices], [matrices], 2.0 * matrices[0][0] * 64**3

    yield "mm, square", "mm", square
    yield "bmm", "bmm", batched
    yield (
        "mv",
        "mv",
        lambda n, d: (
            [tensor(n // 1024 + 1, 1024, dtype=d), tensor(1024, dtype=d)],
            [tensor(n // 1024 + 1, dtype=d)],
            0,
        ),
    )
    for name, inputs, outputs, share in (
        ("_scaled_dot_product_flash_attention", 3, 1, 1.0), ("_scaled_dot_product_flash_attention_backward", 5, 3, 2.5),
    ):  # fmt: skip
        for length in (1024, 0):

            def attention(
                n: int, d: str, inputs: int = inputs, outputs: int = outputs, share: float = share, length: int = length
            ) -> Made:
                rows = length or max(n // 1024, 1)
                batch = max(n // (1024 * 1024), 1) if length else 1
                heads = tensor(batch, 16, rows, 64, dtype=d)
                return [heads] * inputs, [heads] * outputs, share * 4.0 * batch * 16 * rows * rows * 64

            yield f"{name} of {length or 'all'}", name, attention


def workloads() -> list[Workload]:
    """Return all workloads."""
    listed = [
        Workload(name, f"aten::{name}", _elementwise(inputs, outputs))
        for name, inputs, outputs in (
            ("add", 2, 1), ("exp", 1, 1), ("clone", 1, 1), ("add_", 2, 1), ("fill_", 1, 1), ("where", 3, 1),
            ("native_dropout", 1, 2), ("_foreach_add", 2, 1), ("_foreach_lerp_", 2, 0), ("_fused_adam_", 4, 0),
            ("mse_loss", 2, 1), ("flip", 1, 1), ("dot", 2, 0), ("something_of_mine", 2, 1),
        )
    ]  # fmt: skip
    listed.append(Workload("sum", "aten::sum", lambda n, d: ([tensor(n, dtype=d)], [tensor(dtype=d)], 0.0)))
    listed.append(Workload("cat", "aten::cat", lambda n, d: ([tensor(n, dtype=d)] * 2, [tensor(2 * n, dtype=d)], 0.0)))
    for width in (16, 1000, 4096, 65536):
        listed += [Workload(f"{name} of {width}", f"aten::{name}", make) for name, make in _row_operators(width)]
    for channels, side in ((64, 56), (512, 8)):
        listed += [
            Workload(f"{label} with {channels}", f"aten::{name}", make)
            for label, name, make in _image_operators(channels, side)
        ]
    return listed + [Workload(label, f"aten::{name}", make) for label, name, make in _products()]
