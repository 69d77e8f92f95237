"""The page about the app: keys and settings."""

from __future__ import annotations

import runpy

from gpututor.app.commands import COMMANDS, key_name
from gpututor.settings import SETTINGS
from tests.support import ROOT

PAGE = (ROOT / "docs" / "app.md").read_text(encoding="utf-8")


def test_the_page_lists_the_keys_of_all_commands() -> None:
    with_tables = runpy.run_path(str(ROOT / "docs" / "keys.py"))["with_tables"]
    assert with_tables(PAGE) == PAGE, "`python docs/keys.py` writes them"
    for command in COMMANDS:
        assert f"| {command.title} |" in PAGE
        for key in (*command.keys, *command.letters):
            assert f"`{key_name(key)}`" in PAGE


def test_the_page_lists_every_setting_with_its_choices() -> None:
    for setting in SETTINGS:
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{setting.key}` |"))
        for choice in setting.choices:
            word = str(choice).lower() if isinstance(choice, bool) else f'"{choice}"'
            assert f"`{word}`" in row
