"""Results for other programs: lines for GitHub's workflows and editors, and the summary of GitHub's jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpututor.classroom.markdown import text
from gpututor.course.model import Exercise
from gpututor.errors import UsageError
from gpututor.grading.report import Outcome, Report, Verdict
from gpututor.grading.report_text import mark, outcome_line, remarks
from gpututor.text import escape_control_chars, truncate

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Variable that names the file of a job's summary, in GitHub's workflows."""
LONGEST_DETAIL = 300
"""Characters of a detail in the job summary."""


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
        yield _Problem("error", verdict.line, f"{title}: {verdict.check}", [verdict.sentence, *_details(verdict)])
    if not failed and report.outcome is not Outcome.PASSED:
        kind = "error" if report.outcome.exit_code in (1, 2) else "warning"
        yield _Problem(kind, None, title, [outcome_line(report), *remarks(report)])


def _details(verdict: Verdict) -> list[str]:
    details = {"Expected": verdict.expected, "Got": verdict.got, "": verdict.advice}
    return [f"{label}: {words}" if label else words for label, words in details.items() if words]


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


def append_job_summary(
    files: Sequence[GradedFile], title: str, form: str | None, environment: Mapping[str, str] = os.environ
) -> None:
    """Append a Markdown table of the files' checks to GITHUB_STEP_SUMMARY, if `form` is `github` and it is set.

    `title` is a sentence about all files. Raises `UsageError` if the file cannot be written.
    """
    path = environment.get(SUMMARY_VARIABLE)
    if form != "github" or not path:
        return
    lines = [f"### {text(title)}", ""]
    if files:
        lines += ["| Exercise | Check | Result | Details |", "| --- | --- | --- | --- |"]
        lines += (f"| {' | '.join(row)} |" for file in files for row in _rows(file))
    try:
        with Path(path).open("a", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n\n")
    except OSError as error:
        advice = f"Correct the variable {SUMMARY_VARIABLE}, or unset it."
        raise UsageError(f"{path}: the job summary cannot be written ({error.strerror}).", advice) from error


def _rows(file: GradedFile) -> Iterator[tuple[str, ...]]:
    """Yield the cells of the file, then of its checks. Equal results in several scenarios have one row."""
    exercise, report = file.exercise, file.report
    title = f"{exercise.label} {exercise.slug}"
    passed = report.outcome is Outcome.PASSED
    yield f"**{text(title)}**", "", text(outcome_line(report)), "" if passed else _detail_cell(remarks(report))
    rows = [
        (text(title), text(verdict.sentence), text(mark(verdict.status)), _detail_cell(_evidence(verdict)))
        for verdict in report.verdicts
    ]
    yield from dict.fromkeys(rows)


def _evidence(verdict: Verdict) -> list[str]:
    if not verdict.status.is_failure:
        return []
    return [*([f"Line {verdict.line}"] if verdict.line is not None else []), *_details(verdict)]


def _detail_cell(details: Sequence[str]) -> str:
    return "<br>".join(text(truncate(detail, LONGEST_DETAIL)) for detail in details)
