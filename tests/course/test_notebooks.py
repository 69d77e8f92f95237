"""The program in a notebook: which cells, which lines, and clear errors."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.course.loader import load_course
from gpututor.course.notebooks import NotebookError, line_words, notebook_of, program_of
from tests.support.tiny_course import write_course


def notebook(*cells: str | dict[str, Any]) -> bytes:
    """Make a notebook of code cells. A dict replaces the keys of its cell."""
    made: list[dict[str, Any]] = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        | ({"source": cell} if isinstance(cell, str) else cell)
        for cell in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def result_of(text: str, argument: int) -> Any:
    namespace: dict[str, Any] = {}
    exec(compile(ast.parse(text), "program", "exec"), namespace)
    return namespace["twice"](argument)


def test_the_function_and_what_it_needs_are_chosen_by_name() -> None:
    content = notebook(
        {"cell_type": "markdown", "source": ["# Homework"]},
        "import math\nimport antigravity_nowhere as unused\nfrom functools import reduce as fold",
        "FACTOR = 2\nOTHER = open('nowhere')\nnumber = 'no global of twice'",
        "def helper(value):\n    return fold(lambda a, b: a + b, [value] * FACTOR)",
        "helper.settings = {'scale': 1}\nhelper.settings['scale'] = math.prod([1])",
        "@staticmethod\ndef twice(number):\n    total = helper(number)\n    return total * helper.settings['scale']",
        "print(twice(3)); raise SystemExit",
    )
    program = program_of(content, "twice")
    assert result_of(program.text, 4) == 8
    assert program.left_out == ()
    assert "nowhere" not in program.text
    assert "SystemExit" not in program.text
    lines = program.text.split("\n")
    assert lines[0] == "# From a notebook: code cells 1, 2, 3, 4, 5."
    at = lines.index("    total = helper(number)") + 1
    assert line_words(lines, at) == f"{at} (line 3 of code cell 5)"
    assert line_words(["x = 1"], 1) == "1"


def test_tagged_cells_are_the_program_and_a_broken_cell_is_kept() -> None:
    tagged = {"source": ["twice = lambda number: number + more\n", "more = 4"], "metadata": {"tags": ["gpututor"]}}
    program = program_of(notebook("def twice(number):\n    return 0", tagged, "more = 5"), "twice")
    assert (
        program.text
        == "# From a notebook: code cell 2.\n# code cell 2\ntwice = lambda number: number + more\nmore = 4\n"
    )
    program = program_of(notebook("import math", "def twice(number)\n    return number"), "twice")
    assert program.text.endswith("# code cell 2\ndef twice(number)\n    return number\n")


def test_magics_and_shell_lines_are_left_out_but_not_from_strings() -> None:
    cell = (
        "%load_ext autoreload\nTEXT = '''\n%not a magic\n!nor this'''\nif True:\n    !pip install torch\n"
        "files = !ls\ntwice?\nREST = (7\n    % 4)\n\ndef twice(number):\n    return 2 * number, TEXT, REST"
    )
    timed = "%%time\nHERE = 1\ndef other(): return HERE"
    program = program_of(notebook("%%bash\nrm -rf /\n", timed, cell.replace("def", "STEP = other()\ndef")), "twice")
    assert result_of(program.text, 1) == (2, "\n%not a magic\n!nor this", 3)
    assert program.left_out == ()  # the function does not need these lines
    whole = program_of(notebook("%%bash\nrm -rf /\n", timed, cell), "")
    assert [line.partition(": ")[2] for line in whole.left_out] == [
        "%%bash, with its cell",
        "%%time",
        "%load_ext autoreload",
        "!pip install torch",
        "files = !ls",
        "twice?",
    ]
    assert "rm -rf" not in whole.text
    ast.parse(whole.text)
    assert whole.left_out[3] == "code cell 3, line 6: !pip install torch"


def test_lines_inside_brackets_and_continued_lines_are_no_magics() -> None:
    cell = (
        "%matplotlib inline\n!pip install \\\n    torch\ntext = '(' \\\n    %number  # (\n"
        "def twice(n):\n    bad = (\n        n\n        != n\n    )\n    %time bad)\n    return 2 * n + bad"
    )
    program = program_of(notebook("text = number = 1", cell.replace("'('", "7")), "")
    assert result_of(program.text, 2) == 4
    left = ["%matplotlib inline", "!pip install \\", "torch", "%time bad)"]
    assert [line.partition(": ")[2] for line in program.left_out] == left
    assert program_of(notebook(cell), "twice").left_out[-1].endswith("line 11: %time bad)")


def test_calls_that_change_what_the_function_uses_are_named() -> None:
    content = notebook(
        "L = []\nunused = []",
        "L.append(2)\nfor i in range(2):\n    L.append(i)\nunused.append(1)\nprint(L)",
        "def other():\n    L.clear()",
        "def twice(number):\n    return L[0] * number",
    )
    program = program_of(content, "twice")
    assert program.left_out == ("code cell 2, line 1: L.append(2)", "code cell 2, line 2: for i in range(2):")
    assert "append" not in program.text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"cells": [\n}', "line 2"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "no cells"),
        (b'{"worksheets": []}', "before version 4"),
        (b'{"cells": [3]}', "Cell 1"),
        (notebook({"source": 3}), "Cell 1"),
        (notebook("print(1)"), r"twice\(\)"),
        (notebook("x = 1\n" * 60_000), "larger than"),
        (notebook("x = 1\n" * 6_000), "statements"),
    ],
)
def test_an_invalid_notebook_is_an_error_with_a_reason(content: bytes, reason: str) -> None:
    with pytest.raises(NotebookError, match=reason):
        program_of(content, "twice")


@given(st.lists(st.text(alphabet="ab=%!?'\"#\\\n ()\r\ud800", max_size=30), min_size=1, max_size=3))
def test_any_cells_make_a_program_with_their_lines(cells: list[str]) -> None:
    program = program_of(notebook(*cells, "def twice(number): return number"), "twice")
    assert result_of(program.text, 3) == 3
    program.text.encode()


def test_the_students_notebook_is_a_submission_again(tmp_path: Path) -> None:
    exercise = load_course(write_course(tmp_path)).exercises[0]
    text = notebook_of(exercise.file("task.md"), exercise.file("starter.py"))
    program = program_of(text.encode(), exercise.entry)
    assert program.text.endswith(exercise.file("starter.py") + "\n")
    cells = json.loads(text)["cells"]
    assert cells[0]["source"] == exercise.file("task.md")
