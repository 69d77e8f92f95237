"""Every check has its name in `gpututor.checks`, a page of the docs, a row of their table, and tests."""

from __future__ import annotations

import inspect
import re

import pytest

from gpututor import checks
from gpututor.checks.model import Check
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
