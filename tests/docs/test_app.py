"""The page about the app says what the app does."""

from __future__ import annotations

import re
import runpy

from gpututor.app.commands import COMMANDS, key_name
from gpututor.settings import SETTINGS
from tests.support import ROOT

PAGE = (ROOT / "docs" / "app.md").read_text(encoding="utf-8")


def test_its_keys_are_those_of_the_table_of_commands() -> None:
    with_tables = runpy.run_path(str(ROOT / "docs" / "keys.py"))["with_tables"]
    assert with_tables(PAGE) == PAGE, "`python docs/keys.py` writes them"
    for command in COMMANDS:
        assert f"| {command.title} |" in PAGE
        for key in (*command.keys, *command.letters):
            assert f"`{key_name(key)}`" in PAGE


def test_it_names_every_setting_with_every_choice() -> None:
    for setting in SETTINGS:
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{setting.key}` |"))
        for choice in setting.choices:
            word = str(choice).lower() if isinstance(choice, bool) else f'"{choice}"'
            assert f"`{word}`" in row


def test_what_it_links_to_is_there_and_the_readme_links_to_it() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
    assert "(docs/app.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
