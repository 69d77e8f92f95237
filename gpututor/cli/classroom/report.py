"""The gradebook of a class: a table here, and files for other programs.

OUT is the folder that `classroom grade` made. The gradebook is made of its journal each time, also while grading goes
on: OUT/gradebook.sqlite3 holds all of it. Rules for marks stand in OUT/classroom.toml; docs/classroom/rules.md explains
them. What has no final mark yet is never written as one.

Without an option it prints a table. The options write files, and --all writes all of them to OUT/report, for
Canvas and Moodle where the class came from there or a roster is named.

--json prints one object:
  schema_version  1
  attempts        "best" or "last"
  exercises       [{exercise, label, title, of, extra, weight, due, dropped, handed_in, without_mark, outcomes,
                    distribution (ten equal parts), mean, median (of all points, 0 to 1), checks}]
      checks      [{check, of, extra, hidden, passed, failed, open, not_run, held_back}]
  students        [{student, name, email, points (null while a mark is open), so_far, of, open, marks}]
      marks       [{exercise, standing, mark (null where there is none), so_far, of, outcome, attempt, attempts,
                    late_per_cent, dropped, journal_key, reason}]
                  standing is "final", "open", "refused", "not graded" or "not handed in"
  unmatched       [{source, why, students}]
  notices         [{title, advice}]: broken files of the journal, rules that hold for nobody, and the like
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.canvas import canvas
from gpututor.classroom.gradebook.database import write_database
from gpututor.classroom.gradebook.gradescope import gradescope
from gpututor.classroom.gradebook.json_form import as_json
from gpututor.classroom.gradebook.junit import junit
from gpututor.classroom.gradebook.make import make_gradebook
from gpututor.classroom.gradebook.model import Gradebook, Notice
from gpututor.classroom.gradebook.moodle import moodle
from gpututor.classroom.gradebook.tables import long, wide
from gpututor.classroom.gradebook.terminal import lines_of
from gpututor.classroom.page.make import page
from gpututor.classroom.parts import clear_parts
from gpututor.classroom.rules_file import course_of, rules_for
from gpututor.classroom.submitted import SubmittedLines
from gpututor.cli.classroom.telling import left_over, remove, tell, write
from gpututor.errors import UsageError
from gpututor.plain_text import visible

_OPTIONS = (
    ("--rules", "FILE", "rules for marks, instead of OUT/classroom.toml"),
    ("--csv", "FILE", "a row for each student, a column for each exercise"),
    ("--csv-checks", "FILE", "a row for each check of each mark"),
    ("--gradescope", "DIR", "a results.json for each student"),
    ("--canvas", "FILE", "a file that Canvas imports under Grades"),
    ("--canvas-roster", "FILE", "what Canvas exports there: it tells who is who, and which column is what"),
    ("--moodle", "FILE", "a grading worksheet that Moodle takes"),
    ("--moodle-roster", "FILE", "the worksheet that Moodle gives, to be filled in"),
    ("--junit", "FILE", "JUnit XML: a suite for each student, a case for each check"),
    ("--html", "FILE", "one page to look at, with nothing from elsewhere; for you, not for students"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", metavar="OUT", type=Path, help="the folder of the class, as `classroom grade` made it")
    for option, metavar, help_line in _OPTIONS:
        parser.add_argument(option, metavar=metavar, type=Path, help=help_line)
    parser.add_argument("--all", action="store_true", help="all of these, to OUT/report")
    parser.add_argument("--json", action="store_true", help="print one JSON object, described above")


def main(arguments: argparse.Namespace) -> int:
    if arguments.canvas_roster and not (arguments.canvas or arguments.all):
        raise UsageError("--canvas-roster needs --canvas.", "--canvas FILE says what to write.")
    if arguments.moodle_roster and not (arguments.moodle or arguments.all):
        raise UsageError("--moodle-roster needs --moodle.", "--moodle FILE says what to write.")
    folder = ClassFolder(arguments.out.absolute())
    gradebook = make_gradebook(folder, rules_for(folder, arguments.rules), arguments.course)
    notices = list(gradebook.notices)
    _clear_parts(arguments, folder)
    notices += _database_written(gradebook, folder.gradebook)
    if arguments.all:
        _take_all(arguments, folder.exports, gradebook.class_.layout)
    written = list(_written(arguments, folder, gradebook, notices))
    screen = sys.stderr if arguments.json else sys.stdout
    if arguments.json:
        print(json.dumps(as_json(gradebook), indent=2))
    elif not written:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 120
        print("\n".join(lines_of(gradebook, width)))
    for path in written:
        print(f"Written: {visible(str(path))}", file=screen)
    tell(notices)
    return 0


def _clear_parts(arguments: argparse.Namespace, folder: ClassFolder) -> None:
    """What reports left that were killed, where this one writes."""
    clear_parts(folder.folder, folder.gradebook.name)
    clear_parts(folder.exports)
    for name in PLACES:
        path: Path | None = getattr(arguments, name)
        if path is not None and name != "gradescope":
            clear_parts(path.parent, path.name)
        elif path is not None:
            for each in path.glob("*/"):
                clear_parts(each, "results.json")


def _database_written(gradebook: Gradebook, path: Path) -> Iterator[Notice]:
    """A class that is kept where nothing can be written has marks all the same."""
    try:
        write_database(gradebook, path)
    except OSError as error:
        title = f"{path} is not made anew: it cannot be written ({error.strerror or error})."
        yield Notice(title, "Make room there, or give yourself the right to write. All else is as it says here.")


def _take_all(arguments: argparse.Namespace, folder: Path, layout: str) -> None:
    """Every export that no option named has its place in the folder. Platforms know only students of their own."""
    for name, place in PLACES.items():
        is_foreign = name in ("canvas", "moodle") and layout != name and not getattr(arguments, f"{name}_roster")
        if getattr(arguments, name) is None and not is_foreign:
            setattr(arguments, name, folder / place)


PLACES = {
    "csv": "marks.csv",
    "csv_checks": "checks.csv",
    "gradescope": "gradescope",
    "canvas": "canvas.csv",
    "moodle": "moodle.csv",
    "junit": "junit.xml",
    "html": "index.html",
}


def _written(
    arguments: argparse.Namespace, folder: ClassFolder, gradebook: Gradebook, notices: list[Notice]
) -> Iterator[Path]:
    """Write what was asked for; each path after it was written."""
    for name, make in (("csv", wide), ("csv_checks", long), ("junit", junit)):
        path: Path | None = getattr(arguments, name)
        if path is not None:
            yield write(path, make(gradebook))
    if arguments.gradescope is not None:
        files, told = gradescope(gradebook)
        notices += told
        for place, results in files.items():
            if results is not None:
                write(arguments.gradescope / place, results)
            else:  # an earlier report may have had a mark
                remove(arguments.gradescope / place)
        found = [path.parent.name for path in arguments.gradescope.glob("*/results.json")]
        known = [place.partition("/")[0] for place in files]
        use = "give the folder to Gradescope"
        notices += left_over(arguments.gradescope, found, known, "results.json", use)
        yield arguments.gradescope
    if arguments.canvas is not None:
        text, told = canvas(gradebook, arguments.canvas_roster)
        notices += told
        yield write(arguments.canvas, text)
    if arguments.moodle is not None:
        text, told = moodle(gradebook, arguments.moodle_roster)
        notices += told
        yield write(arguments.moodle, text)
    if arguments.html is not None:
        yield write(arguments.html, page(gradebook, SubmittedLines(folder), _title(gradebook), datetime.now(UTC)))


def _title(gradebook: Gradebook) -> str:
    """What the course is called."""
    course = course_of(gradebook.class_)
    return (course.title if course is not None else "") or Path(gradebook.class_.course).name or "Course"
