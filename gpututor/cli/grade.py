"""`gpututor grade`: grade a solution file, and say check by check what was found."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpututor import __version__
from gpututor.cli.device_options import add_device_arguments, check_one_model, settle_device, tell_settings
from gpututor.cli.options import attempt_writer, check_own_file, chosen_course, chosen_workspace, tell
from gpututor.cli.terminal import ProgressLine, columns, fitting
from gpututor.course.model import Course, Exercise
from gpututor.course.workspace import find_workspace, read_submission
from gpututor.errors import TutorError, WorkspaceError
from gpututor.grading.client import GradingClient, IsolationName
from gpututor.grading.events import (
    CheckFinished,
    GradeRequest,
    GradingEvent,
    GradingFinished,
    ScenarioStarted,
    TimingProgressed,
    WaitingForDevice,
)
from gpututor.grading.report import Environment, Outcome, Report, Verdict
from gpututor.grading.report_text import count, device_words, elapsed, evidence, mark, outcome_line, remarks
from gpututor.text import escape_control_chars, lines_of

if TYPE_CHECKING:
    from gpututor.progress.attempt_writer import AttemptWriter

SEEDS = 2**32
"""How many seeds there are: the judge draws from these, and every generator takes them."""
_SENTENCE_AT = 13
"""The column where the sentence of a check begins."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("exercise", metavar="EXERCISE", help="2.1, born_on_the_device, or a path")
    file_help = "grade this file, which may be no link, instead of your own; not recorded"
    parser.add_argument("--file", type=Path, metavar="F", help=file_help)
    add_device_arguments(parser)
    seed_help = f"the seed of the inputs, to repeat a grading: 0 to {SEEDS - 1}"
    parser.add_argument("--seed", type=_seed, metavar="N", help=seed_help)
    isolation_help = (
        "what the file runs in: process (limits and cleanup, no secrecy), bubblewrap (Linux: sees no file of yours, "
        "no network) or auto (process for a file of your own folder, bubblewrap for any other; the default)"
    )
    parser.add_argument("--isolation", choices=("auto", "process", "bubblewrap"), default="auto", help=isolation_help)
    json_help = "print the report as JSON; a name that no honest solution needs makes the outcome `needs review`"
    parser.add_argument("--json", action="store_true", help=json_help)


def main(arguments: argparse.Namespace) -> int:
    own_file = arguments.file is None
    check_one_model(arguments, "grade")
    tell_settings(settle_device(arguments, by_settings=own_file))
    course = chosen_course(arguments)
    course.check_has_checks()
    exercise = course.find(arguments.exercise)
    workspace = chosen_workspace(arguments, course) if own_file else None
    path = workspace.path_of(exercise) if workspace else arguments.file
    if own_file:
        check_own_file(arguments.exercise, exercise, path, "grade")
    try:
        submission = workspace.read(exercise) if workspace else read_submission(path, follow_links=False)
    except WorkspaceError as error:
        if arguments.json and os.path.lexists(path):
            return _tell_refused(exercise, error)
        raise
    request = GradeRequest(
        exercise_folder=str(exercise.folder),
        submission=submission,
        file_name=path.name,
        device=arguments.device,
        gpu=arguments.gpu,
        gpus=arguments.gpus,
        seed=arguments.seed,
        reviews_source=arguments.json,
    )
    writer = attempt_writer(course) if own_file else None
    pending = writer.recordings.create_pending() if writer else None
    if pending is not None:
        request = replace(request, recording_folder=str(pending))
    client = GradingClient(isolation_for(arguments, course), once=True)
    try:
        with ProgressLine() as still:
            events = still.heard(client.grade(request))
            graded = _follow(events, exercise, request.submission, quiet=arguments.json)
        show = partial(_print_json if arguments.json else _print_end, graded.report)
        if writer is None:
            show()
        else:
            save_attempt(writer, graded.report, request.submission, pending, show)
    except BaseException:
        if writer is not None:
            writer.recordings.discard(pending)
        raise
    finally:
        client.close()
    return graded.report.outcome.exit_code


def save_attempt(
    writer: AttemptWriter, report: Report, source: str, recording: Path | None, show: Callable[[], object]
) -> None:
    """Save an attempt, show its outcome, then wait for the database and say on stderr what it did not take."""
    from gpututor.progress.attempt_writer import FinishedRun

    errors: list[TutorError] = []
    writer.save(
        FinishedRun(report, source, recording),
        lambda stored: errors.append(stored) if isinstance(stored, TutorError) else None,
    )
    show()
    sys.stdout.flush()
    writer.wait()
    for error in errors:
        tell(error)
    if notice := writer.take_notice():
        print(f"gpututor: {escape_control_chars(notice)}", file=sys.stderr)


def _print_json(report: Report) -> None:
    print(json.dumps(report.to_json(), indent=2))


def _tell_refused(exercise: Exercise, error: WorkspaceError) -> int:
    """Print the report of a file that cannot be read as a text."""
    report = Report(
        exercise=exercise.key,
        outcome=Outcome.REJECTED,
        verdicts=(),
        runs=(),
        environment=Environment(
            gpututor=__version__,
            torch="",
            python=platform.python_version(),
            platform=f"{sys.platform} {platform.machine()}",
            isolation="",
            seed=0,
        ),
        submission_sha256="",
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        elapsed_s=0.0,
        reason=str(error),
    )
    _print_json(report)
    return report.outcome.exit_code


def isolation_for(arguments: argparse.Namespace, course: Course | None = None) -> IsolationName:
    """What `--isolation` says; by itself, other people's files are kept apart from what is the learner's."""
    if arguments.isolation != "auto":
        chosen: IsolationName = arguments.isolation
        return chosen
    if arguments.file is None:
        return "process"
    workspace = find_workspace(arguments.workspace, course)
    own = workspace is not None and arguments.file.resolve().is_relative_to(workspace.folder.resolve())
    return "process" if own else "bubblewrap"


def _seed(word: str) -> int:
    try:
        seed = int(word)
    except ValueError:
        seed = -1
    if not 0 <= seed < SEEDS:
        raise argparse.ArgumentTypeError(f"a seed is a whole number from 0 to {SEEDS - 1}")
    return seed


def _follow(events: Iterator[GradingEvent], exercise: Exercise, source: str, *, quiet: bool) -> GradingFinished:
    """Print what happens as it happens, but for the end; return that."""
    if not quiet:
        print(fitting(f"{exercise.label} {exercise.title}"), flush=True)
    for event in events:
        if isinstance(event, GradingFinished):
            return event
        if not quiet:
            print_event(event, source)
    raise KeyboardInterrupt  # cancelled: only Ctrl-C does that here


def print_event(event: GradingEvent, source: str) -> None:
    """Say on stdout what happened while `source` is graded."""
    match event:
        case GradingFinished(report):
            _print_end(report)
        case ScenarioStarted(scenario, device):
            print(
                fitting(f"\n{escape_control_chars(scenario)}: {escape_control_chars(device_words(device))}"), flush=True
            )
        case WaitingForDevice(device):
            print(
                fitting(f"  waiting    another grading is on {escape_control_chars(device)}", _SENTENCE_AT), flush=True
            )
        case TimingProgressed(sentence, 0):
            words = f"  {'timing':<10} {escape_control_chars(sentence)}: pairs of calls, which can take a minute"
            print(fitting(words, _SENTENCE_AT), flush=True)
        case CheckFinished(verdict):
            _print_verdict(verdict, lines_of(source))
        case _:
            return


def _print_verdict(verdict: Verdict, lines: list[str]) -> None:
    print(fitting(f"  {mark(verdict.status):<10} {escape_control_chars(verdict.sentence)}", _SENTENCE_AT), flush=True)
    at = ""
    if verdict.line is not None and 0 < verdict.line <= len(lines):
        at = f"{verdict.line}: {lines[verdict.line - 1].strip()}"
    details = (
        ("expected", verdict.expected),
        ("got", verdict.got),
        ("line", at),
        ("why", verdict.why),
        ("try", verdict.advice),
    )
    for label, text in (*(details if verdict.status.is_finding else ()), ("figures", verdict.measured)):
        if text:
            print(_labelled(label, text))


def _labelled(label: str, text: str) -> str:
    first, rest = f"      {label:<10}", " " * 16
    width = max(24, (columns(most=116) or 116) - len(rest))
    paragraphs = escape_control_chars(text).splitlines() or [""]
    wrapped = [line for paragraph in paragraphs for line in textwrap.wrap(paragraph, width) or [""]]
    return "\n".join((first if number == 0 else rest) + line for number, line in enumerate(wrapped))


def _print_end(report: Report) -> None:
    for run in report.runs:
        for title, text in (("Traceback", run.traceback), ("Printed", run.output)):
            if text.strip():
                print(f"\n{title} ({escape_control_chars(run.scenario)}):")
                print(textwrap.indent(escape_control_chars(text).rstrip(), "  | ", lambda _: True))
        if run.output_dropped_bytes:
            print(f"  … {count(run.output_dropped_bytes, 'byte')} more were not kept")
    environment = report.environment
    print(fitting(f"\n{outcome_line(report)}"))
    for text in remarks(report):
        print(fitting(textwrap.indent(escape_control_chars(text), "  ")))
    known = evidence(report)
    print(fitting(f"  device {escape_control_chars(device_words(report.device))}{'; ' + known if known else ''}", 4))
    driver = f"driver {environment.driver}" if environment.driver else ""
    parts = [f"isolation {environment.isolation}", driver, f"seed {environment.seed}"]
    print(fitting(f"  {escape_control_chars('; '.join(filter(None, parts)))}; {elapsed(report)}", 4))
