"""What `classroom grade` says: what was found, how far it is, and what became of it.

Grade what a whole class handed in.

FOLDER is a folder or a zip, as it comes from the platform or as you made it; docs/classroom/layouts.md lists what is
understood. What is not understood is listed, never dropped.

Everything goes into the folder of --out: what was handed in, a journal with one file for each grading, and what is made
of them. Each grading is written down the moment it is done. Whatever ends this program (Ctrl-C, a crash, a full disk, a
machine that goes off), say the same again with --resume, and only what is missing is graded.

--json prints one object at the end:
  schema_version  1
  out, students, handed_in, refused, unmatched
  gradings        how many different ones there are; the same text is graded once for all who handed it in
  already, done   of these, before and now; outcomes counts what was done now, by its outcome
  not_graded      of these, what could not be graded: [{exercise, submission, attempts, why}]
  retried, seconds, per_s, stopped

Exit codes: 0 all is graded; 2 wrong usage, no file is for an exercise, or OUT cannot be written to; 3 this machine
lacks what is needed; 4 something could not be graded, and is tried again with --resume, or every file is refused; 130
Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from gpututor.classroom.executors import Executor
from gpututor.classroom.executors.local import LocalExecutor, RealDevices, default_judges, probe_devices
from gpututor.classroom.executors.ray import RayCluster, RayExecutor
from gpututor.classroom.folder import ClassFolder, locked
from gpututor.classroom.intake import AUTO, LAYOUTS, check_apart, gone, read_class, summary
from gpututor.classroom.jobs import JobFailure, write_troubles
from gpututor.classroom.plan import GradeOptions, GradingPlan, options_asked, plan_grading
from gpututor.classroom.rules import read_rules
from gpututor.classroom.submissions import Class
from gpututor.classroom.work_queue import Progress, WorkQueue
from gpututor.cli.options import chosen_course
from gpututor.cli.terminal import fitting
from gpututor.course.loader import load_course
from gpututor.course.model import Course
from gpututor.errors import GradingError, TutorError, UsageError
from gpututor.files import back_up, write_atomically
from gpututor.grading.client import IsolationName
from gpututor.grading.report import Outcome
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars

MOST_TOLD = 10
"""Gradings that could not be done, line by line; the rest is counted."""
LIVE_EVERY_S, PLAIN_EVERY_S = 0.5, 15.0


_OPEN = (
    "Submissions run as you: they can read and change what you can, such as class.secret, the journal, the other "
    "submissions, and the environment of your shell."
)
_OPEN_AS_ROOT = "You are root, so they can change all of this machine. Grade in bubblewrap, or as another user."


class Screen:
    """Says all on `stream`, as long as anybody is there to read it. `again`: what to type to go on."""

    def __init__(self, stream: TextIO, again: str) -> None:
        self.stream = stream
        self._again = again

    def tell_class(self, found: Class, course: Course, before: Class | None = None) -> None:
        """`before`: as it was the last time."""
        for problem in course.problems:
            self._say(f"Left out of the course: {problem.title}")
        for line in [*summary(found, course), *(gone(found, before) if before is not None else ())]:
            self._say(line)

    def tell_start(self, begun: GradingPlan) -> None:
        if begun.changed:
            again = ", so gradings are made again" if begun.jobs else "; these gradings are in the journal already"
            self._say(f"Changed since the last time{again}: {begun.changed}.")
        already = f"; {begun.already} are graded already" if begun.already else ""
        if begun.jobs:
            devices = sorted({job.key.device for job in begun.jobs})
            isolation = begun.options.isolation
            how = f"isolation {isolation}, device {' and '.join(devices)}"
            self._say(f"{count(len(begun.jobs), 'grading')} to do{already}: {how}.")
            if isolation == "process":
                self._say(_OPEN)
                if hasattr(os, "geteuid") and os.geteuid() == 0:
                    self._say(_OPEN_AS_ROOT)
        elif begun.already:
            self._say(f"Nothing is left to grade{already}.")
        else:
            self._say("Nothing can be graded: every file is refused, for the reasons above. Feedback tells them, too.")

    def tell_meanwhile(self, line: str) -> None:
        """While `ProgressLine` stands below."""
        if self.stream.isatty():
            _write(self.stream, "\r\x1b[K")
        self._say(line)

    def tell_end(self, begun: GradingPlan, work: WorkQueue, *, is_stopped: bool) -> None:
        progress = work.progress
        if begun.jobs:
            rate = f" in {duration(progress.elapsed_s)}, {progress.per_s:.1f} a second"
            self._say(f"Graded {progress.done} of {progress.total}{rate}: {outcomes_in_words(progress.outcomes)}.")
        for line in troubles_in_words(work.troubles):
            self._say(f"  {line}")
        if is_stopped:
            self._say(f"Stopped. What is done is kept. Go on with:\n  {self._again}")
        elif work.troubles:
            self._say(f"No student is to blame for these. To try them again:\n  {self._again}")

    def _say(self, line: str) -> None:
        _write(self.stream, fitting("\n".join(map(escape_control_chars, line.split("\n")))) + "\n")


def _write(stream: TextIO, text: str) -> None:
    """A terminal or a pipe that is gone ends no grading."""
    with contextlib.suppress(OSError):
        stream.write(text)
        stream.flush()


class ProgressLine:
    """While it is entered, how far `work` is: one line that changes on a terminal, else a new line now and then."""

    def __init__(self, work: WorkQueue, stream: TextIO) -> None:
        self._work = work
        self._stream = stream
        self._lives = stream.isatty()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._lives:
            _write(self._stream, "\r\x1b[K")

    def _tell(self) -> None:
        while not self._over.wait(LIVE_EVERY_S if self._lives else PLAIN_EVERY_S):
            if self._lives:
                width = shutil.get_terminal_size().columns - 1
                _write(self._stream, f"\r{progress_line(self._work.progress, width)}\x1b[K")
            else:
                _write(self._stream, f"{progress_line(self._work.progress)}\n")


def progress_line(progress: Progress, width: int = 1000) -> str:
    """`412 of 2000, 10.8/s, 2:27 left: 300 passed, 100 failed, 12 error`, as much of it as fits."""
    if not progress.done and not progress.given_up:
        return f"0 of {progress.total}; the graders are starting"[:width]
    left = f", {duration(progress.left_s)} left" if progress.left_s is not None else ""
    parts = [f"{progress.done} of {progress.total}", f", {progress.per_s:.1f}/s{left}"]
    if progress.outcomes:
        parts.append(f": {outcomes_in_words(progress.outcomes)}")
    if progress.retried:
        parts.append(f"; {progress.retried} tried again")
    if progress.given_up:
        parts.append(f"; {progress.given_up} not graded")
    line = ""
    for part in parts:
        if len(line) + len(part) > width:
            return f"{line} …" if len(line) + 2 <= width else line
        line += part
    return line


def troubles_in_words(troubles: Sequence[JobFailure]) -> Iterator[str]:
    """What could not be graded, in lines; those together that have the same reason."""
    by_why: dict[str, list[JobFailure]] = {}
    for trouble in troubles:
        by_why.setdefault(trouble.why.partition("\n")[0], []).append(trouble)
    for why, same in islice(by_why.items(), MOST_TOLD):
        key, others = same[0].key, len(same) - 1
        which = f"{key.exercise}, submission {key.submission[:12]}, {count(same[0].attempts, 'attempt')}"
        yield f"! not graded: {which}{f', and {others} more' if others else ''}: {why}"
    if len(by_why) > MOST_TOLD:
        rest = sum(map(len, islice(by_why.values(), MOST_TOLD, None)))
        yield f"… and {rest} more: troubles.json has all of them"


def outcomes_in_words(outcomes: Mapping[Outcome, int]) -> str:
    """`300 passed, 100 failed`, in the order of `Outcome`."""
    return ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in Outcome if outcomes.get(outcome)) or "none"


def duration(seconds: float) -> str:
    """`0:07`, `2:27`, `1:02:03`"""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def summary_of(out: Path, begun: GradingPlan, work: WorkQueue, stopped: BaseException | None) -> dict[str, Any]:
    """What `--json` prints."""
    progress, found = work.progress, begun.found
    return {
        "schema_version": 1,
        "out": str(out),
        "students": len(found.students),
        "handed_in": len(found.handed_in),
        "refused": sum(bool(one.refusal) for one in found.handed_in),
        "unmatched": len(found.unmatched),
        "gradings": begun.already + len(begun.jobs),
        "already": begun.already,
        "done": progress.done,
        "outcomes": {outcome.value: number for outcome, number in progress.outcomes.items()},
        "not_graded": [
            {
                "exercise": trouble.key.exercise,
                "submission": trouble.key.submission,
                "attempts": trouble.attempts,
                "why": trouble.why,
            }
            for trouble in work.troubles
        ],
        "retried": progress.retried,
        "seconds": round(progress.elapsed_s, 1),
        "per_s": round(progress.per_s, 2),
        "stopped": "" if stopped is None else str(stopped) if isinstance(stopped, TutorError) else "interrupted",
    }


MOST_JUDGES = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FOLDER", type=Path, help="what was handed in: a folder or a zip")
    parser.add_argument("--out", metavar="OUT", type=Path, required=True, help="the folder of this class's gradings")
    parser.add_argument("--resume", action="store_true", help="go on: grade only what has no report yet")
    layout_help = "how FOLDER is laid out, where that is not found out by itself"
    parser.add_argument("--layout", choices=(AUTO, *LAYOUTS), help=layout_help)
    exercise_help = "what files are for that are not called after an exercise"
    parser.add_argument("--exercise", metavar="EXERCISE", help=exercise_help)
    device_help = "auto (the default: for each exercise the best that is here), virtual, cpu, cuda, cuda:N, mps or xpu"
    parser.add_argument("--device", help=device_help)
    parser.add_argument("--gpu", "--model", metavar="NAME", help="the model of the virtual GPU, for all exercises")
    isolation_help = (
        "what submissions run in: bubblewrap (the default; Linux: sees no file of yours, no network) or process "
        "(limits and cleanup only: it can read what you can read)"
    )
    parser.add_argument("--isolation", choices=("bubblewrap", "process"), help=isolation_help)
    executor_help = "who grades: this machine (local, the default), or the machines of a Ray cluster (ray)"
    parser.add_argument("--executor", choices=("local", "ray"), default="local", help=executor_help)
    address_help = "of the Ray cluster: HOST:PORT, or auto for the one of this machine (default: one of its own)"
    parser.add_argument("--address", metavar="ADDRESS", default="", help=address_help)
    judges_help = "how many grade at once (default: one a core, as far as there is memory; on a cluster, one a CPU)"
    parser.add_argument("--judges", type=_judges, metavar="N", help=judges_help)
    secret_help = "the class secret of another machine, so that inputs are drawn as there"
    parser.add_argument("--secret", metavar="FILE", type=Path, help=secret_help)
    parser.add_argument("--rules", metavar="FILE", type=Path, help="rules for marks, kept as OUT/classroom.toml")
    parser.add_argument("--json", action="store_true", help="print one JSON object, described above")


def main(arguments: argparse.Namespace) -> int:
    folder = ClassFolder(arguments.out.absolute())
    _check_executor(arguments)
    check_apart(arguments.source, folder)
    with locked(folder):
        screen = Screen(sys.stderr if arguments.json else sys.stdout, _again(arguments))
        begun = _begin(arguments, folder, screen)
        work = WorkQueue(begun.jobs, begun.working)
        stopped: BaseException | None = None
        if begun.jobs:
            try:
                executor = _executor(arguments, begun, screen)
                with _ended_as_by_ctrl_c(), ProgressLine(work, screen.stream):
                    executor.run(work)
            except (TutorError, KeyboardInterrupt) as error:
                stopped = error
        elif arguments.executor == "ray" and importlib.util.find_spec("ray") is None:
            screen.tell_meanwhile("Ray is not installed here; there was nothing for it to grade.")
        try:
            write_troubles(folder, work.troubles)
        except OSError as error:
            stopped = stopped or error
        screen.tell_end(begun, work, is_stopped=stopped is not None)
        if arguments.json:
            print(json.dumps(summary_of(folder.folder, begun, work, stopped), indent=2))
        if stopped is not None:
            raise stopped
        is_none_graded = not begun.jobs and not begun.already
        return GradingError.exit_code if work.troubles or is_none_graded else 0


@contextlib.contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Also by SIGTERM, which is how clusters and machines that go off end what runs."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _begin(arguments: argparse.Namespace, folder: ClassFolder, screen: Screen) -> GradingPlan:
    """Read the class, and find out what is to be done."""
    course = _course(arguments, folder)
    asked = GradeOptions(
        device=arguments.device,
        gpu=arguments.gpu,
        isolation=arguments.isolation,
        layout=arguments.layout,
        exercise=arguments.exercise,
        secret=arguments.secret,
        resume=arguments.resume,
    )
    options, last = options_asked(asked, folder, course)
    _keep_rules(arguments.rules, folder, course, screen)
    exercise = course.find(options.exercise) if options.exercise else None
    found = read_class(arguments.source, course, folder, layout=options.layout or AUTO, exercise=exercise)
    screen.tell_class(found, course, folder.read_class() if asked.resume and folder.class_file.exists() else None)
    begun = plan_grading(options, last, found, folder, course)
    screen.tell_start(begun)
    return begun


def _course(arguments: argparse.Namespace, folder: ClassFolder) -> Course:
    """Who goes on need not say again of which course it is."""
    if arguments.course is None and arguments.resume and folder.class_file.exists():
        return load_course(Path(folder.read_class().course))
    return chosen_course(arguments)


def _keep_rules(given: Path | None, folder: ClassFolder, course: Course, screen: Screen) -> None:
    """What is wrong with rules is told now, not after the grading. Other rules that are there already are kept, too."""
    if given is None:
        return
    text = read_rules(given, [exercise.key for exercise in course.exercises]).text
    if folder.rules_file.exists():
        if folder.rules_file.read_bytes() == text.encode():
            return
        kept = back_up(folder.rules_file, folder.replaced)
        screen.tell_meanwhile(f"The rules that were in {folder.rules_file} are kept in {kept}.")
    write_atomically(folder.rules_file, text)


def _check_executor(arguments: argparse.Namespace) -> None:
    if arguments.address and arguments.executor != "ray":
        raise UsageError("--address is for --executor ray.", "Leave it out, or say --executor ray as well.")
    kind, _, number = (arguments.device or "").partition(":")
    if number and arguments.executor == "ray":
        raise UsageError(
            f"--device {arguments.device} is for this machine alone.", f"Say --device {kind}: Ray chooses."
        )


def _executor(arguments: argparse.Namespace, begun: GradingPlan, screen: Screen) -> Executor:
    isolation: IsolationName = "process" if begun.options.isolation == "process" else "bubblewrap"
    if arguments.executor == "ray":
        cluster = RayCluster(arguments.address, arguments.judges or default_judges(), len(begun.devices))
        return RayExecutor(cluster, isolation, arguments.judges, screen.tell_meanwhile)
    devices = RealDevices(begun.devices, partial(probe_devices, isolation))
    return LocalExecutor.of(isolation, arguments.judges or default_judges(), devices, screen.tell_meanwhile)


def _again(arguments: argparse.Namespace) -> str:
    """What to type to go on."""
    words = ["gpututor", "classroom", "grade", str(arguments.source), "--out", str(arguments.out), "--resume"]
    words += ["--executor", arguments.executor] * (arguments.executor != "local")
    words += ["--address", arguments.address] * bool(arguments.address)
    return shlex.join(words)


def _judges(word: str) -> int:
    if not (word.isascii() and word.isdigit() and 1 <= int(word) <= MOST_JUDGES):
        raise argparse.ArgumentTypeError(f"a whole number from 1 to {MOST_JUDGES}")
    return int(word)
