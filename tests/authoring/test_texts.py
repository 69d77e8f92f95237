"""Rules for texts: width, links, mentions, headings, statements."""

from __future__ import annotations

from gpututor.authoring import lint

FENCED = "# Title\n\n```python\nprint(1)\n```\n\nprose\n"


def test_lines_of_fenced_blocks_are_code_fences_included() -> None:
    assert [line.number for line in lint.lines_of(FENCED) if line.is_code] == [3, 4, 5]


def test_code_may_have_74_columns_and_prose_80() -> None:
    text = f"{'x' * 80}\n{'x' * 81}\n```\n{'y' * 74}\n{'y' * 75}\n```\n{'z' * 80}\n"
    assert list(lint.too_wide(lint.lines_of(text))) == [(2, 81, 80), (5, 75, 74)]


def test_all_lines_of_a_file_of_python_are_code() -> None:
    source = f"{'y' * 74}\n```\n{'y' * 75}\n"
    assert list(lint.too_wide(lint.code_lines_of(source))) == [(3, 75, 74)]


def test_links_are_found_outside_of_code() -> None:
    text = "see [it](a.md) and [that](b.md#two)\n    x[0](c)\n`y[0](d)`\n```\n[e](e)\n```\n"
    assert list(lint.links(text)) == [(1, "a.md"), (1, "b.md#two")]


def test_exercises_and_lessons_that_are_named_by_number_are_found() -> None:
    text = "Exercise 2.1 and lesson 4.\nTorch 2.9, lessons 3 and so on.\n"
    assert list(lint.mentions(text)) == [(1, "exercise", "2.1"), (1, "lesson", "4"), (2, "lesson", "3")]


def test_an_anchor_is_a_heading_in_lower_case_with_hyphens() -> None:
    assert lint.anchors("# Big `Title`\n## See it, now!\ntext\n") == {"big-title", "see-it-now"}
    assert lint.headings("# No\n## The trap\n```\n## code\n```\n") == ("The trap",)


def test_statements_leave_out_headings_docstrings_and_the_script() -> None:
    source = (
        'import torch\n\n\ndef f(x):\n    """Words.\n\n    More."""\n    y = (\n        x\n    )\n    return y\n\n\n'
        'if __name__ == "__main__":\n    print(f(1))\n'
    )
    assert lint.statements_of(source) == ["y = (", "x", ")", "return y"]


def test_arguments_are_those_of_the_function_of_that_name() -> None:
    source = "def g(a):\n    pass\n\n\ndef f(a, /, b, *c, d=1, **e):\n    pass\n"
    assert lint.arguments_of(source, "f") == ("a", "b", "c", "d", "e")
    assert lint.arguments_of(source, "h") is None
