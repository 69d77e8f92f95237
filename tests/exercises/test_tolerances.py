"""A right result that rounds otherwise than the reference passes, whatever seed draws the inputs."""

from __future__ import annotations

import pytest
import torch

from gpututor.checks.model import run_reference
from gpututor.checks.parity import OwnDtype, compare_with_reference, leaves, rounded
from gpututor.checks.tolerances import Tolerance
from gpututor.checks.trees import map_tensors
from gpututor.course.model import Exercise
from gpututor.judge.author_code import ExerciseCode, draw_inputs, load_code
from tests.support.shipped_course import EXERCISES

SEEDS = range(1, 21)


def disagreements(code: ExerciseCode, exercise: Exercise, tolerance: Tolerance, seed: int) -> list[str]:
    """Return what a check says about the reference in its own dtype, of inputs changed by rounding errors."""
    chance = torch.Generator().manual_seed(seed)
    said = []
    for case in range(exercise.cases):
        drawn = draw_inputs(code, exercise.folder, seed + case, case)
        own = OwnDtype(tolerance, drawn)
        changed = map_tensors(drawn, lambda tensor: rounded(tensor, chance))
        results = leaves(run_reference(tolerance.reference, changed, in_float64=False))
        for path, exact in leaves(run_reference(tolerance.reference, drawn, in_float64=True)).items():
            off = compare_with_reference(results[path], exact, tolerance.times, own=own, path=path)
            said += [] if off is None else [f"seed {seed}, case {case}, {path}: {off.got}"]
    return said


@pytest.mark.long
@pytest.mark.parametrize("exercise", EXERCISES)
def test_rounding_errors_fail_no_right_result(exercise: Exercise) -> None:
    code = load_code(exercise)
    tolerances = [check.tolerance for check in code.checks if check.tolerance is not None]
    assert [
        said for tolerance in tolerances for seed in SEEDS for said in disagreements(code, exercise, tolerance, seed)
    ] == []
