"""The page about the architecture names packages and files that exist, and leaves no package out."""

from __future__ import annotations

import re

from tests.support import ROOT

PAGE = (ROOT / "docs/dev/architecture.md").read_text(encoding="utf-8")


def test_each_path_on_the_page_exists() -> None:
    paths = set(re.findall(r"`((?:gpututor|tests|docs)/[\w/.-]+)`", PAGE))
    assert len(paths) > 20
    assert not [path for path in sorted(paths) if not (ROOT / path).exists()]


def test_each_package_has_a_row() -> None:
    packages = {path.parent.name for path in (ROOT / "gpututor").glob("*/__init__.py")}
    assert packages == set(re.findall(r"^\| `gpututor/(\w+)` \|", PAGE, re.MULTILINE))
