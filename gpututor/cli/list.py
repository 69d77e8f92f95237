"""List the exercises by lesson, each with your progress.

Problems in the course's files are listed on stderr at the end; the exit code is then 2.

--json prints one object:
  schema_version  1
  course          {id, title, folder}
  lessons         [{number, slug, title, summary, exercises}]
      exercises   [{label, key, slug, title, summary, minutes, devices, state, attempts, hints_used}]
                  state is "passed", "started" or "to do"
  problems        [{title, advice}] in the course's files
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from gpututor.cli.options import chosen_course, open_progress, print_error
from gpututor.course.model import Course
from gpututor.errors import CourseError, ProgressError
from gpututor.progress.overview import lesson_rows
from gpututor.progress.store import ExerciseProgress
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object, described above")


def main(arguments: argparse.Namespace) -> int:
    course = chosen_course(arguments)
    progress: Mapping[str, ExerciseProgress] = {}
    try:
        with open_progress(course) as store:
            progress = store.summary()
    except ProgressError as error:
        print_error(error)
    if arguments.json:
        print(json.dumps(_to_json(course, progress), indent=2))
    else:
        _print_table(course, progress)
        for problem in course.problems:
            print_error(problem)
    return CourseError.exit_code if course.problems else 0


def _print_table(course: Course, progress: Mapping[str, ExerciseProgress]) -> None:
    lessons = lesson_rows(course, progress)
    slugs = {exercise.key: exercise.slug for exercise in course.exercises}
    slug_width = max(map(len, slugs.values()), default=0)
    title_width = max((len(exercise.title) for exercise in course.exercises), default=0)
    for lesson in lessons:
        print(f"{lesson.number} {escape_control_chars(lesson.title)}")
        for row in lesson.exercises:
            mark = f"{row.state.glyph} {row.state}"
            attempts = "" if not row.attempts else f"  {row.attempts} attempt{'s' * (row.attempts != 1)}"
            words = f"{row.label:<5} {slugs[row.key]:<{slug_width}}  {escape_control_chars(row.title):<{title_width}}"
            print(f"  {mark:<9}  {words}  {row.minutes:>3} min{attempts}")
        print()
    print(f"{sum(lesson.passed for lesson in lessons)} of {len(slugs)} passed")


def _to_json(course: Course, progress: Mapping[str, ExerciseProgress]) -> dict[str, Any]:
    exercises = {exercise.key: exercise for exercise in course.exercises}
    lessons = [
        {
            "number": lesson.number,
            "slug": lesson.slug,
            "title": lesson.title,
            "summary": lesson.summary,
            "exercises": [
                {
                    "label": row.label,
                    "key": row.key,
                    "slug": exercises[row.key].slug,
                    "title": row.title,
                    "summary": row.summary,
                    "minutes": row.minutes,
                    "devices": exercises[row.key].devices,
                    "state": row.state,
                    "attempts": row.attempts,
                    "hints_used": progress.get(row.key, ExerciseProgress()).hints_used,
                }
                for row in lesson.exercises
            ],
        }
        for lesson in lesson_rows(course, progress)
    ]
    return {
        "schema_version": 1,
        "course": {"id": course.id, "title": course.title, "folder": str(course.folder)},
        "lessons": lessons,
        "problems": [{"title": problem.title, "advice": problem.advice} for problem in course.problems],
    }
