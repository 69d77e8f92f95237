"""Modelled figures of well-known kernels, compared with published ranges. Prints a table.

    python benchmarks/published.py

The ranges were measured by others, with other versions and boards. The model is not fitted to them, except for the
shares of the tensor cores' peak that calibration.toml marks as kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpututor.devices.virtual.cost.kernel import price
from gpututor.devices.virtual.cost.memory_traffic import Tensor
from gpututor.hardware.gpus import gpu_spec

_BEST = "at most {}, at the best shape: ml-engineering, Maximum Achievable Matmul FLOPS; the range begins at 0.8 of it"
_FLASH2 = "FlashAttention-2, Dao, 2023: {} of an A100's peak"
_FLASH3 = "FlashAttention-3, Shah and others, 2024: the second version attains 0.35 of an H100's peak"
_COPY = "bound by memory: what a plain copy attains, 0.8 to 0.95 of HBM's peak, 0.7 to 0.9 of GDDR6's with ECC"


@dataclass(frozen=True)
class Known:
    """A kernel and its published range."""

    gpu: str
    label: str
    name: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    flops: float
    """0 for a kernel whose bandwidth counts."""
    low: float
    """TFLOPS, or share of the peak bandwidth."""
    high: float
    source: str


def _product(gpu: str, size: int, dtype: str, low: float, high: float, source: str) -> Known:
    square = ((size, size), dtype)
    label = f"{size}³ in {dtype}"
    return Known(gpu, label, "mm", [square, square], [square], 2.0 * size**3, low, high, source)


def _attention(gpu: str, length: int, width: int, backward: bool, low: float, high: float, source: str) -> Known:
    batch, heads = max(16384 // length, 1), 2048 // width
    tensor = ((batch, heads, length, width), "bfloat16")
    flops = 4.0 * batch * heads * length**2 * width * (2.5 if backward else 1)
    way = "_backward" if backward else ""
    name, label = f"_scaled_dot_product_flash_attention{way}", f"attention{way}, {length} × {width}"
    return Known(
        gpu, label, name, [tensor] * (5 if backward else 3), [tensor] * (3 if backward else 1), flops, low, high, source
    )


def _traffic(gpu: str, label: str, name: str, inputs: list[Tensor], outputs: list[Tensor], low: float) -> Known:
    return Known(gpu, label, name, inputs, outputs, 0.0, low, 0.95, _COPY)


_LARGE: Tensor = ((2**28,), "float32")
_ROWS: Tensor = ((2**16, 1024), "float32")
_PARAMETERS: list[Tensor] = [((10**6,), "float32")] * 400 + [((), "float32")] * 100
KNOWN = [
    *[_product("A100 80", size, "bfloat16", 0.8 * 271.2, 271.2, _BEST.format(271.2)) for size in (4096, 8192, 16384)],
    *[_product("H100", size, "bfloat16", 0.8 * 794.5, 794.5, _BEST.format(794.5)) for size in (4096, 8192, 16384)],
    _product("B200", 16384, "bfloat16", 0.8 * 1745, 1745, _BEST.format(1745)),
    _product("T4", 4096, "float16", 22, 40, "NVIDIA developer forum, topic 264462: 24, held down by its power limit"),
    _attention("A100 80", 2048, 64, False, 0.5 * 312, 0.73 * 312, _FLASH2.format("0.5 to 0.73")),
    _attention("A100 80", 8192, 128, False, 0.5 * 312, 0.73 * 312, _FLASH2.format("0.5 to 0.73")),
    _attention("A100 80", 8192, 128, True, 0.4 * 312, 0.63 * 312, _FLASH2.format("backward up to 0.63")),
    _attention("H100", 8192, 128, False, 0.3 * 989, 0.45 * 989, _FLASH3),
    *[
        known
        for gpu, low in (("T4", 0.7), ("A100 80", 0.8), ("H100", 0.8))
        for known in (
            _traffic(gpu, "add of 2²⁸", "aten::add", [_LARGE, _LARGE], [_LARGE], low),
            _traffic(gpu, "softmax, rows of 1024", "aten::_softmax", [_ROWS], [_ROWS], low),
            _traffic(gpu, "fused Adam, 10⁸ parameters", "aten::_fused_adam_", _PARAMETERS, [], low),
        )
    ],
]


def modelled_figure(known: Known) -> float:
    """Return TFLOPS, or the share of the peak bandwidth, of the model."""
    modelled = price(gpu_spec(known.gpu), known.name, known.inputs, known.outputs)
    if known.flops:
        return known.flops / modelled.seconds / 1e12
    return modelled.bytes / modelled.seconds / gpu_spec(known.gpu).bytes_per_s


def main() -> None:
    """Print the table."""
    print(f"{'':10}{'':34}{'modelled':>10}   range (its source)")
    for known in KNOWN:
        value, unit = modelled_figure(known), "TFLOPS" if known.flops else "of peak"
        aside = "" if known.low <= value <= known.high else "   outside"
        form = ".1f" if known.flops else ".2f"
        limits = f"{known.low:.3g} to {known.high:.3g} {unit} ({known.source})"
        print(f"{known.gpu:10}{known.label:34}{value:10{form}}   {limits}{aside}")


if __name__ == "__main__":
    main()
