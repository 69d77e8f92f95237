"""Every exercise is graded on its idea, by the rules of the author's gate: `gpututor verify` tries the same.

With one seed and without mutants; all of it is tried by the long test.
"""

from __future__ import annotations

import pytest

from gpututor.authoring.faults import Fault
from gpututor.authoring.stations import Station
from gpututor.authoring.trials import Trial, examined_faults, first_trial, further_trials
from gpututor.cli.main import main
from gpututor.course.exercise import Exercise
from tests.exercises.courses import COURSE, EXERCISES


def not_so(exercise: Exercise, faults: list[Fault]) -> list[str]:
    """What a reader of a failing test wants to see."""
    wrong = [fault for fault in faults if not fault.is_note]
    return [line for fault in wrong for line in (fault.title(exercise.folder), *fault.details)]


def is_quick(trial: Trial) -> bool:
    """The starter, the wrong solutions, the baselines and the constants."""
    return not trial.after_solution


@pytest.mark.parametrize("exercise", EXERCISES)
def test_an_exercise_refuses_what_is_wrong_and_passes_its_solution(exercise: Exercise, station: Station) -> None:
    examined = station.examine(exercise)
    assert examined.error is None
    faults = list(examined_faults(exercise, examined))
    further = further_trials(exercise, examined, with_mutants=False)
    for trial in (first_trial(exercise), *filter(is_quick, further)):
        report = station.grade(exercise, trial.source, trial.seed)
        faults += trial.judge(report)
        assert {run.placement for run in report.runs} <= {"traced", ""}  # empty where nothing ran
    assert not_so(exercise, faults) == []


@pytest.mark.long
def test_the_gate_is_green_over_the_whole_course(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["verify", "--course", str(COURSE.folder), "--workers", "2"])
    assert code == 0, capsys.readouterr().out
