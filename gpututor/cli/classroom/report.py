"""Show the gradebook of a class as a table, and write it to files for other programs.

OUT is the folder that `classroom grade` made. Each run makes the gradebook from its journal, even during grading. Rules
for marks are in OUT/classroom.toml; docs/classroom/rules.md explains them. A provisional mark is never written as a
final one.

Without options it prints a table. The options write files, and --all writes all of them to OUT/report. It writes files
for Canvas and Moodle only if the class comes from that platform, or with a roster of it.

--pseudonyms replaces the students' names, ids and addresses in all of these, and --all then writes to
OUT/pseudonymous/report. Files for Gradescope, Canvas and Moodle keep the ids, because the platforms need them: with
--pseudonyms, only their own options write them.

--misconceptions counts the failures that look like one of the exercise's own wrong solutions. It grades those solutions
once, like submissions, and OUT/journal keeps the results.

--json prints one object:
  schema_version  1
  attempts        "best" or "last"
  slip_days       each student's budget of slip days
  exercises       [{exercise, label, title, of, extra, weight, due, dropped, handed_in, without_mark, outcomes,
                    distribution (ten equal parts), mean, median (of all points, 0 to 1), checks}]
      checks      [{check, of, extra, hidden, passed, failed, open, not_run, held_back}]
  students        [{student, name, email, section, points (null while a mark is open), so_far, of, open, slip_days
                    (used), marks}]
      marks       [{exercise, standing, mark (null where there is none), so_far, of, outcome, attempt, attempts,
                    late_per_cent, slip_days, dropped, by_hand, journal_key, reason}]
                  standing is "final", "open", "refused", "not graded" or "not handed in"
                  by_hand is null or {points, by, at, why, computed (the mark, or why there is none)}
  misconceptions  [{exercise, wrong: [{file, sentence}], students}], with --misconceptions only; wrong is empty for
                  failures that resemble no wrong solution
  unmatched       [{source, why, students}]
  notices         [{title, advice}]: broken files of the journal, rules without effect, and the like
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gpututor.classroom.executors import start_judge
from gpututor.classroom.executors.local import LocalExecutor, RealDevices, default_judges, probe_devices
from gpututor.classroom.folder import ClassFolder, locked
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.exports import EXPORTS, ExportRequest
from gpututor.classroom.gradebook.json_form import as_json
from gpututor.classroom.gradebook.model import Gradebook, GradebookWarning
from gpututor.classroom.gradebook.terminal import lines_of
from gpututor.classroom.jobs import Options
from gpututor.classroom.misconceptions import Misconception, misconceptions, wrong_solutions
from gpututor.classroom.regrade import regrade_jobs
from gpututor.classroom.rules import rules_for
from gpututor.classroom.work_queue import WorkQueue
from gpututor.cli.classroom import add_class_arguments, add_pseudonyms_argument
from gpututor.cli.classroom.grade import ClassProgress, failure_lines
from gpututor.course.loader import load_course
from gpututor.errors import UsageError
from gpututor.files import sweep_parts
from gpututor.grading.client import IsolationName
from gpututor.grading.journal import has_entry
from gpututor.grading.report_text import count
from gpututor.hardware.inventory import load_inventory
from gpututor.processes import is_alive
from gpututor.text import escape_control_chars

MOST_NOTICES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_class_arguments(parser)
    for export in EXPORTS:
        parser.add_argument(f"--{export.option}", metavar=export.metavar, type=Path, help=export.help)
        if export.roster_help:
            parser.add_argument(f"--{export.option}-roster", metavar="FILE", type=Path, help=export.roster_help)
    columns = "id, name, email, section, extension (hours), pseudonym"
    roster_help = f"the class's roster, instead of OUT/roster.csv: {columns}"
    parser.add_argument("--roster", metavar="CSV", type=Path, help=roster_help)
    add_pseudonyms_argument(parser)
    parser.add_argument("--all", action="store_true", help="write all of these to OUT/report")
    misconceptions_help = "compare failures with the wrong solutions of the exercises, which are graded once"
    parser.add_argument("--misconceptions", action="store_true", help=misconceptions_help)
    parser.add_argument("--json", action="store_true", help="print one JSON object, described above")


def main(arguments: argparse.Namespace) -> int:
    folder = ClassFolder(arguments.out.absolute())
    _check_rosters(arguments)
    with_names = not arguments.pseudonyms
    rules = rules_for(folder, arguments.rules)
    gradebook = make_gradebook(folder, rules, arguments.course, arguments.roster, with_names=with_names)
    notices = list(gradebook.notices)
    if arguments.all:
        exports = (folder if with_names else folder.without_names()).exports
        _take_all(arguments, exports, gradebook)
    compared = _misconceptions(arguments, folder, gradebook, notices) if arguments.misconceptions else None
    request = ExportRequest(gradebook, folder, folder.exports, misconceptions=compared or ())
    written = list(_written(arguments, request, notices))
    screen = sys.stderr if arguments.json else sys.stdout
    if arguments.json:
        of_wrong = {"misconceptions": list(map(_as_json, compared))} if compared is not None else {}
        print(json.dumps({**as_json(gradebook), **of_wrong}, indent=2))
    elif not written:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 120
        print("\n".join(lines_of(gradebook, width)))
    if compared is not None and not arguments.json:
        print("\n".join(["", *misconception_lines(gradebook, compared)]))
    for path in written:
        print(f"Written: {escape_control_chars(str(path))}", file=screen)
    print_notices(notices)
    return 0


def _misconceptions(
    arguments: argparse.Namespace, folder: ClassFolder, gradebook: Gradebook, notices: list[GradebookWarning]
) -> list[Misconception]:
    """Compare failures with wrong solutions; grade those that are not in the journal."""
    options = Options.read(folder)
    course = load_course(arguments.course or Path(gradebook.class_.course))
    with locked(folder):
        wrong = wrong_solutions(gradebook, course, folder)
        keys = ((solution.submission, options.key_of(solution.submission)) for solution in wrong)
        if missing := [
            submission for submission, key in keys if key is not None and not has_entry(folder.journal, key)
        ]:
            work = WorkQueue(regrade_jobs(folder, missing, arguments.course))
            print(f"{count(len(work.jobs), 'wrong solution')} to grade, once.", file=sys.stderr)
            isolation: IsolationName = "process" if options.isolation == "process" else "bubblewrap"
            accelerators = load_inventory().accelerators if any(job.gpus for job in work.jobs) else ()
            devices = RealDevices(accelerators, partial(probe_devices, isolation))
            with ClassProgress(work, sys.stderr):
                LocalExecutor(default_judges(), devices, partial(start_judge, isolation), _say).run(work)
            notices += [GradebookWarning(line) for line in failure_lines(work.failures)]
    return misconceptions(gradebook, wrong, options, folder)


def _say(line: str) -> None:
    print(escape_control_chars(line), file=sys.stderr)


def misconception_lines(gradebook: Gradebook, compared: Sequence[Misconception]) -> Iterator[str]:
    """Yield a line for each exercise with failures, and one for each misconception: `12 of 60  Times the launch.`"""
    if not compared:
        yield "No failure to compare with wrong solutions."
    for exercise in gradebook.exercises:
        of_it = [misconception for misconception in compared if misconception.exercise == exercise.exercise]
        if of_it:
            yield escape_control_chars(exercise.numbered_title)
        for misconception in of_it:
            yield escape_control_chars(
                f"  {len(misconception.students)} of {exercise.handed_in}  {misconception.words}"
            )


def _as_json(misconception: Misconception) -> dict[str, Any]:
    wrong = [{"file": wrong.submission.source, "sentence": wrong.sentence} for wrong in misconception.wrong]
    return {"exercise": misconception.exercise, "wrong": wrong, "students": list(misconception.students)}


def _check_rosters(arguments: argparse.Namespace) -> None:
    for export in EXPORTS:
        if _roster(arguments, export.name) and not (getattr(arguments, export.name) or arguments.all):
            option = f"--{export.option}"
            raise UsageError(f"{option}-roster needs {option}.", f"{option} {export.metavar} says what to write.")


def _roster(arguments: argparse.Namespace, name: str) -> Path | None:
    path: Path | None = getattr(arguments, f"{name}_roster", None)
    return path


def _take_all(arguments: argparse.Namespace, folder: Path, gradebook: Gradebook) -> None:
    """Set each export's path in the folder, unless it has one.

    Platforms' exports need a class or roster of theirs. Those with ids stay out of a folder without names.
    """
    for export in EXPORTS:
        is_foreign = export.layout not in ("", gradebook.class_.layout) and _roster(arguments, export.name) is None
        is_foreign = is_foreign or (export.needs_names and not gradebook.has_names)
        if getattr(arguments, export.name) is None and not is_foreign:
            setattr(arguments, export.name, folder / export.place)


def _written(arguments: argparse.Namespace, request: ExportRequest, notices: list[GradebookWarning]) -> Iterator[Path]:
    for export in EXPORTS:
        path: Path | None = getattr(arguments, export.name)
        if path is None:
            continue
        request.folder.check_output(path)
        written = request.gradebook
        if export.needs_names and not written.has_names:
            rules = rules_for(request.folder, arguments.rules)
            written = make_gradebook(request.folder, rules, arguments.course, arguments.roster)
            title = f"{path} has the students' real ids despite --pseudonyms."
            notices.append(
                GradebookWarning(title, "The platform finds the students by these ids: keep the file to yourself.")
            )
        sweep_parts(path if export.file_name else path.parent, is_alive)
        roster = _roster(arguments, export.name)
        notices += export.write(replace(request, gradebook=written, path=path, roster=roster))
        yield path


def print_notices(notices: Sequence[GradebookWarning]) -> None:
    """Print notices for the instructor on stderr."""
    for notice in notices[:MOST_NOTICES]:
        print(f"gpututor: {escape_control_chars(notice.title)}", file=sys.stderr)
        if notice.advice:
            print(f"  {escape_control_chars(notice.advice)}", file=sys.stderr)
    if len(notices) > MOST_NOTICES:
        print(f"gpututor: {count(len(notices) - MOST_NOTICES, 'notice')} more.", file=sys.stderr)
