"""Create an exercise: a small working one with all of its files, for you to rewrite.

LESSON/EXERCISE are lower-case words joined by _, such as keep_the_data_moving/one_big_copy. EXERCISE is also the name
of the function. An existing lesson may be its number. New lessons and exercises get the next number; a new lesson gets
a text, and a new course its course.toml. Nothing is overwritten.
"""

from __future__ import annotations

import argparse

from gpututor import paths
from gpututor.authoring.scaffold import make_exercise
from gpututor.text import escape_control_chars

_WHAT_TO_WRITE = {
    "lesson.md": "the idea, with examples that run; `gpututor verify` checks its form",
    "exercise.toml": "title, summary, minutes, difficulty; [[scenario]] for machines other than one GPU",
    "task.md": "why, what, the signature, an example, what it is graded on: 80 to 200 words",
    "solution.py": "what an expert would write",
    "given.py": "draw(): random inputs, another shape in each case; build(): the device that they are on",
    "checks.py": "what the idea is graded on; docs/authors has a page for each check",
    "wrong": "the mistakes that learners make: three files or more, each named after its mistake",
    "starter.py": "what the learner gets, with one TODO",
    "hints.md": "three or more, from a nudge to nearly the answer",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("exercise", metavar="LESSON/EXERCISE", help="such as keep_the_data_moving/one_big_copy")


def main(arguments: argparse.Namespace) -> int:
    made = make_exercise(arguments.course or paths.builtin_course(), arguments.exercise)
    names = [path.relative_to(made.exercise).parts[0] for path in made.files if path.is_relative_to(made.exercise)]
    if made.lesson_is_new:
        print(f"made {escape_control_chars(str(made.lesson))}")
        print(f"  {'lesson.md':<14} {_WHAT_TO_WRITE['lesson.md']}")
    print(f"made {escape_control_chars(str(made.exercise))}")
    for name in dict.fromkeys(names):
        print(f"  {name:<14} {_WHAT_TO_WRITE[name]}")
    folder = escape_control_chars(str(made.exercise))
    print(f"Write them in this order. `gpututor verify {folder}` passes now: keep it passing.")
    return 0
