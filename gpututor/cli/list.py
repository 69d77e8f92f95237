"""List the exercises by lesson, each with your progress; ★ marks those of a learning path, such as the core path.

Problems in the course's files are listed on stderr at the end; the exit code is then 2.

--json prints one object:
  schema_version  1
  course          {id, title, folder}
  lessons         [{number, slug, title, summary, exercises}]
      exercises   [{label, key, slug, title, summary, minutes, difficulty, prerequisites, paths, devices,
                   state, attempts, hints_used}]
                  difficulty is "easy", "medium" or "hard"
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
from gpututor.progress.overview import FilteredRows, State, filter_rows, lesson_rows
from gpututor.progress.store import ExerciseProgress
from gpututor.text import escape_control_chars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--path", metavar="NAME", help="list only the exercises of a learning path: core")
    parser.add_argument("--json", action="store_true", help="print one JSON object, described above")


def main(arguments: argparse.Namespace) -> int:
    course = chosen_course(arguments)
    progress: Mapping[str, ExerciseProgress] = {}
    try:
        with open_progress(course) as store:
            progress = store.summary()
    except ProgressError as error:
        print_error(error)
    path = course.learning_path(arguments.path).title if arguments.path else None
    lessons = filter_rows(lesson_rows(course, progress), view=path)
    if arguments.json:
        print(json.dumps(_to_json(course, lessons), indent=2))
    else:
        _print_table(course, lessons)
        for problem in course.problems:
            print_error(problem)
    return CourseError.exit_code if course.problems else 0


def _print_table(course: Course, lessons: FilteredRows) -> None:
    slugs = {exercise.key: exercise.slug for exercise in course.exercises}
    slug_width = max(map(len, slugs.values()), default=0)
    label_width = max((len(exercise.label) for exercise in course.exercises), default=0)
    title_width = max((len(exercise.title) for exercise in course.exercises), default=0)
    for lesson, rows in lessons:
        print(f"{lesson.number} {escape_control_chars(lesson.title)}")
        for row in rows:
            mark = f"{row.state.glyph} {row.state}"
            attempts = "" if not row.attempts else f"  {row.attempts} attempt{'s' * (row.attempts != 1)}"
            name = f"{row.label:<{label_width}} {slugs[row.key]:<{slug_width}}"
            title = f"{escape_control_chars(row.title):<{title_width}}"
            star = (" ★" if row.paths else "  ") * bool(course.learning_paths)
            print(f"  {mark:<9}  {name}  {title}  {row.minutes:>3} min{star}{attempts}".rstrip())
        print()
    listed = [row for _, rows in lessons for row in rows]
    print(f"{sum(row.state is State.PASSED for row in listed)} of {len(listed)} passed")


def _to_json(course: Course, lessons: FilteredRows) -> dict[str, Any]:
    exercises = {exercise.key: exercise for exercise in course.exercises}
    listed = [
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
                    "difficulty": exercises[row.key].difficulty,
                    "prerequisites": exercises[row.key].prerequisites,
                    "paths": [path.name for path in course.paths_of(exercises[row.key])],
                    "devices": exercises[row.key].devices,
                    "state": row.state,
                    "attempts": row.attempts,
                    "hints_used": row.hints_used,
                }
                for row in rows
            ],
        }
        for lesson, rows in lessons
    ]
    return {
        "schema_version": 1,
        "course": {"id": course.id, "title": course.title, "folder": str(course.folder)},
        "lessons": listed,
        "problems": [{"title": problem.title, "advice": problem.advice} for problem in course.problems],
    }
