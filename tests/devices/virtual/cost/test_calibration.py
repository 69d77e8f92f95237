"""Arithmetic of `benchmarks/calibrate_gpu.py`, and modelled times beside measured times of `benchmarks/data`."""

from __future__ import annotations

import math
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gpututor.devices.virtual.cost.calibration import fitted
from gpututor.devices.virtual.cost.kernel import price
from gpututor.devices.virtual.memory.events import allocation_ns, free_ns
from gpututor.hardware.gpus import gpu_spec, gpu_specs, parse_gpu_spec
from tests.support import ROOT
from tests.support.virtual_gpus import run_python

_BENCHMARKS = ROOT / "benchmarks"
RATES = {"float32": 30e12, "tf32": 120e12, "float16": 250e12, "bfloat16": 240e12, "float64": 0.5e12}


@pytest.fixture(autouse=True)
def benchmarks_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(_BENCHMARKS))
    import gpu_figures

    monkeypatch.setattr(gpu_figures, "driver_limits", dict)


@pytest.fixture
def measured() -> Any:
    from micro import calibration_cases, measure

    return measure(FakeTimer(), calibration_cases())


class FakeTimer:
    """A GPU with a link of 20 GB/s pinned and 6 pageable. The first byte comes after 9 µs; a launch takes 5.5 µs."""

    def seconds(self, case: Any) -> float:
        match case.what:
            case "launch":
                return 5.5e-6
            case "smallest kernel":
                return 2e-6
            case "copy" if case.pinned:
                return float(9e-6 + case.size / 20e9)
            case "copy":
                return float(25e-6 + case.size / (6e9 if case.to_device else 5e9))
            case "matmul" if case.dtype == "bfloat16" and case.size == 256:
                raise NotImplementedError("no such kernel")
            case "matmul" if case.size == 8192 and case.dtype == "float64":
                raise torch.OutOfMemoryError("CUDA out of memory")
            case "matmul":
                return float(3e-6 + 2 * case.size**3 / RATES[case.dtype])
        return float(2e-6 + case.size / 800e9)


def properties(name: str = "NVIDIA Quantum 9000", memory: int = 24 * 2**30 - 4 * 2**20) -> Any:
    return SimpleNamespace(
        name=name,
        total_memory=memory,
        major=8,
        minor=9,
        multi_processor_count=100,
        L2_cache_size=48 * 2**20,
        clock_rate=2_500_000,
        memory_clock_rate=10_000_000,
        memory_bus_width=384,
    )


def test_measured_links_and_launches_are_fitted_through_noisy_points(measured: Any) -> None:
    from gpu_figures import launch_us, link

    assert link(measured) == {"pinned_gb_s": 20.0, "pageable_gb_s": 6.0, "latency_us": 9.0}
    assert launch_us(measured) == 5.5
    from gpu_figures import line

    off = (1.05, 0.95, 1.05, 0.95, 1.05)
    sizes = (4096, 65536, 2**20, 2**24, 2**27)
    before, rate = line([(size, (10e-6 + size / 12e9) * factor) for size, factor in zip(sizes, off, strict=True)])
    assert before == pytest.approx(10e-6, rel=0.15)
    assert rate == pytest.approx(12e9, rel=0.1)


def test_unsupported_and_missing_measurements_are_left_out(measured: Any) -> None:
    from gpu_figures import matrix_rates

    rates = matrix_rates(measured)
    assert sorted(rates["bfloat16"]) == [1024, 4096, 8192]
    assert sorted(rates["float64"]) == [256, 1024, 4096]
    assert rates["float16"][8192] == pytest.approx(250e12, rel=0.01)
    from gpu_figures import read_smi

    assert read_smi("350.00, 5, [N/A], 1980, 2619") == {
        "power.max_limit": 350.0,
        "pcie.link.gen.max": 5.0,
        "clocks.max.sm": 1980.0,
        "clocks.max.memory": 2619.0,
    }
    assert read_smi("") == {}


def test_an_unknown_gpus_entry_reproduces_the_measurements(tmp_path: Path) -> None:
    import calibrate_gpu

    written = tmp_path / "entry.toml"
    lines = calibrate_gpu.calibrate(FakeTimer(), properties(), written, None)
    assert "no spec of gpus.toml" in lines[0]
    assert not any("modelled, ratio" in line for line in lines)
    ((name, entry),) = tomllib.loads(written.read_text(encoding="utf-8")).items()
    result = parse_gpu_spec(name, entry)
    assert (result.name, result.capability, result.multiprocessors) == ("NVIDIA Quantum 9000", (8, 9), 100)
    assert result.memory_bytes == 24 * 2**30
    assert result.bytes_per_s == pytest.approx(960e9)
    assert (result.pinned_bytes_per_s, result.launch_s) == (20e9, 5.5e-6)
    for dtype, rate in RATES.items():
        size = 4096 if dtype == "float64" else 8192
        kind = "float32" if dtype == "tf32" else dtype
        matrix = ((size, size), kind)
        modelled = price(result, "aten::mm", [matrix, matrix], [matrix], 2.0 * size**3, tf32=dtype == "tf32").seconds
        assert modelled == pytest.approx(2 * size**3 / rate, rel=0.03), dtype


def test_missing_tensor_cores_get_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    import gpu_figures
    from micro import calibration_cases, measure

    monkeypatch.setitem(RATES, "tf32", RATES["float32"])
    measured = measure(FakeTimer(), calibration_cases())
    entry = gpu_figures.entry(gpu_figures.facts_of(properties(), None), measured, None)
    assert entry["flops_t"]["tf32"] == 0
    assert entry["flops_t"]["float16"] > 0


@pytest.mark.parametrize("model", list(gpu_specs()))
def test_a_known_gpu_keeps_its_vendors_rates_and_gets_measured_links(model: str, measured: Any) -> None:
    import gpu_figures

    known = gpu_spec(model)
    seen = properties(known.reported_name, known.memory_bytes - 300 * 2**20)
    seen.major, seen.minor = known.capability
    matched = gpu_figures.matching(seen.name, seen.total_memory)
    assert matched is not None
    assert matched.reported_name == known.reported_name
    entry = gpu_figures.entry(gpu_figures.facts_of(seen, known), measured, known)
    result = parse_gpu_spec(model, tomllib.loads(gpu_figures.toml_of(model, entry))[model])
    assert result.float16_flops == pytest.approx(known.float16_flops)
    assert result.memory_bytes == known.memory_bytes
    assert (result.pageable_bytes_per_s, result.copy_latency_s) == (6e9, 9e-6)


def test_calibrating_a_virtual_gpu_reproduces_its_spec() -> None:
    """The calls that time a real GPU run on a virtual GPU and return its spec."""
    from calibrate_gpu import report
    from gpu_figures import launch_us, link
    from micro import MIB, calibration_cases, modelled

    cases = [case for case in calibration_cases() if case.what != "matmul" and case.size <= 32 * MIB]
    result = modelled("A100 80", cases)
    a100 = gpu_spec("A100 80")
    assert list(result) == cases
    assert link(result)["pinned_gb_s"] == pytest.approx(a100.pinned_bytes_per_s / 1e9, abs=0.1)
    assert link(result)["pageable_gb_s"] == pytest.approx(a100.pageable_bytes_per_s / 1e9, rel=0.02)
    assert link(result)["latency_us"] == pytest.approx(a100.copy_latency_s * 1e6, abs=0.2)
    assert launch_us(result) == pytest.approx(a100.launch_s * 1e6, rel=0.02)
    assert any("ratio 1.00 in the median, 1.00 to 1.00, median error 0%" in item for item in report(result, result))
    assert any("not modelled" in item for item in report(result, dict(list(result.items())[1:])))


@pytest.mark.parametrize("script", ["calibrate_gpu.py", "side_by_side.py"])
def test_without_a_gpu_calibration_fails_with_a_message(script: str) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA GPU")
    ended = run_python(str(_BENCHMARKS / script))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "no CUDA GPU" in ended.stderr


@pytest.mark.gpu
def test_a_real_gpu_is_calibrated_to_the_end(tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")
    import calibrate_gpu
    from micro import CudaTimer

    seen = torch.cuda.get_device_properties(0)
    lines = calibrate_gpu.calibrate(CudaTimer(rounds=1), seen, tmp_path / "entry.toml", "this")
    print("\n".join(lines))
    entry = tomllib.loads((tmp_path / "entry.toml").read_text(encoding="utf-8"))["this"]
    assert parse_gpu_spec("this", entry).pinned_bytes_per_s > 0


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


def test_the_model_carries_over_to_programs_and_gpus_without_fits() -> None:
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


def test_norms_and_softmax_take_about_the_measured_time() -> None:
    from layers import norm_ratios, read

    cases = list(norm_ratios(read()))
    assert len(cases) == 224
    for kind in ("layer_norm", "rms_norm", "softmax", "log_softmax"):
        ratios = [ratio for case, ratio in cases if case.startswith(f"{kind} ")]
        assert 0.85 < median(ratios) < 1.2
        assert _within(ratios, 1.5) >= 0.8
        assert _within(ratios, 2) >= 0.95


def test_convolutions_on_tensor_cores_take_about_the_measured_time() -> None:
    from layers import convolution_ratios, read

    cases = [(case, ratio) for case, ratio in convolution_ratios(read()) if " × 3 × " not in case]
    assert len(cases) == 84
    for layout, share in (("channels last", 0.9), ("channels first", 0.6)):
        on_tensor_cores = [ratio for case, ratio in cases if layout in case and "float32" not in case]
        assert 0.7 < median(on_tensor_cores) < 1.15
        assert _within(on_tensor_cores, 1.5) >= share
        assert _within(on_tensor_cores, 2.1) >= 0.9


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
