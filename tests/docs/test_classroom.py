"""The instructor's guide: its commands and options are valid."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex

import pytest

from gpututor.cli.main import VERBS, add_common_options, main
from tests.support import ROOT

GUIDE = ROOT / "docs" / "classroom"
PAGES = sorted(GUIDE.glob("*.md"))
COMMAND = re.compile(r"^ +\$ (gpututor .+?)(?: {3,}.*)?$", re.MULTILINE)
"""Command lines; a description may follow a command."""
OPTION = re.compile(r"`(--[a-z-]+)\b[^`]*`")
OF_OTHERS = {"--num-cpus"}
"""Options of Ray."""
VERBS_OF_IT = ("pack", "pack-course", "grade", "init", "doctor")


def modules() -> list[str]:
    """Return the modules of the verbs in the guide."""
    return [verb.module for verb in VERBS if verb.name in VERBS_OF_IT or verb.name.startswith("classroom ")]


def commands() -> list[tuple[str, str]]:
    return [(page.name, line) for page in PAGES for line in COMMAND.findall(page.read_text(encoding="utf-8"))]


@pytest.fixture
def does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse commands without running them."""
    for name in modules():
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


def test_the_guide_shows_every_verb_and_only_options_that_exist() -> None:
    shown = {" ".join(line.split()[1:3]) for _, line in commands() if line.split()[1] == "classroom"}
    assert shown == {verb.name for verb in VERBS if verb.name.startswith("classroom ")}
    known = {"--help", *OF_OTHERS}
    for name in modules():
        parser = argparse.ArgumentParser()
        add_common_options(parser, default=None)
        importlib.import_module(name).add_arguments(parser)
        known |= set(parser._option_string_actions)
    named = {(page.name, option) for page in PAGES for option in OPTION.findall(page.read_text(encoding="utf-8"))}
    assert [(page, option) for page, option in sorted(named) if option not in known] == []
