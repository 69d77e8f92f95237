"""Operators do on a virtual GPU what they did on an NVIDIA H200, but for differences that are listed with reasons."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.torch_version import TorchVersion

from tests.support.operators_on_gpu import DATA, Facts, apart, described, measure, measure_virtual, stored

_TABLE = DATA.with_name("operator_differences.toml")
_EVERY = 16
"""The short test takes every nth operator."""
_PARTS = 2
"""Number of parts of the long test, which can run at the same time."""


def _differences() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tomllib.loads(_TABLE.read_text(encoding="utf-8"))["difference"]
    return rows


def _excused() -> dict[str, set[str]]:
    """Return the operators that may differ, by the fact that differs."""
    excused: dict[str, set[str]] = {}
    for row in _differences():
        for fact in row["facts"]:
            excused.setdefault(fact, set()).update(row["operators"].split())
    return excused


def _all_apart(names: list[str], real: dict[str, list[Facts]], virtual: dict[str, list[Facts]]) -> list[str]:
    excused = _excused()
    missing = [name for name in names if name not in virtual and name not in excused["passes"]]
    both = [name for name in names if name in virtual]
    return [*missing, *(line for name in both for line in apart(name, real[name], virtual[name], excused))]


as_measured = pytest.mark.skipif(
    TorchVersion(torch.__version__) >= "2.14",
    reason="the H200 ran PyTorch 2.11; PyTorch 2.14 composes some operators and gradients of other kernels",
)


@as_measured
def test_some_operators_do_the_same_as_on_an_h200() -> None:
    real = stored()
    names = sorted(real)[::_EVERY]
    assert len(names) > 40
    assert _all_apart(names, real, measure_virtual(names)) == []


@as_measured
@pytest.mark.long
@pytest.mark.parametrize("part", range(_PARTS))
def test_every_operator_does_the_same_as_on_an_h200(part: int) -> None:
    real = stored()
    names = sorted(real)[part::_PARTS]
    assert len(names) > 300
    assert _all_apart(names, real, measure_virtual(names)) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_some_operators_do_the_same_on_this_gpu() -> None:
    names = sorted(stored())[::_EVERY]
    real = measure(None, names)
    lines = _all_apart(sorted(real), real, measure_virtual(real))
    assert not lines, "\n".join(lines)


def test_differences_name_measured_operators_and_a_reason() -> None:
    real, facts = stored(), {*Facts.__dataclass_fields__, "passes"}
    for row in _differences():
        names = row["operators"].split()
        assert row["reason"].endswith(".")
        assert set(row["facts"]) <= facts
        assert set(names) <= set(real), set(names) - set(real)
        assert len(set(names)) == len(names)


def test_facts_survive_their_text_and_differences_are_found() -> None:
    facts = Facts("mm add", 1, 2, 512, 1024, "float32[2,3]{3,1}")
    assert Facts.of_text(facts.as_text()) == facts
    assert described((torch.zeros(2, 3), 1.0)) == "float32[2,3]{3,1} float"
    assert apart("mm", [facts], [facts], {}) == []
    assert len(apart("mm", [facts], [replace(facts, waits=0)], {})) == 1
    assert apart("mm", [facts], [replace(facts, waits=0)], {"waits": ["mm"]}) == []
    assert len(apart("mm", [facts], [facts, facts], {})) == 1
