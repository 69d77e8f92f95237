"""The instructor's guide: commands, options, rules and links are valid."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
from pathlib import Path

import pytest

from gpututor.classroom.rules import read_rules
from gpututor.cli.main import VERBS, add_common_options, main
from gpututor.course.loader import load_course
from gpututor.paths import builtin_course
from tests.support import ROOT

GUIDE = ROOT / "docs" / "classroom"
PAGES = sorted(GUIDE.glob("*.md"))
COMMAND = re.compile(r"^ +\$ (gpututor .+?)(?: {3,}.*)?$", re.MULTILINE)
"""Command lines; a description may follow a command."""
OPTION = re.compile(r"`(--[a-z-]+)\b[^`]*`")
RULES = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OF_OTHERS = {"--num-cpus"}
"""Options of Ray."""
VERBS_OF_IT = ("pack", "pack-course", "grade", "init", "doctor")


def commands() -> list[tuple[str, str]]:
    return [(page.name, line) for page in PAGES for line in COMMAND.findall(page.read_text(encoding="utf-8"))]


@pytest.fixture
def does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse commands without running them."""
    modules = [verb.module for verb in VERBS if verb.name in VERBS_OF_IT or verb.name.startswith("classroom ")]
    for name in modules:
        monkeypatch.setattr(importlib.import_module(name), "main", lambda arguments: 0)


@pytest.mark.usefixtures("does_nothing")
def test_every_command_of_the_guide_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    refused = []
    for page, line in commands():
        try:
            assert main(shlex.split(line)[1:]) == 0
        except SystemExit:
            refused.append(f"{page}: {line}\n{capsys.readouterr().err}")
    assert refused == []


def test_the_guide_shows_every_verb_of_a_classroom() -> None:
    shown = {" ".join(line.split()[1:3]) for _, line in commands() if line.split()[1] == "classroom"}
    assert shown == {verb.name for verb in VERBS if verb.name.startswith("classroom ")}


def test_every_option_of_the_guide_exists() -> None:
    known = {"--help", *OF_OTHERS}
    modules = [verb.module for verb in VERBS if verb.name in VERBS_OF_IT or verb.name.startswith("classroom ")]
    for name in modules:
        parser = argparse.ArgumentParser()
        add_common_options(parser, default=None)
        importlib.import_module(name).add_arguments(parser)
        known |= set(parser._option_string_actions)
    named = {(page.name, option) for page in PAGES for option in OPTION.findall(page.read_text(encoding="utf-8"))}
    assert [(page, option) for page, option in sorted(named) if option not in known] == []


def test_the_rules_of_the_guide_are_valid(tmp_path: Path) -> None:
    (text,) = RULES.findall((GUIDE / "README.md").read_text(encoding="utf-8"))
    (tmp_path / "classroom.toml").write_text(text)
    known = [exercise.key for exercise in load_course(builtin_course()).exercises]
    rules = read_rules(tmp_path / "classroom.toml", known)
    assert rules.text == text


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_files_and_to_headings() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
            other = page.parent / target if target else page
            assert other.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(other), f"{page.name} links to {target}#{anchor}"
