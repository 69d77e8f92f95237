"""Links of all pages lead to files and headings, and the page about the architecture names each package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files_and_headings(page: Path) -> None:
    prose = _CODE.sub("", page.read_text(encoding="utf-8"))
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", prose):
        other = page.parent / target if target else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), f"{target}#{anchor}"


ARCHITECTURE = (ROOT / "docs/dev/architecture.md").read_text(encoding="utf-8")


def test_paths_of_the_architecture_exist_and_each_package_has_a_row() -> None:
    paths = set(re.findall(r"`((?:gpututor|tests|docs)/[\w/.-]+)`", ARCHITECTURE))
    assert len(paths) > 20
    assert not [path for path in sorted(paths) if not (ROOT / path).exists()]
    packages = {path.parent.name for path in (ROOT / "gpututor").glob("*/__init__.py")}
    assert packages == set(re.findall(r"^\| `gpututor/(\w+)` \|", ARCHITECTURE, re.MULTILINE))
