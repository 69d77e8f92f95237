"""Make a zip of your solution files, to submit.

LESSON and EXERCISE are numbers such as 2 or 2.1, or names. Without any, the zip gets every file that you have changed.
Unchanged files are left out, and the output lists them. The zip has only these files, with their paths in your folder,
and a list of their exercises.

Exit codes: 0 all files are in it; 1 a file is not, and stderr says why; 2 wrong usage, or nothing to submit.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpututor.classroom.intake.archive import MANIFEST
from gpututor.classroom.packing import Pack, checked_out, named, pack_of
from gpututor.cli.options import chosen_course, chosen_workspace
from gpututor.course.model import Exercise
from gpututor.errors import UsageError
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars

LONGEST_NAME = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("exercises", nargs="*", metavar="LESSON|EXERCISE", help="2, 2.1, born_on_the_device …")
    out_help = "the zip to make, or the folder to make it in (gpututor-pack.zip or ID-pack.zip, here)"
    parser.add_argument("--out", type=Path, metavar="FILE", help=out_help)
    parser.add_argument("--name", type=_name, default="", metavar="NAME", help="your name, for the zip")


def main(arguments: argparse.Namespace) -> int:
    course = chosen_course(arguments)
    exercises = named(course, arguments.exercises)
    workspace = chosen_workspace(arguments, course)
    out = checked_out(arguments.out, course)
    pack = pack_of(course, workspace, exercises)
    if pack.files:
        pack.write(out, arguments.name)
        print("\n".join(_inside(pack, out, arguments.name)))
    for line in _not_inside(pack):
        print(line)
    sys.stdout.flush()
    for file in pack.left_out:
        label = escape_control_chars(f"{file.exercise.label} {file.path}")
        print(f"gpututor: {label} is NOT in the zip: {escape_control_chars(file.why)}", file=sys.stderr)
    if not pack.files:
        advice = "Change a file first; `gpututor list` shows the exercises. No zip was made."
        raise UsageError(f"There is nothing to submit in {workspace.folder}.", advice)
    return 1 if pack.left_out else 0


def _inside(pack: Pack, out: Path, student: str) -> Iterator[str]:
    who = f"with the name {student}" if student else "without a name (--name NAME puts yours in)"
    made = escape_control_chars(str(out))
    yield f"Made {made}: {count(len(pack.files), 'file')} to submit, {escape_control_chars(who)}."
    width = max(len(file.path) for file in pack.files)
    label = max(len(file.exercise.label) for file in pack.files)
    for file in pack.files:
        name = f"{escape_control_chars(file.path):<{width}}"
        yield f"  {file.exercise.label:<{label}}  {name}  {len(file.content)} bytes"
        if file.warning:
            yield f"  {'':<{label}}  ! {escape_control_chars(file.warning)}"
    yield f"{MANIFEST} in the zip lists their exercises."


def _not_inside(pack: Pack) -> Iterator[str]:
    yield from _listed("Not in the zip, because unchanged", pack.unchanged)
    yield from _listed("Not in the zip, because missing", pack.missing)
    if pack.others:
        words = f"Not in the zip, because no exercise has this name: {', '.join(pack.others)}."
        yield from textwrap.wrap(escape_control_chars(words), 100, subsequent_indent="  ")


def _listed(words: str, exercises: Iterable[Exercise]) -> Iterator[str]:
    """Yield the lines of `WORDS: 1.1 to 1.3, 2.1, 2.2.`; nothing without exercises."""
    runs: list[list[Exercise]] = []
    for exercise in exercises:
        previous = runs[-1][-1] if runs else None
        if previous and (previous.lesson_number, previous.number + 1) == (exercise.lesson_number, exercise.number):
            runs[-1].append(exercise)
        else:
            runs.append([exercise])
    labels = [
        f"{run[0].label} to {run[-1].label}" if len(run) > 2 else ", ".join(exercise.label for exercise in run)
        for run in runs
    ]
    if labels:
        yield from textwrap.wrap(f"{words}: {', '.join(labels)}.", 100, subsequent_indent="  ")


def _name(word: str) -> str:
    if not word.isprintable() or len(word) > LONGEST_NAME:
        raise argparse.ArgumentTypeError(f"a name is one line of up to {LONGEST_NAME} characters")
    return word.strip()
