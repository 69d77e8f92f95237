"""GPU models: each entry of gpus.toml is complete, documented and calibrated."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import gpututor.hardware.gpus
from gpututor.devices.virtual.cost.calibration import calibrated, fitted
from gpututor.errors import UsageError
from gpututor.hardware.gpus import GpuSpec, gpu_names, gpu_spec, gpu_specs, normalized
from tests.support import ROOT

FILE = Path(gpututor.hardware.gpus.__file__).with_name("gpus.toml")
MAY_BE_ZERO = {"float64_tensor_flops", "tf32_flops", "float16_flops", "bfloat16_flops", "float8_flops", "int8_flops"}


def test_every_entry_has_a_name() -> None:
    assert gpu_names() == tuple(gpu_specs()) == tuple(tomllib.loads(FILE.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", gpu_names())
def test_every_gpu_has_all_figures_and_sources(name: str) -> None:
    spec = gpu_specs()[name]
    for field, value in spec._asdict().items():
        assert value or field in {*MAY_BE_ZERO, "aliases"}, field
    for key in ("source", "chip_source", "rate_source"):
        assert len(getattr(spec, key)) > 20, f"{key} names a document, its year, and the figures from it"


def test_the_docs_name_every_gpu() -> None:
    words = re.sub(r"\s+", " ", (ROOT / "docs" / "virtual-gpu.md").read_text(encoding="utf-8"))
    models = words.partition("each figure with its source: ")[2].partition(".")[0]
    assert set(models.split(", ")) == set(gpu_names()), "docs/virtual-gpu.md, after `each figure with its source:`"


@pytest.mark.parametrize("spec", gpu_specs().values(), ids=gpu_names())
def test_every_gpu_is_calibrated_and_every_spelling_resolves_to_it(spec: GpuSpec) -> None:
    major, minor = spec.capability
    assert f"power.watts_{major}_{minor}" in fitted()
    assert calibrated(spec).bytes_per_s < spec.bytes_per_s
    for spelling in (spec.name, spec.reported_name, *spec.aliases):
        lower = spelling.lower()
        for words in (spelling, lower.replace(" ", "-"), lower.replace(" ", "_"), f"NVIDIA {spelling}"):
            assert gpu_spec(words) is spec


def test_no_two_gpus_share_a_spelling() -> None:
    spellings = [normalized(word) for spec in gpu_specs().values() for word in (spec.name, *spec.aliases)]
    assert len(set(spellings)) == len(spellings)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="No GPU is called 'RTX 4080'") as caught:
        gpu_spec("RTX 4080")
    assert "'RTX 4090'" in caught.value.advice
