"""The tolerances of each exercise reject nonsense, on inputs as they are drawn."""

from __future__ import annotations

import pytest

from gpututor.checks.tolerances import LOWER, tolerances
from gpututor.course.exercise import Exercise
from gpututor.judge.exercise_code import draw_inputs, load_code
from tests.exercises.courses import WITH_PARITY


@pytest.mark.parametrize("seed", [1, 2, 2**32 - 1])
@pytest.mark.parametrize("exercise", WITH_PARITY)
def test_nonsense_is_rejected_by_a_wide_margin(exercise: Exercise, seed: int) -> None:
    code = load_code(exercise)
    cases = [draw_inputs(code, exercise.folder, seed + case, case) for case in range(exercise.cases)]

    tried = tolerances(code.checks, cases)

    assert [one.sentence for one in tried if one.weak] == []
    assert {"zeros", "ones", "the mean", LOWER} <= {one.kind for one in tried}
    assert [one for one in tried if not one.excused]
