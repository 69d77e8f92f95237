"""Every exercise accepts and refuses submissions by the rules of the author's gate, as in `gpututor verify`.

Short runs use a single seed, no mutants, and for some exercises two very different GPUs. The long tests try everything
on every GPU.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from gpututor.authoring.pool import Examined, JudgePool
from gpututor.authoring.problems import Problem
from gpututor.authoring.trials import Trial, examined_problems, first_trial, further_trials, trials_on
from gpututor.cli.main import main
from gpututor.course.model import Exercise
from gpututor.grading.report import Status
from tests.support.shipped_course import COURSE, EXERCISES, ONE_OF_EACH_LESSON, ONE_OF_SOME_LESSONS, SAMPLE


def not_so(exercise: Exercise, faults: list[Problem]) -> list[str]:
    """Return the titles and details of the faults, without notes, for the failure message."""
    wrong = [fault for fault in faults if not fault.is_note]
    return [line for fault in wrong for line in (fault.title(exercise.folder), *fault.details)]


def is_quick(trial: Trial) -> bool:
    """Return True for the starter, wrong solutions, baselines and constants."""
    return not trial.after_solution


def faults_of(exercise: Exercise, station: JudgePool, trials: Iterable[Trial]) -> list[Problem]:
    faults: list[Problem] = []
    for trial in trials:
        report = station.grade(exercise, trial.source, trial.seed, trial.gpu)
        faults += trial.judge(report)
        assert {run.placement for run in report.runs} <= {"traced", ""}  # empty where nothing ran
    return faults


@pytest.mark.parametrize("exercise", ONE_OF_EACH_LESSON)
def test_the_solution_passes_and_the_starter_does_not(exercise: Exercise, station: JudgePool) -> None:
    starter = next(further_trials(exercise, Examined(), with_mutants=False))
    assert starter.name == "starter"
    assert not_so(exercise, faults_of(exercise, station, (first_trial(exercise), starter))) == []


@pytest.mark.parametrize("exercise", ONE_OF_SOME_LESSONS)
def test_an_exercise_refuses_what_is_wrong(exercise: Exercise, station: JudgePool) -> None:
    examined = station.examine(exercise)
    assert examined.error is None
    further = filter(is_quick, further_trials(exercise, examined, with_mutants=False))
    faults = [*examined_problems(exercise, examined), *faults_of(exercise, station, further)]
    assert not_so(exercise, faults) == []


def test_an_exercise_that_compares_gpus_tries_only_right_code_on_one() -> None:
    compares, does_not = (COURSE.find(label) for label in ("7.3", "6.5"))
    assert {trial.counts for trial in trials_on(("H100",), compares)} == {"right"}
    assert {trial.counts for trial in trials_on(("H100",), does_not)} == {"right", "wrong"}


@pytest.mark.parametrize("exercise", SAMPLE)
def test_right_code_passes_and_wrong_code_fails_on_very_different_gpus(exercise: Exercise, station: JudgePool) -> None:
    trials = list(trials_on(("T4", "H100"), exercise))
    right = [trial for trial in trials if trial.counts == "right"]
    wrong = [trial for trial in trials if trial.counts == "wrong"]
    chosen = [*right, *random.Random(exercise.key).sample(wrong, min(1, len(wrong)))]
    assert not_so(exercise, faults_of(exercise, station, chosen)) == []


@pytest.mark.long
@pytest.mark.parametrize("exercise", EXERCISES[::-1])  # the last lessons take longest, so they begin first
def test_the_gate_is_green_on_gpus_that_are_far_apart(exercise: Exercise, capsys: pytest.CaptureFixture[str]) -> None:
    """`gpututor verify --models all` tries every model, before a release: it takes many times as long."""
    code = main(["verify", str(exercise.folder), "--workers", "1", "--models", "T4,B200"])
    assert code == 0, capsys.readouterr().out


CAPSTONE = next(exercise for exercise in COURSE.exercises if exercise.label == "11.1")
FAULTS = {"rows", "round_trip", "constants", "mask", "branches", "numbers", "synchronize", "averages", "validation"}


@pytest.mark.long
def test_the_untouched_script_has_each_of_its_ten_faults(station: JudgePool) -> None:
    report = station.grade(CAPSTONE, CAPSTONE.starter, seed=1)
    failed = {verdict.check for verdict in report.verdicts if verdict.status is Status.FAILED}
    assert failed >= FAULTS | {"optimizer"}
    assert "result" not in failed
