"""An exercise that is timed: a chain of products beside its baseline, on the CPU and on the virtual GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Report, Verdict
from tests.support.timed_gradings import BASELINE, CHECKS, GradeTimed

MANIFEST = """\
title = "A chain of products"
summary = "Multiply again and again."
minutes = 5
kind = "function"
entry = "chain"
cases = 2
devices = ["virtual", "cpu"]
[limits]
wall_s = 120
"""
GIVEN = """\
import torch


def draw(seed, case):
    chance = torch.Generator().manual_seed(seed)
    return {"matrix": torch.randn(64, 64, generator=chance) / 8}


def build(drawn, device):
    return {"matrix": drawn["matrix"].to(device)}
"""


@pytest.fixture
def timed_folder(exercise_folder: Path) -> Path:
    files = {
        "exercise.toml": MANIFEST,
        "given.py": GIVEN,
        "checks.py": CHECKS,
        "baseline.py": BASELINE,
        "solution.py": BASELINE,
    }
    for name, text in files.items():
        (exercise_folder / name).write_text(text)
    return exercise_folder


@pytest.fixture
def grade_timed(client: GradingClient, timed_folder: Path) -> GradeTimed:
    """Grade a text on a device: the report, and its verdict on speed."""

    def graded(submission: str, device: str) -> tuple[Report, Verdict]:
        *_, end = client.grade(GradeRequest(str(timed_folder), submission, "chain.py", device=device))
        assert isinstance(end, GradingFinished)
        speed = [verdict for verdict in end.report.verdicts if verdict.check == "speed"]
        assert len(speed) == 1, end.report
        return end.report, speed[0]

    return graded
