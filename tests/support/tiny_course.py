"""A tiny course in its own folder, for tests that need any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

RIGHT = "def twice(number):\n    return 2 * number\n"
WRONG = "def twice(number):\n    return number\n"

COURSE = 'id = "tiny"\ntitle = "A tiny course"\n'
LESSON = 'title = "Small things"\nsummary = "What is small."\n'
EXERCISE = """\
title = "Twice {number}"
summary = "Double a number."
minutes = 5
kind = "function"
entry = "twice"
devices = ["virtual", "cuda", "cpu"]
"""
FILES = {
    "task.md": "# Twice\n\nWrite `twice(number)`.\n",
    "starter.py": "def twice(number):\n    raise NotImplementedError  # TODO\n",
    "given.py": "def draw(seed, case):\n    return {'number': seed + case}\n",
    "checks.py": (
        "from gpututor.checks import value\n\n\n"
        "def expected(drawn, machine):\n    return 2 * drawn['number']\n\n\nchecks = [value(expected)]\n"
    ),
    "solution.py": "def twice(number):\n    return 2 * number\n",
    "hints.md": "## Look\nLook at the name.\n\n## Think\nAdd it to itself.\n\n## Nearly\n`number + number`\n",
    "wrong/nothing.py": "# fails: value\n# It returns nothing.\ndef twice(number):\n    return None\n",
    "wrong/once.py": "# fails: value\n# It doubles nothing.\ndef twice(number):\n    return number\n",
    "wrong/squared.py": "# fails: value\n# It squares.\ndef twice(number):\n    return number * number\n",
}

WITHOUT_A_PLACE = "def twice(number):\n    return number\n"
"""A starter without a place to write, so that the app opens it at its top."""


def write_course(folder: Path, exercises: int = 2, lessons: int = 1) -> Path:
    """Write a valid course of `lessons` lessons with `exercises` exercises each into `folder`; returns `folder`.

    Lesson n is `0n_lesson_n`; its exercises are `01_twice_n_1`, `02_twice_n_2` and so on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "course.toml").write_text(COURSE)
    for number in range(1, lessons + 1):
        lesson = folder / f"{number:02d}_lesson_{number}"
        lesson.mkdir()
        (lesson / "lesson.toml").write_text(LESSON)
        (lesson / "lesson.md").write_text(f"# Lesson {number}\n\nWords.\n")
        for position in range(1, exercises + 1):
            write_exercise(lesson, position, f"twice_{number}_{position}")
    return folder


def write_exercise(lesson: Path, number: int, slug: str) -> Path:
    """Write a valid exercise into the folder `lesson`; returns its folder."""
    exercise = lesson / f"{number:02d}_{slug}"
    (exercise / "wrong").mkdir(parents=True)
    (exercise / "exercise.toml").write_text(EXERCISE.format(number=number))
    write_files(exercise, FILES)
    return exercise


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text)


def append(path: Path, text: str) -> None:
    """Write `text` at the end of a file."""
    with path.open("a") as file:
        file.write(text)
