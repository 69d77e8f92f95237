"""Modelled times compared with measured programs and an H200's layers (`benchmarks/data`)."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from statistics import median

import pytest

from gpututor.devices.virtual.cost.calibration import fitted
from gpututor.devices.virtual.cost.kernel import price
from gpututor.devices.virtual.memory.events import allocation_ns, free_ns
from gpututor.hardware.gpus import gpu_spec
from tests.support import ROOT

_BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(_BENCHMARKS))


def test_modelled_times_of_measured_programs_are_as_near_as_promised() -> None:
    from programs import measured, ratios, within, within_quarter

    programs = measured()
    results = list(zip(programs, ratios(programs, fitted()), strict=True))
    large = [ratio for item, ratio in results if item.size == "large"]
    small = [ratio for item, ratio in results if item.size == "small"]
    assert (len(large), len(small)) == (100, 300)
    assert within_quarter(large) >= 85
    assert within(large, 2) >= 97
    assert within(small, 2) >= 225


@pytest.mark.long
def test_factors_fitted_without_a_gpu_hold_on_it() -> None:
    from fit import fit
    from programs import measured, ratios, within

    for model, at_least in (("T4", 75), ("H100 PCIe", 85)):
        programs = [case for case in measured() if case.model == model]
        factors = fit([case for case in measured() if case.model != model])
        assert within(ratios(programs, factors), 2) >= at_least


@pytest.mark.long
def test_factors_fitted_without_a_quarter_of_the_programs_hold_on_it() -> None:
    from fit import fit
    from programs import Measured, measured, ratios, within

    def left(case: Measured) -> bool:
        return int(case.program.split("_")[0]) % 4 == 2

    factors = fit([case for case in measured() if not left(case)])
    judged = [case for case in measured() if left(case)]
    assert within(ratios(judged, factors), 2) >= 0.9 * len(judged)


@pytest.mark.long
def test_the_factors_in_the_file_are_those_that_the_fit_finds() -> None:
    from fit import fit, free_factors
    from programs import measured

    result, file = fit(measured()), fitted()
    assert {name: result[name] for name in free_factors()} == pytest.approx(
        {name: file[name] for name in free_factors()}, rel=2e-3
    )
    assert sys.modules["fit"].__file__ == str(_BENCHMARKS / "fit.py")


def test_well_known_kernels_take_about_what_others_have_published() -> None:
    from published import KNOWN, modelled_figure

    assert len(KNOWN) > 20
    figures = [(known, modelled_figure(known)) for known in KNOWN]
    assert [(known.gpu, known.label, value) for known, value in figures if not known.low <= value <= known.high] == []


def test_the_model_carries_over_to_programs_and_gpus_on_which_nothing_is_fitted() -> None:
    from programs import within, within_quarter
    from unseen import ratio, unseen

    groups: dict[tuple[str, str], list[float]] = {}
    for case in unseen():
        groups.setdefault((case.size, case.model), []).append(ratio(case))
    assert len(groups) == 8
    for (size, _), result in groups.items():
        assert len(result) == 100
        assert within(result, 2) >= 85
        assert within_quarter(result) >= (40 if size == "small" else 65)


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
