"""The page about the app: keys and settings."""

from __future__ import annotations

import argparse
import json
import re
import runpy
from pathlib import Path

from gpututor.app.commands import COMMANDS, key_name
from gpututor.app.keys import key_faults
from gpututor.cli import grade
from gpututor.settings import SETTINGS, read_settings
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
    table = PAGE.partition("| key | values | |\n")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.MULTILINE))
    assert rows.keys() == {setting.key for setting in SETTINGS}
    for setting in SETTINGS:
        words = [str(choice).lower() if isinstance(choice, bool) else f'"{choice}"' for choice in setting.choices]
        listed = set(re.findall(r"`([^`]+)`", rows[setting.key].partition(", or ")[0])) - {'"cuda:N"'}
        assert not words or listed == set(words)


def test_the_examples_of_keys_are_valid_together(tmp_path: Path) -> None:
    about_keys = PAGE.partition("The table `[keys]`")[2].partition("\n\n")[0]
    examples = re.findall(r'`(\w+ = (?:"[^"]+"|\[[^]]+\]))`', about_keys)
    file = tmp_path / "settings.toml"
    file.write_text("\n".join(["[keys]", *examples]))
    reading = read_settings(file, key_faults=key_faults)
    assert reading.faults == ()
    assert len(reading.settings.keys) == len(examples) > 1


def test_the_task_for_vs_code_is_a_command_of_gpututor() -> None:
    [text] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    [task] = json.loads(text)["tasks"]
    verb, *words = task["args"]
    parser = argparse.ArgumentParser()
    grade.add_arguments(parser)
    arguments = parser.parse_args(words)
    assert (task["command"], verb) == ("gpututor", "grade")
    assert (arguments.exercise, arguments.annotate) == ("${file}", "gcc")
