"""An exercise that is timed: a chain of products beside its baseline, on the CPU and on the virtual GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.grading.client import GradingClient
from gpututor.grading.report import Report, Verdict
from tests.support.gradings import grade_in
from tests.support.timed_gradings import BASELINE, CHECKS, GradeTimed
from tests.support.tiny_course import write_files

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
    write_files(exercise_folder, files)
    return exercise_folder


@pytest.fixture
def grade_timed(client: GradingClient, timed_folder: Path) -> GradeTimed:
    """Grade a text on a device: the report, and its verdict on speed."""

    def graded(submission: str, device: str) -> tuple[Report, Verdict]:
        report = grade_in(client, timed_folder, submission, device=device)
        [speed] = (verdict for verdict in report.verdicts if verdict.check == "speed")
        return report, speed

    return graded
