"""Modelled times compared with measured programs (`benchmarks/data/measured_gpu_times.json`)."""

from __future__ import annotations

import sys

import pytest

from gpututor.devices.virtual.cost.calibration import fitted
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
