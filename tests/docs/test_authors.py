"""The pages of the author's guide: each example that defines checks runs, and makes checks with names of their own."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import gpututor.checks
from gpututor.checks import Check
from tests.support import ROOT

GUIDE = ROOT / "docs" / "authors"
CHECK_PAGES = sorted((GUIDE / "checks").glob("*.md"))
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LONGEST = 60
"""Lines of a page on a check."""


def examples(page: Path) -> list[str]:
    """The blocks of a page that define `checks`."""
    blocks: list[str] = EXAMPLE.findall(page.read_text(encoding="utf-8"))
    return [block for block in blocks if re.search(r"^checks = \[", block, re.MULTILINE)]


@pytest.mark.parametrize("page", sorted(GUIDE.rglob("*.md")), ids=lambda page: page.stem)
def test_examples_of_checks_run(page: Path) -> None:
    for block in examples(page):
        namespace: dict[str, object] = {"__name__": "checks"}
        exec(compile(block, str(page), "exec"), namespace)
        checks = namespace["checks"]
        assert isinstance(checks, list)
        assert checks
        assert all(isinstance(check, Check) for check in checks)
        twice = [name for name, times in Counter(check.name for check in checks).items() if times > 1]
        assert twice == []


@pytest.mark.parametrize("page", CHECK_PAGES, ids=lambda page: page.stem)
def test_a_page_on_a_check_has_an_example_and_is_short(page: Path) -> None:
    assert examples(page)
    assert len(page.read_text(encoding="utf-8").splitlines()) <= LONGEST


def test_each_check_is_in_an_example() -> None:
    shown = "\n".join(block for page in CHECK_PAGES for block in examples(page))
    words = [
        name
        for name in gpututor.checks.__all__
        if getattr(getattr(gpututor.checks, name), "__annotations__", {}).get("return") == "Check"
    ]
    assert len(words) > 15
    missing = [word for word in words if not re.search(rf"\b{word}\(", shown)]
    assert missing == [], "a page in docs/authors/checks shows a Python example of each check"
