"""Check exercises and lessons before you publish them, and say how to fix them.

PATH is the folder of an exercise, a lesson or a course, a number (5 or 5.1) or a name. Without PATH, verify checks the
whole course.

For each lesson, verify checks its form, and runs its examples. For each exercise, it checks that
  - its files and texts have the right form;
  - the starter does not pass;
  - the solution passes in every scenario with ten seeds, and each right variant in every scenario;
  - each wrong solution fails first on the check that it names, with a complete report, and breaks no check;
  - constants and spoiled results are rejected; zeros or the first argument as a result earn no points;
  - tolerances reject nonsense, and baselines are right;
  - a check notices each change of the solution, such as a dropped move, an added wait or a swapped device.

--models also grades the solution, the right variants and the wrong solutions on other GPUs. The right ones must pass
there, and the wrong ones must fail.

--json prints one object:
  schema_version  1
  subjects        [{name, folder, green, problems, notes, gradings, seconds, right, wrong, mutants}]
      problems    [{file, line, key, problem, advice, details}]; notes has the same form, and fails nothing
      mutants     {killed, excused, survivors, idle, share}; null for a lesson
      right       {kept, of}: solutions and right variants, and those that passed each time
      wrong       {kept, of, not_applicable}: wrong solutions, and those that failed each time; not_applicable: those
                  that passed only on GPUs on which the check that they name does not apply
  models          names of the GPUs of --models
  exercises, lessons, gradings, seconds, green, right, wrong, mutants    of all together

Exit codes: 0 no problems; 1 problems; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from gpututor import paths
from gpututor.authoring.problems import Problem, relative_path
from gpututor.authoring.verify import MutantReport, Subject, Targets, Verifier, targets_of
from gpututor.classroom.variants import other_values, words_of, write_variant
from gpututor.cli.options import whole_number
from gpututor.errors import UsageError
from gpututor.grading.report_text import count
from gpututor.hardware.gpus import gpu_names, gpu_spec
from gpututor.text import escape_control_chars

MOST_WORKERS = 64
MOST_BY_DEFAULT = 8
"""Judges by default. Each has two processes with PyTorch, and a third while it audits checks."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", metavar="PATH", help="what to check; without one, the whole course")
    workers_help = "number of parallel judges (default: one per core)"
    parser.add_argument("--workers", type=whole_number(1, MOST_WORKERS), metavar="N", help=workers_help)
    parser.add_argument("--no-mutants", action="store_true", help="skip the changed solutions, which is quicker")
    models_help = "grade on these GPUs as well: all, or T4,H100"
    parser.add_argument("--models", type=_models, default=(), metavar="NAMES", help=models_help)
    parser.add_argument("--json", action="store_true", help="print one JSON object, described above")


def main(arguments: argparse.Namespace) -> int:
    targets = targets_of(arguments.course or paths.builtin_course(), arguments.paths)
    for target in targets:
        target.course.check_has_checks()
    with tempfile.TemporaryDirectory(prefix="gpututor-") as folder:
        return _verify([*targets, *_with_other_values(targets, Path(folder))], arguments)


def _with_other_values(targets: Sequence[Targets], folder: Path) -> Iterator[Targets]:
    """Yield the exercises with variants once more for each further value, written to `folder`."""
    for target in targets:
        for exercise in target.exercises:
            for values in other_values(exercise):
                made = write_variant(exercise, values, folder)
                yield Targets(target.course, (), (made,), (), f" ({words_of(values)})")


def _verify(targets: Sequence[Targets], arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    expected = sum(len(target.exercises) + len(target.lessons) for target in targets)
    screen = _Screen(sys.stderr if arguments.json else sys.stdout, Path.cwd(), expected)
    verifier = Verifier(
        targets, screen.advanced, screen.finished, with_mutants=not arguments.no_mutants, models=arguments.models
    )
    try:
        verifier.run(arguments.workers or min(_cores(), MOST_BY_DEFAULT))
    finally:
        screen.clear()
    summary = _summary(verifier.subjects, arguments.models, time.monotonic() - began)
    if arguments.json:
        print(json.dumps(summary, indent=2))
    else:
        print(_format_summary(summary, sum((subject.mutants for subject in verifier.subjects), MutantReport())))
    return 0 if summary["green"] else 1


def _models(word: str) -> tuple[str, ...]:
    if word == "all":
        return gpu_names()
    try:
        return tuple(dict.fromkeys(gpu_spec(name).name for name in word.split(",")))
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{error.title} {error.advice}") from error


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 2


class _Screen:
    """Lines for finished subjects, and, on a terminal, a line with the current step."""

    def __init__(self, stream: TextIO, base: Path, expected: int) -> None:
        """`expected`: the number of subjects."""
        self._stream = stream
        self._base = base
        self._is_terminal = stream.isatty()
        self._expected, self._ended = expected, 0

    def advanced(self, subject: Subject, what: str) -> None:
        if self._is_terminal:
            words = f"{self._ended} of {self._expected}; {subject.name}: {escape_control_chars(what)}"
            self._stream.write(f"\r{words[: os.get_terminal_size(self._stream.fileno()).columns - 1]}\x1b[K")
            self._stream.flush()

    def finished(self, subject: Subject) -> None:
        self.clear()
        self._ended += 1
        mark = "✓" if subject.is_green else "✗"
        parts = [count(subject.gradings, "grading")] if subject.gradings else []
        parts += [f"{subject.seconds:.1f} s"] if subject.seconds else []
        parts += [str(subject.mutants)] if subject.mutants.total else []
        name = relative_path(Path(subject.name), self._base)
        self._print(f"{mark} {name}" + (f": {', '.join(parts)}" if parts else ""))
        for problem in subject.problems:
            self._print_problem(problem)
        self._stream.flush()

    def clear(self) -> None:
        if self._is_terminal:
            self._stream.write("\r\x1b[K")

    def _print_problem(self, problem: Problem) -> None:
        self._print(f"  {'note: ' if problem.is_note else ''}{problem.title(self._base)}")
        for line in problem.details:
            self._print(f"      {line}")
        if problem.advice:
            self._print(f"    → {problem.advice}")

    def _print(self, line: str) -> None:
        print(escape_control_chars(line), file=self._stream)


def _summary(subjects: list[Subject], models: tuple[str, ...], seconds: float) -> dict[str, Any]:
    exercises = [subject for subject in subjects if subject.exercise is not None]
    mutants = sum((subject.mutants for subject in subjects), MutantReport())
    return {
        "schema_version": 1,
        "subjects": [subject.to_json() for subject in subjects],
        "exercises": len(exercises),
        "lessons": sum(subject.name.startswith("lesson ") for subject in subjects),
        "gradings": sum(subject.gradings for subject in subjects),
        "seconds": round(seconds, 1),
        "green": all(subject.is_green for subject in subjects),
        "models": list(models),
        "right": _sum_counts(subjects, "right"),
        "wrong": _sum_counts(subjects, "wrong"),
        "mutants": {**mutants.to_json(), "survivors": len(mutants.survivors)},
    }


def _sum_counts(subjects: list[Subject], kind: str) -> dict[str, int]:
    counts = [subject.counted(kind) for subject in subjects]
    keys = ("kept", "of", "not_applicable") if kind == "wrong" else ("kept", "of")
    return {key: sum(count[key] for count in counts) for key in keys}


def _format_summary(summary: dict[str, Any], mutants: MutantReport) -> str:
    """Return `56 exercises on 13 GPU models: 70 of 70 right ones passed, …; no problems`."""
    problems = sum(len(subject["problems"]) for subject in summary["subjects"])
    right, wrong, models = summary["right"], summary["wrong"], summary["models"]
    words = count(summary["exercises"], "exercise")
    words += f" on {count(len(models), 'GPU model')}" if models else ""
    if right["of"]:
        words += f": {right['kept']} of {right['of']} solutions and right variants passed, "
        words += f"{wrong['kept']} of {wrong['of']} wrong solutions failed"
        if wrong["not_applicable"]:
            words += f", {wrong['not_applicable']} passed only where their check does not apply"
    words += f"; {mutants}" if mutants.total else ""
    words += f"; {count(summary['gradings'], 'grading')}, {summary['seconds']} s; "
    return words + (count(problems, "problem") if problems else "no problems")
