"""Grade what a whole class handed in.

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
import shlex
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from gpututor.classroom.batch import write_troubles
from gpututor.classroom.executors import Executor
from gpututor.classroom.executors.apart import ClusterApart
from gpututor.classroom.executors.cluster import ClusterExecutor
from gpututor.classroom.executors.local import LocalExecutor, default_judges
from gpututor.classroom.executors.real_devices import RealDevices, probe_devices
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake import AUTO, LAYOUTS, check_apart, read_class
from gpututor.classroom.lock import locked
from gpututor.classroom.rules_file import read_rules
from gpututor.classroom.start import Asked, Start, options_asked, start
from gpututor.classroom.work import Work
from gpututor.cli.classroom.grading_screen import ProgressLine, Screen, summary_of
from gpututor.cli.places import chosen_course
from gpututor.course.catalogue import load_course
from gpututor.course.exercise import Course
from gpututor.errors import GradingError, TutorError, UsageError
from gpututor.files import back_up, write_atomically
from gpututor.grading.client import IsolationName

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
        work = Work(begun.jobs, begun.working)
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


def _begin(arguments: argparse.Namespace, folder: ClassFolder, screen: Screen) -> Start:
    """Read the class, and find out what is to be done."""
    course = _course(arguments, folder)
    asked = Asked(
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
    begun = start(options, last, found, folder, course)
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


def _executor(arguments: argparse.Namespace, begun: Start, screen: Screen) -> Executor:
    isolation: IsolationName = "process" if begun.options.isolation == "process" else "bubblewrap"
    if arguments.executor == "ray":
        cluster = ClusterApart(arguments.address, arguments.judges or default_judges(), len(begun.devices))
        return ClusterExecutor(cluster, isolation, arguments.judges, screen.tell_meanwhile)
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
