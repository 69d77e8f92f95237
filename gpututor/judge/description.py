"""Answers to `describe`: the names, kinds, points and sentences of an exercise's checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpututor.checks.model import Check, Machine
from gpututor.course.loader import load_exercise
from gpututor.course.model import Exercise
from gpututor.errors import NotGradableHere, TutorError
from gpututor.grading.description import CheckDescription, description_to_json
from gpututor.grading.events import GradeRequest
from gpututor.hardware.scenario import ACCELERATORS
from gpututor.judge.author_code import load_code
from gpututor.judge.devices import machine_specs, to_machine
from gpututor.judge.grader import UNASKED


def answer_describe(exercise_folder: str) -> dict[str, Any]:
    """Describe the checks in JSON form, or say why they cannot be described. Never raises."""
    try:
        return description_to_json(describe(Path(exercise_folder)))
    except TutorError as error:
        return {"title": error.title, "advice": error.advice}
    except (Exception, SystemExit) as error:  # an author's check may do anything
        title = f"{exercise_folder}: its checks cannot be described ({type(error).__name__}: {error})"
        return {"title": title, "advice": "Check the exercise with `gpututor verify`."}


def describe(exercise_folder: Path) -> tuple[CheckDescription, ...]:
    """Describe the author's checks, then those of every exercise. Raises `CourseError`."""
    exercise = load_exercise(exercise_folder)
    machines = _virtual_machines(exercise)
    has_real = bool(set(ACCELERATORS) & set(exercise.devices))
    checks = load_code(exercise).checks
    own = {check.name for check in checks}
    every = (*checks, *(check for check in UNASKED if check.name not in own))
    return tuple(_described(check, machines, has_real) for check in every)


def _virtual_machines(exercise: Exercise) -> list[Machine]:
    request = GradeRequest(str(exercise.folder), "", "", device="virtual")
    try:
        return [to_machine(machine, ()) for machine in machine_specs(exercise, request, ())]
    except NotGradableHere:  # the exercise is for real devices only
        return []


def _described(check: Check, machines: Sequence[Machine], has_real: bool) -> CheckDescription:
    applying = [machine for machine in machines if check.applies(machine)]
    on_real = has_real and any(check.applies(replace(machine, virtual=False)) for machine in machines)
    return CheckDescription(
        name=check.name,
        kind=check.kind,
        points=check.points,
        sentences=tuple(dict.fromkeys(check.sentence(machine) for machine in applying)),
        depends_on_device=has_real and on_real != bool(applying),
    )
