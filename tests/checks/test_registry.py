"""Each check is in the package, documented and tested; authors' functions may have arguments of any names."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import torch

from gpututor import checks
from gpututor.checks.authors import call_author
from gpututor.checks.model import Check, run_reference
from gpututor.errors import CourseError
from tests.support import ROOT

DOCS = ROOT / "docs" / "authors"
MAKERS = {
    name
    for name in checks.__all__
    if inspect.isfunction(maker := getattr(checks, name))
    and inspect.signature(maker, eval_str=True).return_annotation is Check
}


def test_every_module_that_makes_checks_is_in_the_package() -> None:
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "gpututor" / "checks").glob("*.py")}
    makers = {
        name
        for text in sources.values()
        for name in re.findall(r"^def ([a-z]\w*)\([^()]*(?:\([^()]*\)[^()]*)*\) -> Check:", text, re.M)
    }
    assert makers == MAKERS, "gpututor/checks/__init__.py imports each check, and `__all__` names it"


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_every_check_is_documented(name: str) -> None:
    headings = {
        path.stem: path.read_text(encoding="utf-8").partition("\n")[0] for path in (DOCS / "checks").glob("*.md")
    }
    pages = [stem for stem, heading in headings.items() if re.search(rf"\b{name}\b", heading)]
    assert len(pages) == 1, f"docs/authors/checks has a page with `# {name}`"
    guide = (DOCS / "README.md").read_text(encoding="utf-8")
    assert f"(checks/{pages[0]}.md)" in guide, "docs/authors/README.md has a row for the page"


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_every_check_is_tested(name: str) -> None:
    imports = re.compile(rf"^from gpututor\.checks import [^#]*?\b{name}\b", re.M)
    tests = (ROOT / "tests").rglob("test_*.py")
    assert any(imports.search(path.read_text(encoding="utf-8")) for path in tests), f"tests/checks/test_{name}.py"


NAMES = ("wanted", "function", "values", "named", "reference", "drawn", "self", "in_float64")


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_may_have_any_name(name: str) -> None:
    drawn = {name: torch.ones(2)}
    assert run_reference(lambda **all: all[name], drawn, in_float64=True).dtype is torch.float64


def test_a_function_with_a_wrong_signature_is_reported_with_its_line() -> None:
    def amount(drawn: Any) -> int:
        return 1

    with pytest.raises(CourseError, match=r"amount\(drawn.* \(drawn, machine\)") as broke:
        call_author(amount, {}, None)  # type: ignore[arg-type]
    assert f":{amount.__code__.co_firstlineno}: " in broke.value.title
