"""What a trace tells of a submission, from its file to its verdict: memory, launches, overlap, precision, copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.grading.report import Outcome, Report, Verdict
from tests.support.gradings import Grade

GIVEN = """
import torch

def draw(seed, case):
    return {"x": torch.rand(64, 64, generator=torch.Generator().manual_seed(seed + case)) + 1}

def build(drawn, device):
    return {"number": drawn["x"].to(device)}
"""
HONEST = "def twice(number):\n    return 2 * number\n"
IN_PIECES = """
import torch

def twice(number):
    return torch.stack([2 * row for row in number])
"""
KEEPING = "kept = []\n\ndef twice(number):\n    kept.append(2 * number)\n    return kept[-1]\n"
IN_HALF = "def twice(number):\n    return (number.half() @ (2 * number.new_ones(64).diag()).half()).float()\n"
BY_PRODUCT = "def twice(number):\n    return number @ (2 * number.new_ones(64).diag())\n"
ROUNDABOUT = "def twice(number):\n    return 2 * number.cpu().to(number.device)\n"


def exercise(folder: Path, check: str) -> None:
    (folder / "given.py").write_text(GIVEN)
    (folder / "checks.py").write_text(f"from gpututor.checks import *\n\nchecks = [{check}]\n")
    (folder / "baseline.py").write_text(HONEST)


def verdict(report: Report, name: str) -> Verdict:
    assert report.outcome is Outcome.FAILED, report
    found = report.first_failure
    assert found is not None
    assert found.check == name
    return found


@pytest.mark.parametrize(
    ("check", "right", "wrong", "got", "line"),
    [
        ("memory(peak=1 << 14)", HONEST, IN_PIECES, "49,152 bytes (48.0 KiB) on cuda:0, reached at line 5", 5),
        ("memory(peak_ratio=1.5)", HONEST, IN_PIECES, "49,152 bytes (48.0 KiB) on cuda:0, reached at line 5", 5),
        ("memory(left=0)", HONEST, KEEPING, "each call leaves 16,384 bytes (16.0 KiB) more on cuda:0, from line 4", 4),
        ("launches(1)", HONEST, IN_PIECES, "65 launches, at line 5 (65 times): aten::mul 64 times", 5),
        ("precision({'aten::mm': 'float16'})", IN_HALF, BY_PRODUCT, "1 of 1 in float32, at line 2", 2),
        ("precision(half_share=0.9)", IN_HALF, BY_PRODUCT, "0 % of 524,288 floating-point operations", 2),
        ("syncs()", HONEST, ROUNDABOUT, "1 wait: `.cpu()` at line 2", 2),
        ("source(forbid=(called('cpu'),))", HONEST, ROUNDABOUT, "number.cpu at line 2", 2),
    ],
)
def test_right_code_passes_and_its_twin_is_told_what_it_did(
    grade: Grade, exercise_folder: Path, check: str, right: str, wrong: str, got: str, line: int
) -> None:
    exercise(exercise_folder, check)

    report = grade(right)
    assert report.outcome is Outcome.PASSED, report
    found = verdict(grade(wrong), check.partition("(")[0])
    assert found.got.startswith(got)
    assert found.line == line
