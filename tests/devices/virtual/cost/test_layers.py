"""Modelled times of layers, attention and small kernels compared with an H200's (`benchmarks/data/h200.json`)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from statistics import median

import pytest

from gpututor.devices.virtual.cost.kernel import price
from gpututor.devices.virtual.memory.events import allocation_ns, free_ns
from gpututor.hardware.gpus import gpu_spec
from tests.support import ROOT


@pytest.fixture(autouse=True)
def benchmarks_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def _within(ratios: Iterable[float], factor: float) -> float:
    """Return the share of the ratios within the factor, either way."""
    results = [abs(math.log(ratio)) <= math.log(factor) for ratio in ratios]
    return sum(results) / len(results)


def test_recurrent_layers_take_about_the_measured_time() -> None:
    from layers import read, recurrent_ratios

    cases = list(recurrent_ratios(read()))
    assert len(cases) == 60
    for ratios in ([busy for _, busy, _ in cases], [device for _, _, device in cases]):
        assert 0.85 < median(ratios) < 1.2
        assert _within(ratios, 1.5) >= 0.85
        assert _within(ratios, 2) >= 0.98


def test_attention_takes_about_the_measured_time_with_each_backend() -> None:
    from layers import attention_ratios, read

    cases = list(attention_ratios(read()))
    assert len(cases) == 32
    for backend in ("flash", "efficient", "cudnn"):
        ratios = [ratio for case, ratio in cases if case.startswith(backend)]
        assert 0.8 < median(ratios) < 1.2
        assert _within(ratios, 1.5) >= 0.75
        assert _within(ratios, 2) == 1


def test_matrix_products_and_additions_take_about_the_measured_time() -> None:
    from layers import read

    ratios = {}
    for words, microseconds in read()["calibration"]:
        if match := re.fullmatch(r"matmul (\d+) (\w+)", words):
            size, dtype = int(match[1]), match[2]
            square = ((size, size), "float32" if dtype == "tf32" else dtype)
            modelled = price(gpu_spec("H200"), "mm", [square, square], [square], tf32=dtype == "tf32")
        elif match := re.fullmatch(r"add, (\d+) MiB moved", words):
            part = ((int(match[1]) * 2**20 // 12,), "float32")
            modelled = price(gpu_spec("H200"), "add", [part, part], [part])
        else:
            continue
        ratios[words] = modelled.seconds * 1e6 / microseconds
    assert len(ratios) == 25
    assert 0.9 < median(ratios.values()) < 1.15
    assert {words: ratio for words, ratio in ratios.items() if not 0.7 < ratio < 1.25} == {}


def test_an_optimizers_kernels_take_about_the_measured_time() -> None:
    from layers import read

    optimizers = read()["optimizers"]
    shapes = [(512, 512), (512,), (512, 512), (512,), (10, 512), (10,)]

    def microseconds(name: str, lists: int, steps: int = 0) -> float:
        tensors = [(shape, "float32") for _ in range(lists) for shape in shapes] + [((), "float32")] * steps
        return price(gpu_spec("H200"), name, tensors, []).seconds * 1e6

    sgd, fused = microseconds("aten::_foreach_add_", 2), microseconds("aten::_fused_adamw_", 4, 6)
    assert _within([sgd / optimizers["SGD"][0], fused / optimizers["AdamW fused"][0]], 2) == 1


def test_the_driver_takes_about_the_measured_time_for_segments() -> None:
    from layers import read

    ratios = []
    for size, (allocated, freed) in read()["driver"].items():
        size_bytes = int(size) << 20
        ratios += [allocation_ns(size_bytes) / 1e3 / allocated, free_ns(1, size_bytes) / 1e3 / freed]
    assert len(ratios) == 6
    assert _within(ratios, 1.3) == 1
