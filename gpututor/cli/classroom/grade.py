"""Grade the submissions of a whole class.

FOLDER is a folder or a zip from a platform, or one that you made; docs/classroom/layouts.md lists the layouts. Files
that cannot be matched are listed, never dropped.

The folder of --out gets everything: the submissions, a journal with one file for each grading, and reports. Each
finished grading is saved at once. After Ctrl-C, a crash, a full disk or a power cut, run the command again with
--resume. It then grades only what is missing.

--json prints one object at the end:
  schema_version  1
  out, students, handed_in, refused, unmatched
  gradings        number of different gradings; equal texts are graded once
  already, done   gradings from earlier runs, and from this one; outcomes counts those of this run
  not_graded      failed gradings: [{exercise, submission, attempts, why}]
  retried, seconds, per_s, stopped

Exit codes: 0 all submissions are graded; 2 wrong usage, no file belongs to an exercise, or OUT cannot be written to;
3 this machine lacks something; 4 some gradings failed (--resume retries them), or every file is rejected; 130 Ctrl-C or
SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from gpututor.classroom.executors import Executor, start_judge
from gpututor.classroom.executors.local import (
    LocalExecutor,
    RealDevices,
    default_judges,
    probe_devices,
    working_in_bubblewrap,
)
from gpututor.classroom.executors.ray import RayCluster, RayExecutor, check_installed
from gpututor.classroom.folder import ClassFolder, locked
from gpututor.classroom.gradebook.build import rules_of_course
from gpututor.classroom.intake import AUTO, LAYOUTS, check_apart, missing_students, read_class, summary
from gpututor.classroom.jobs import JobFailure, write_failures
from gpututor.classroom.plan import GradeOptions, GradingPlan, merge_options, plan_grading
from gpututor.classroom.roster import read_roster
from gpututor.classroom.submissions import Class
from gpututor.classroom.work_queue import Progress, WorkQueue
from gpututor.cli.options import chosen_course, whole_number
from gpututor.cli.terminal import fitting
from gpututor.course.loader import load_course
from gpututor.course.model import Course
from gpututor.errors import GradingError, TutorError, UsageError
from gpututor.files import back_up, write_atomically
from gpututor.grading.client import GradingService, IsolationName
from gpututor.grading.report import Outcome
from gpututor.grading.report_text import count
from gpututor.hardware.scenario import DEVICE_WORDS
from gpututor.text import escape_control_chars, truncate

MOST_LISTED = 10
"""Reasons for failed gradings that are listed; the rest is counted."""
MOST_JUDGES = 256
LIVE_EVERY_S, PLAIN_EVERY_S = 0.5, 15.0

_OPEN = (
    "Submissions run as you: they can read and change what you can, such as class.secret, the journal, the other "
    "submissions, and the environment of your shell."
)
_OPEN_AS_ROOT = "You are root, so they can change all of this machine. Grade in bubblewrap, or as another user."


class GradingOutput:
    """Messages on `stream`, which may be closed. `resume`: the command that resumes the run."""

    def __init__(self, stream: TextIO, resume: str) -> None:
        self.stream = stream
        self._resume = resume

    def print_class(self, class_: Class, course: Course, before: Class | None = None) -> None:
        """Print a summary of the class. `before`: the class of the last run."""
        for problem in course.problems:
            self._print(f"Left out of the course: {problem.title}")
        for line in [*summary(class_, course), *(missing_students(class_, before) if before is not None else ())]:
            self._print(line)

    def print_plan(self, plan: GradingPlan) -> None:
        if plan.notice:
            self._print(plan.notice)
        if plan.grader_changed and (plan.anew or plan.already):
            repeated = f"{count(plan.anew, 'grading')} must be repeated"
            result = repeated if plan.anew else "the journal already has the gradings of this version"
            self._print(f"gpututor itself has changed since the last run ({plan.grader_changed}): {result}.")
        if plan.changed:
            again = ", so gradings are repeated" if plan.jobs else "; the journal already has these gradings"
            self._print(f"Changed since the last run{again}: {plan.changed}.")
        already = f"; {plan.already} are graded already" if plan.already else ""
        if plan.jobs:
            devices = sorted({job.key.device for job in plan.jobs})
            isolation = plan.options.isolation
            how = f"isolation {isolation}, device {' and '.join(devices)}"
            self._print(f"{count(len(plan.jobs), 'grading')} to do{already}: {how}.")
            if isolation == "process":
                self._print(_OPEN)
                if hasattr(os, "geteuid") and os.geteuid() == 0:
                    self._print(_OPEN_AS_ROOT)
        elif plan.already:
            self._print(f"Nothing is left to grade{already}.")
        else:
            self._print(
                "Nothing to grade: every file is rejected, for the reasons above. The feedback also gives the reasons."
            )

    def notify(self, line: str) -> None:
        """Print a line above `ClassProgress`."""
        if self.stream.isatty():
            _write(self.stream, "\r\x1b[K")
        self._print(line)

    def print_end(self, plan: GradingPlan, work: WorkQueue, *, is_stopped: bool) -> None:
        progress = work.progress
        if plan.jobs:
            rate = f" in {duration(progress.elapsed_s)}, {progress.per_s:.1f} a second"
            self._print(f"Graded {progress.done} of {progress.total}{rate}: {format_outcomes(progress.outcomes)}.")
        for line in failure_lines(work.failures):
            self._print(f"  {line}")
        if is_stopped:
            self._print(f"Stopped. Finished gradings are saved. Resume with:\n  {self._resume}")
        elif work.failures:
            self._print(f"These failures are not the students' fault. Retry with:\n  {self._resume}")

    def _print(self, line: str) -> None:
        _write(self.stream, fitting("\n".join(map(escape_control_chars, line.split("\n")))) + "\n")


def _write(stream: TextIO, text: str) -> None:
    """Write to a terminal or a pipe; if it is closed, the grading continues."""
    with contextlib.suppress(OSError):
        stream.write(text)
        stream.flush()


class ClassProgress:
    """The progress of `work` while the context is entered: one changing line on a terminal, else regular lines."""

    def __init__(self, work: WorkQueue, stream: TextIO) -> None:
        self._work = work
        self._stream = stream
        self._is_live = stream.isatty()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._is_live:
            _write(self._stream, "\r\x1b[K")

    def _run(self) -> None:
        while not self._over.wait(LIVE_EVERY_S if self._is_live else PLAIN_EVERY_S):
            if self._is_live:
                width = shutil.get_terminal_size().columns - 1
                _write(self._stream, f"\r{progress_line(self._work.progress, width)}\x1b[K")
            else:
                _write(self._stream, f"{progress_line(self._work.progress)}\n")


def progress_line(progress: Progress, width: int = 1000) -> str:
    """Format `412 of 2000, 10.8/s, 2:27 left: 300 passed, 100 failed, 12 error`, cut to `width`."""
    if not progress.done and not progress.abandoned:
        return truncate(f"0 of {progress.total}; the graders are starting", width)
    left = f", {duration(progress.left_s)} left" if progress.left_s is not None else ""
    parts = [f"{progress.done} of {progress.total}", f", {progress.per_s:.1f}/s{left}"]
    if progress.outcomes:
        parts.append(f": {format_outcomes(progress.outcomes)}")
    if progress.retried:
        parts.append(f"; {progress.retried} tried again")
    if progress.abandoned:
        parts.append(f"; {progress.abandoned} not graded")
    return truncate("".join(parts), width)


def failure_lines(failures: Sequence[JobFailure]) -> Iterator[str]:
    """Yield a line for each reason of failed gradings."""
    by_why: dict[str, list[JobFailure]] = {}
    for failure in failures:
        by_why.setdefault(failure.why.partition("\n")[0], []).append(failure)
    for why, same in islice(by_why.items(), MOST_LISTED):
        key, others = same[0].key, len(same) - 1
        which = f"{key.exercise}, submission {key.submission[:12]}, {count(same[0].attempts, 'attempt')}"
        yield f"! not graded: {which}{f', and {others} more' if others else ''}: {why}"
    if len(by_why) > MOST_LISTED:
        rest = sum(map(len, islice(by_why.values(), MOST_LISTED, None)))
        yield f"… and {rest} more: troubles.json has all of them"


def format_outcomes(outcomes: Mapping[Outcome, int]) -> str:
    """Format `300 passed, 100 failed`, in the order of `Outcome`."""
    return ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in Outcome if outcomes.get(outcome)) or "none"


def duration(seconds: float) -> str:
    """Format `0:07`, `2:27`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def summary_of(out: Path, plan: GradingPlan, work: WorkQueue, stopped: BaseException | None) -> dict[str, Any]:
    """Return the output of `--json`."""
    progress, class_ = work.progress, plan.class_
    return {
        "schema_version": 1,
        "out": str(out),
        "students": len(class_.students),
        "handed_in": len(class_.submissions),
        "refused": sum(bool(submission.refusal) for submission in class_.submissions),
        "unmatched": len(class_.unmatched),
        "gradings": plan.already + len(plan.jobs),
        "already": plan.already,
        "done": progress.done,
        "outcomes": {outcome.value: number for outcome, number in progress.outcomes.items()},
        "not_graded": [
            {
                "exercise": failure.key.exercise,
                "submission": failure.key.submission,
                "attempts": failure.attempts,
                "why": failure.why,
            }
            for failure in work.failures
        ],
        "retried": progress.retried,
        "seconds": round(progress.elapsed_s, 1),
        "per_s": round(progress.per_s, 2),
        "stopped": "" if stopped is None else str(stopped) if isinstance(stopped, TutorError) else "interrupted",
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FOLDER", type=Path, help="the submissions: a folder or a zip")
    parser.add_argument("--out", metavar="OUT", type=Path, required=True, help="the folder of this class's gradings")
    parser.add_argument("--resume", action="store_true", help="continue: grade only submissions without a report")
    layout_help = "the layout of FOLDER, if it is not detected"
    parser.add_argument("--layout", choices=(AUTO, *LAYOUTS), help=layout_help)
    exercise_help = "the exercise of files that are not named after one"
    parser.add_argument("--exercise", metavar="EXERCISE", help=exercise_help)
    device_help = f"auto (the default: the best one for each exercise), {DEVICE_WORDS}"
    parser.add_argument("--device", help=device_help)
    parser.add_argument("--gpu", "--model", metavar="NAME", help="the model of the virtual GPU, for all exercises")
    isolation_help = (
        "how submissions are isolated: bubblewrap (the default; Linux; no access to your files or the network) or "
        "process (limits and cleanup only: they can read what you can read)"
    )
    parser.add_argument("--isolation", choices=("bubblewrap", "process"), help=isolation_help)
    executor_help = "where to grade: on this machine (local, the default) or on a Ray cluster (ray)"
    parser.add_argument("--executor", choices=("local", "ray"), default="local", help=executor_help)
    address_help = "the Ray cluster: HOST:PORT, or auto for this machine's (default: a new one)"
    parser.add_argument("--address", metavar="ADDRESS", default="", help=address_help)
    judges_help = "parallel gradings (default: one per core, limited by memory; on a cluster, one per CPU)"
    parser.add_argument("--judges", type=whole_number(1, MOST_JUDGES), metavar="N", help=judges_help)
    secret_help = "the class secret of another machine, for the same inputs as there"
    parser.add_argument("--secret", metavar="FILE", type=Path, help=secret_help)
    parser.add_argument("--rules", metavar="FILE", type=Path, help="rules for marks, saved as OUT/classroom.toml")
    columns = "id, name, email, section, extension (hours), pseudonym"
    roster_help = f"the class's roster, saved as OUT/roster.csv: {columns}"
    parser.add_argument("--roster", metavar="CSV", type=Path, help=roster_help)
    parser.add_argument("--json", action="store_true", help="print one JSON object, described above")


def main(arguments: argparse.Namespace) -> int:
    folder = ClassFolder(arguments.out.absolute())
    _check_executor(arguments)
    check_apart(arguments.source, folder)
    with locked(folder), contextlib.closing(_FirstJudge()) as first:
        output = GradingOutput(sys.stderr if arguments.json else sys.stdout, _resume_command(arguments))
        is_local = arguments.executor == "local"
        plan = _plan(arguments, folder, output, first.start_and_probe if is_local else working_in_bubblewrap)
        work = WorkQueue(plan.jobs, plan.working)
        stopped: BaseException | None = None
        if plan.jobs:
            try:
                executor = _executor(arguments, plan, output, first)
                with _sigterm_as_ctrl_c(), ClassProgress(work, output.stream):
                    executor.run(work)
            except (TutorError, KeyboardInterrupt) as error:
                stopped = error
        try:
            write_failures(folder, work.failures)
        except OSError as error:
            stopped = stopped or error
        output.print_end(plan, work, is_stopped=stopped is not None)
        if arguments.json:
            print(json.dumps(summary_of(folder.folder, plan, work, stopped), indent=2))
        if stopped is not None:
            raise stopped
        is_none_graded = not plan.jobs and not plan.already
        return GradingError.exit_code if work.failures or is_none_graded else 0


@contextlib.contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM, which clusters and machines send before they shut down, like Ctrl-C."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _FirstJudge:
    """The first judge. It starts while the devices are probed, because both load PyTorch, which takes seconds."""

    def __init__(self) -> None:
        self._started: GradingService | None = None

    def start_and_probe(self) -> frozenset[str]:
        """Start it in bubblewrap, and return the devices that work there. Raises `NotGradableHere`."""
        self._started = start_judge("bubblewrap")
        with contextlib.suppress(GradingError):  # the first grading then reports why the judge does not start
            self._started.warm()
        return working_in_bubblewrap()

    def take(self, isolation: IsolationName) -> GradingService:
        """Return it once, if it was started, and other judges after that."""
        judge, self._started = self._started, None
        return judge or start_judge(isolation)

    def close(self) -> None:
        if self._started is not None:
            self._started.close()


def _plan(
    arguments: argparse.Namespace,
    folder: ClassFolder,
    output: GradingOutput,
    isolated_devices: Callable[[], frozenset[str]],
) -> GradingPlan:
    is_resumed = arguments.resume and folder.class_file.exists()
    if arguments.course is None and is_resumed:
        course = load_course(Path(folder.read_class().course))
    else:
        course = chosen_course(arguments)
    given = GradeOptions(**{option.name: getattr(arguments, option.name) for option in fields(GradeOptions)})
    options, last = merge_options(given, folder, course)
    stored: dict[Path, bytes] = {}
    if arguments.rules is not None:
        rules, _ = rules_of_course(arguments.rules, course)
        stored[folder.rules_file] = rules.text.encode()
    if arguments.roster is not None:
        read_roster(arguments.roster)
        stored[folder.roster_file] = arguments.roster.read_bytes()
    exercise = course.find(options.exercise) if options.exercise else None
    class_ = read_class(arguments.source, course, folder, layout=options.layout or AUTO, exercise=exercise)
    output.print_class(class_, course, folder.read_class() if is_resumed else None)
    for path, content in stored.items():
        _store(content, path, folder, output)
    plan = plan_grading(options, last, class_, folder, course, isolated_devices)
    output.print_plan(plan)
    return plan


def _store(content: bytes, path: Path, folder: ClassFolder, output: GradingOutput) -> None:
    """Store rules or a roster in the folder; back up others there."""
    if path.exists():
        if path.read_bytes() == content:
            return
        backup = back_up(path, folder.replaced)
        output.notify(f"The previous {path} is in {backup}.")
    write_atomically(path, content)


def _check_executor(arguments: argparse.Namespace) -> None:
    if arguments.address and arguments.executor != "ray":
        raise UsageError("--address needs --executor ray.", "Leave it out, or add --executor ray.")
    kind, _, number = (arguments.device or "").partition(":")
    if number and arguments.executor == "ray":
        raise UsageError(
            f"--device {arguments.device} works on this machine only.", f"Use --device {kind}: Ray chooses."
        )
    if arguments.executor == "ray":
        check_installed()


def _executor(arguments: argparse.Namespace, plan: GradingPlan, output: GradingOutput, first: _FirstJudge) -> Executor:
    isolation: IsolationName = "process" if plan.options.isolation == "process" else "bubblewrap"
    judges = arguments.judges or default_judges()
    if arguments.executor == "ray":
        cluster = RayCluster(arguments.address, judges, len(plan.devices))
        return RayExecutor(cluster, isolation, arguments.judges, output.notify)
    devices = RealDevices(plan.devices, partial(probe_devices, isolation))
    return LocalExecutor(judges, devices, partial(first.take, isolation), output.notify)


def _resume_command(arguments: argparse.Namespace) -> str:
    words = ["gpututor", "classroom", "grade", str(arguments.source), "--out", str(arguments.out), "--resume"]
    words += ["--executor", arguments.executor] * (arguments.executor != "local")
    words += ["--address", arguments.address] * bool(arguments.address)
    return shlex.join(words)
