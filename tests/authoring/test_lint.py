"""The form of exercises and lessons: a skeleton is valid, and each mistake is reported with its file and line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpututor.authoring import lint
from gpututor.authoring.lint import exercise_problems, lesson_problems
from gpututor.course.loader import load_course
from tests.support.skeletons import Change, skeleton
from tests.support.timeouts import no_waiting


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return tmp_path / "course"


def titles_of(course: Path, *, notes: bool = False) -> list[str]:
    """Return the problems of the course's only exercise, with paths relative to its folder."""
    loaded = load_course(course)
    assert loaded.problems == ()
    (exercise,) = loaded.exercises
    faults = list(exercise_problems(exercise, loaded))
    assert all(fault.advice for fault in faults)
    return [fault.title(exercise.folder) for fault in faults if fault.is_note is notes]


def lesson_titles(course: Path, change: Change) -> list[str]:
    skeleton(course, "product")
    loaded = load_course(course)
    change.make(loaded.lessons[0].folder)
    faults = list(lesson_problems(loaded.lessons[0], loaded))
    assert all(fault.advice for fault in faults)
    return [fault.title(loaded.lessons[0].folder) for fault in faults if not fault.is_note]


def test_a_skeleton_has_only_notes_that_it_is_unwritten(course: Path) -> None:
    skeleton(course, "product")
    assert titles_of(course) == []
    assert [title.partition(": ")[0] for title in titles_of(course, notes=True)] == ["task.md", "hints.md"]


WIDE = "x" * 81


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (Change("exercise.toml", "cases = 3", "cases = 2"), "exercise.toml: cases", "got 2"),
        (Change("task.md", "", 60 * "more\n"), "task.md", "words"),
        (Change("task.md", "product(", "produce("), "task.md", "`product(…)`"),
        (Change("task.md", "**Graded on**", "Graded on"), "task.md", "graded"),
        (Change("task.md", "# Product", "Product"), "task.md:1", "heading"),
        (Change("task.md", "", f"{WIDE}\n"), "task.md:21", "81 columns"),
        (Change("hints.md", "", f"```\n{WIDE}\n```\n"), "hints.md:18", "81 columns"),
        (Change("hints.md", "", "[more](more.md)\n"), "hints.md:17", "more.md"),
        (Change("hints.md", "", "[more](task.md#what)\n"), "hints.md:17", "#what"),
        (Change("hints.md", "", "See exercise 1.2.\n"), "hints.md:17", "exercise 1.2"),
        (Change("task.md", "", "See lesson 7.\n"), "task.md:21", "lesson 7"),
        (Change("hints.md", "", "    return batch.to(device) @ weights\n"), "hints.md", "the whole solution"),
        (Change("starter.py", "# TODO", "# todo"), "starter.py", "found 0"),
        (Change("starter.py", "", "# TODO: more\n"), "starter.py", "found 2"),
        (Change("starter.py", "def product", "def produce"), "starter.py", "product()"),
        (Change("starter.py", "weights: torch", "w: torch"), "starter.py", "(batch, w, device)"),
        (Change("starter.py", 'if __name__ == "__main__":', "if True:"), "starter.py", "`if __name__"),
        (Change("starter.py", "", f"# {WIDE}\n"), "starter.py:20", "83 columns"),
        (Change("solution.py", "", f"# {WIDE}\n"), "solution.py:19", "83 columns"),
        (Change("starter.py", "    raise", "  raise"), "starter.py:11", "not valid Python: unindent"),
        (Change("solution.py", "    return", "    # TODO\n    return"), "solution.py:10", "`# TODO`"),
        (
            Change("right/other.py", "", "def product(batch, weights, device):\n    return batch\n"),
            "right/other.py:1",
            "a sentence",
        ),
        (Change("wrong/transposed.py", "# It returns", "# Returns\n#"), "wrong/transposed.py:2", "a sentence"),
        (
            Change("wrong/transposed.py", "fails: structure", "fails: the structure"),
            "wrong/transposed.py:1",
            "`# fails: `",
        ),
    ],
)
def test_a_mistake_is_reported_with_file_and_line(course: Path, change: Change, place: str, words: str) -> None:
    skeleton(course, "product", change)
    (title,) = titles_of(course)
    assert title.startswith(f"{place}: ")
    assert words in title


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (Change("lesson.md", "", 700 * "more\n"), "lesson.md", "words"),
        (Change("lesson.md", "## Read on", "## More"), "lesson.md", "`## Read on`"),
        (Change("lesson.md", "in the end?", "in the end."), "lesson.md", "question"),
        (
            Change(
                "lesson.md",
                "    host      | launch | launch |    wait     |\n    device             |  kernel 1  | kernel 2 |\n"
                "              +--------+--------+----+---------+--> time\n",
                "",
            ),
            "lesson.md",
            "diagram",
        ),
        (Change("lesson.md", "```python\ntry:", "```\ntry:"), "lesson.md", "found 2"),
        (Change("lesson.md", "## Remember", f"{WIDE}\n\n## Remember"), "lesson.md:92", "81 columns"),
    ],
)
def test_a_mistake_in_a_lesson_is_reported(course: Path, change: Change, place: str, words: str) -> None:
    (title,) = lesson_titles(course, change)
    assert title.startswith(f"{place}: ")
    assert words in title


@pytest.mark.parametrize("special", [os.mkfifo, lambda path: path.symlink_to(path.name), lambda path: path.mkdir()])
def test_a_wrong_solution_that_cannot_be_read_is_reported(course: Path, special: Callable[[Path], None]) -> None:
    folder = skeleton(course, "product")
    (wrong := folder / "wrong" / "transposed.py").unlink()
    special(wrong)
    with no_waiting():
        (title,) = titles_of(course)
    assert str(wrong) in title
    (folder / "wrong").rename(folder / "wrongs")
    assert [title.partition(": ")[0] for title in titles_of(course)] == ["wrong"]


def test_valid_links_and_mentions_are_accepted(course: Path) -> None:
    links = "[the lesson](../lesson.md#the-trap), [here](#a-nudge), \n[docs](https://pytorch.org/docs)\nExercise 1.1.\n"
    skeleton(course, "product", Change("hints.md", "", links))
    assert titles_of(course) == []


FENCED = "# Title\n\n```python\nprint(1)\n```\n\nprose\n"


def test_texts_have_code_widths_links_mentions_and_anchors() -> None:
    assert [line.number for line in lint.lines_of(FENCED) if line.is_code] == [3, 4, 5]
    text = f"{'x' * 80}\n{'x' * 81}\n```\n{'y' * 74}\n{'y' * 75}\n```\n{'z' * 80}\n"
    source = f"{'y' * 74}\n```\n{'y' * 75}\n"
    for lines, numbers in ((lint.lines_of(text), [2, 5]), (lint.code_lines_of(source), [3])):
        assert [fault.line for fault in lint.width_problems(Path("task.md"), lines)] == numbers
    text = "see [it](a.md) and [that](b.md#two)\n    x[0](c)\n`y[0](d)`\n```\n[e](e)\n```\n"
    assert list(lint.links(text)) == [(1, "a.md"), (1, "b.md#two")]
    text = "Exercise 2.1 and lesson 4.\nTorch 2.9, lessons 3 and so on.\n"
    assert list(lint.mentions(text)) == [(1, "exercise", "2.1"), (1, "lesson", "4"), (2, "lesson", "3")]
    assert lint.anchors("# Big `Title`\n## See it, now!\ntext\n") == {"big-title", "see-it-now"}
    assert not lint.has_drawing("a -> b\n\n    a  b\n\n| a | b |\n```python\nx | y | z  # -> 2 ms\n```\n")
    assert lint.has_drawing("    a -> b\n")
    assert lint.has_drawing("```python\n```\n```\n|a|\n```\n")
    assert lint.has_drawing("    kernels  12  4.5 µs\n")
    assert lint.headings("# No\n## The trap\n```\n## code\n```\n") == ("The trap",)


def test_statements_exclude_signatures_docstrings_and_the_script() -> None:
    source = (
        'import torch\n\n\ndef f(x):\n    """Words.\n\n    More."""\n    y = (\n        x\n    )\n    return y\n\n\n'
        'if __name__ == "__main__":\n    print(f(1))\n'
    )
    assert lint.statements_of(source) == ["y = (", "x", ")", "return y"]
    source = "def g(a):\n    pass\n\n\ndef f(a, /, b, *c, d=1, **e):\n    pass\n"
    assert lint.arguments_of(source, "f") == ("a", "b", "c", "d", "e")
    assert lint.arguments_of(source, "h") is None
