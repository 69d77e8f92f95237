"""Grade a solution file, and report the result of each check.

--all grades every file of your folder that you have changed. It prints a line for each file and for each failed check.
Unchanged starters and missing files are only counted: they are not failures.

Exit codes: 0 passed (with --all: every graded file); 1 a check failed; 2 wrong usage, or (without --all) a file that
cannot be read; 3 not decided, or this machine lacks something; 4 the grader failed. With --all, 1 takes precedence.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from gpututor.cli.annotations import FORMS, GradedFile, annotations_of, append_job_summary
from gpututor.cli.device_options import add_device_arguments, check_one_model, print_settings, settle_device
from gpututor.cli.grading import isolation_for, rejection, request_for, save_attempt
from gpututor.cli.options import attempt_writer, check_own_file, chosen_course, chosen_workspace, whole_number
from gpututor.cli.terminal import ProgressLine, columns, fitting
from gpututor.course.model import Exercise
from gpututor.course.notebooks import NotebookProgram, line_words, read_program
from gpututor.errors import UsageError, WorkspaceError
from gpututor.grading.client import GradingClient
from gpututor.grading.events import (
    CheckFinished,
    GradingEvent,
    GradingFinished,
    ScenarioStarted,
    TimingProgressed,
    WaitingForDevice,
)
from gpututor.grading.report import Report, Verdict
from gpututor.grading.report_text import (
    count,
    device_words,
    elapsed,
    evidence,
    line_after_pass,
    line_of,
    mark,
    outcome_line,
    remarks,
)
from gpututor.text import escape_control_chars, lines_of

SEEDS = 2**32
"""Number of seeds: the judge draws from these, and every generator accepts them."""
_SENTENCE_AT = 13
MOST_LEFT_OUT = 10
"""Left-out lines of a notebook that are listed; the rest is counted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("exercise", nargs="?", metavar="EXERCISE", help="2.1, born_on_the_device, or a path")
    all_help = "grade all files of your folder that you have changed, and print a summary"
    parser.add_argument("--all", action="store_true", help=all_help)
    parser.add_argument("--junit", type=Path, metavar="F", help="with --all: write JUnit XML to this file")
    annotate_help = (
        "print a line for each failed check that GitHub's workflows show as an annotation (github, which also adds a "
        "table to the job summary), or that editors list as a problem (gcc: FILE:LINE:1: error: …)"
    )
    parser.add_argument("--annotate", choices=tuple(FORMS), help=annotate_help)
    file_help = "grade this Python file or notebook (not a link) instead of your own file; the attempt is not recorded"
    parser.add_argument("--file", type=Path, metavar="F", help=file_help)
    add_device_arguments(parser)
    seed_help = f"the seed of the inputs, to repeat a grading: 0 to {SEEDS - 1}"
    parser.add_argument("--seed", type=whole_number(0, SEEDS - 1), metavar="N", help=seed_help)
    isolation_help = (
        "how the file is isolated: process (limits and cleanup only), bubblewrap (Linux; no access to your files or "
        "the network) or auto (the default: process for files of your own folder, bubblewrap for others)"
    )
    parser.add_argument("--isolation", choices=("auto", "process", "bubblewrap"), default="auto", help=isolation_help)
    json_help = "print the report as JSON; suspicious names in the code make the outcome `needs review`"
    parser.add_argument("--json", action="store_true", help=json_help)


def main(arguments: argparse.Namespace) -> int:
    _check_options(arguments)
    own_file = arguments.file is None
    check_one_model(arguments, "grade")
    print_settings(settle_device(arguments, by_settings=own_file))
    course = chosen_course(arguments)
    if arguments.all:
        if not course.has_public_checks:
            course.check_has_checks()
        from gpututor.cli.grade_all import grade_all  # it imports the gradebook, which few runs need

        return grade_all(arguments, course)
    exercise = course.find(arguments.exercise)
    course.check_has_checks(exercise)
    workspace = chosen_workspace(arguments, course) if own_file else None
    path = workspace.path_of(exercise) if workspace else arguments.file
    if own_file:
        check_own_file(arguments.exercise, exercise, path, "grade")
    try:
        program = NotebookProgram(workspace.read(exercise), ()) if workspace else read_program(path, exercise)
    except WorkspaceError as error:
        if arguments.json and os.path.lexists(path):
            report = rejection(exercise, error)
            _print_json(report)
            return report.outcome.exit_code
        raise
    for line in program.left_out[:MOST_LEFT_OUT]:
        print(f"gpututor: left out of {escape_control_chars(f'{path.name}, {line}')}", file=sys.stderr)
    if (more := len(program.left_out) - MOST_LEFT_OUT) > 0:
        print(f"gpututor: left out: {count(more, 'more line')} with magics and shell commands", file=sys.stderr)
    request = request_for(arguments, exercise, program.text, path.name)
    writer = attempt_writer(course) if own_file else None
    pending = writer.recordings.create_pending() if writer else None
    if pending is not None:
        request = replace(request, recording_folder=str(pending))
    client = GradingClient(isolation_for(arguments, course), once=True)
    try:
        with ProgressLine() as progress:
            events = progress.follow(client.grade(request))
            finished = _follow(events, exercise, request.submission, quiet=arguments.json)
        report = finished.report
        graded = GradedFile(exercise, path, report)
        lines = list(annotations_of(graded, arguments.annotate))
        show = partial(_print_json, report) if arguments.json else partial(_print_end, report, exercise, lines)
        if writer is None:
            show()
        else:
            from gpututor.progress.attempt_writer import FinishedRun  # it imports SQLite

            save_attempt(writer, FinishedRun(report, request.submission, pending), show)
    except BaseException:
        if writer is not None:
            writer.recordings.discard(pending)
        raise
    finally:
        client.close()
    append_job_summary([graded], outcome_line(report), arguments.annotate)
    return report.outcome.exit_code


def _check_options(arguments: argparse.Namespace) -> None:
    if arguments.all:
        others = {"EXERCISE": arguments.exercise, "--file": arguments.file, "--json": arguments.json or None}
        if named := [name for name, value in others.items() if value is not None]:
            raise UsageError(f"--all does not go with {named[0]}.", f"Leave out --all or {named[0]}.")
        return
    if arguments.exercise is None:
        raise UsageError("Which exercise?", "Name it, such as `gpututor grade 2.1`, or add --all for all files.")
    if arguments.junit is not None:
        raise UsageError("--junit needs --all.", f"Run `gpututor grade --all --junit {arguments.junit}`.")
    if arguments.annotate and arguments.json:
        raise UsageError("--annotate does not go with --json.", "Leave out one of them.")


def _print_json(report: Report) -> None:
    print(json.dumps(report.to_json(), indent=2))


def _follow(events: Iterator[GradingEvent], exercise: Exercise, source: str, *, quiet: bool) -> GradingFinished:
    """Print events as they arrive; return the last one without printing it."""
    if not quiet:
        print(fitting(f"{exercise.label} {exercise.title}"), flush=True)
    for event in events:
        if isinstance(event, GradingFinished):
            return event
        if not quiet:
            print_event(event, source, exercise)
    raise KeyboardInterrupt  # only Ctrl-C cancels a grading here


def print_event(event: GradingEvent, source: str, exercise: Exercise) -> None:
    """Print an event of the grading of `source`."""
    match event:
        case GradingFinished(report):
            _print_end(report, exercise)
        case ScenarioStarted(scenario, device):
            print(fitting(f"\n{escape_control_chars(f'{scenario}: {device_words(device)}')}"), flush=True)
        case WaitingForDevice(device):
            _print_step("waiting", f"another grading is using {device}")
        case TimingProgressed(sentence, 0):
            _print_step("timing", f"{sentence}: pairs of calls, which can take a minute")
        case CheckFinished(verdict):
            _print_verdict(verdict, lines_of(source))


def _print_step(label: str, words: str) -> None:
    print(fitting(f"  {label:<10} {escape_control_chars(words)}", _SENTENCE_AT), flush=True)


def _print_verdict(verdict: Verdict, lines: list[str]) -> None:
    _print_step(mark(verdict.status), verdict.sentence)
    at = ""
    if verdict.line is not None and 0 < verdict.line <= len(lines):
        at = f"{line_words(lines, verdict.line)}: {line_of(verdict, lines)}"
    details = [("expected", verdict.expected), ("got", verdict.got), ("line", at)]
    details += [("why", verdict.why), ("try", verdict.advice)]
    for label, text in (*(details if verdict.status.is_finding else ()), ("figures", verdict.measured)):
        if text:
            print(_labeled(label, text))


def _labeled(label: str, text: str) -> str:
    first, rest = f"      {label:<10}", " " * 16
    width = max(24, (columns(most=116) or 116) - len(rest))
    paragraphs = escape_control_chars(text).splitlines() or [""]
    wrapped = [line for paragraph in paragraphs for line in textwrap.wrap(paragraph, width) or [""]]
    return "\n".join((first if number == 0 else rest) + line for number, line in enumerate(wrapped))


def _print_end(report: Report, exercise: Exercise, annotations: Sequence[str] = ()) -> None:
    for run in report.runs:
        for title, text in (("Traceback", run.traceback), ("Printed", run.output)):
            if text.strip():
                print(f"\n{title} ({escape_control_chars(run.scenario)}):")
                print(textwrap.indent(escape_control_chars(text).rstrip(), "  | ", lambda _: True))
        if run.output_dropped_bytes:
            print(f"  … {count(run.output_dropped_bytes, 'byte')} more were not stored")
    environment = report.environment
    print(fitting(f"\n{outcome_line(report)}"))
    for text in remarks(report):
        print(fitting(textwrap.indent(escape_control_chars(text), "  ")))
    if words := line_after_pass(report, exercise.timeline, exercise.left_to_instructor):
        print(fitting(textwrap.indent(escape_control_chars(words), "  "), 2))
    known = evidence(report)
    print(fitting(f"  device {escape_control_chars(device_words(report.device))}{'; ' + known if known else ''}", 4))
    driver = f"driver {environment.driver}; " if environment.driver else ""
    parts = f"isolation {environment.isolation}; {driver}seed {environment.seed}"
    print(fitting(f"  {escape_control_chars(parts)}; {elapsed(report)}", 4))
    print("".join(f"{line}\n" for line in annotations), end="")
