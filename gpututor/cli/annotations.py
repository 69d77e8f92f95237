"""Failed checks as lines that other programs read: GitHub's workflows, or an editor's list of problems."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpututor.course.model import Exercise
from gpututor.grading.report import Outcome, Report
from gpututor.grading.report_text import outcome_line, remarks
from gpututor.text import escape_control_chars


@dataclass(frozen=True)
class GradedFile:
    """A file of the workspace, and its report."""

    exercise: Exercise
    path: Path
    report: Report


@dataclass(frozen=True)
class _Problem:
    kind: str
    """`error` or `warning`."""
    line: int | None
    title: str
    sentences: list[str]


def annotations_of(file: GradedFile, form: str | None, environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a line for each failed check, or for a grading that neither failed nor passed.

    `form` is a key of `FORMS`; None yields nothing. Paths inside of GITHUB_WORKSPACE, or else of the current folder,
    are relative to it.
    """
    if form is None:
        return
    root = Path(environment.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    path = file.path.parent.resolve() / file.path.name
    place = path.relative_to(root) if path.is_relative_to(root) else path
    for problem in _problems(file):
        yield FORMS[form](place.as_posix(), problem)


def _problems(file: GradedFile) -> Iterator[_Problem]:
    exercise, report = file.exercise, file.report
    title = f"{exercise.label} {exercise.slug}"
    failed = [verdict for verdict in report.verdicts if verdict.status.is_failure]
    for verdict in failed:
        details = {"Expected": verdict.expected, "Got": verdict.got, "": verdict.advice}
        lines = [f"{label}: {words}" if label else words for label, words in details.items() if words]
        yield _Problem("error", verdict.line, f"{title}: {verdict.check}", [verdict.sentence, *lines])
    if not failed and report.outcome is not Outcome.PASSED:
        kind = "error" if report.outcome.exit_code in (1, 2) else "warning"
        yield _Problem(kind, None, title, [outcome_line(report), *remarks(report)])


def _github(place: str, problem: _Problem) -> str:
    """Return a workflow command, escaped as GitHub's runner unescapes it."""
    escapes = {"%": "%25", "\r": "%0D", "\n": "%0A"}
    in_properties = {**escapes, ":": "%3A", ",": "%2C"}
    line = {"line": str(problem.line)} if problem.line is not None else {}
    properties = {"file": place, **line, "title": problem.title}
    words = ",".join(f"{name}={_escaped(value, in_properties)}" for name, value in properties.items())
    message = "\n".join(problem.sentences)
    return f"::{problem.kind} {words}::{_escaped(message, escapes)}"


def _escaped(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in escape_control_chars(text))


def _gcc(place: str, problem: _Problem) -> str:
    """Return a line as compilers print it, which VS Code (`$gcc`), Vim's quickfix and Emacs read."""
    message = " · ".join(" ".join(sentence.split()) for sentence in problem.sentences)
    return escape_control_chars(f"{place}:{problem.line or 1}:1: {problem.kind}: {message} [{problem.title}]")


FORMS = {"github": _github, "gcc": _gcc}
"""Forms of `--annotate`."""
