"""Other keys for commands, from the settings."""

from __future__ import annotations

import pytest

from gpututor.app.commands import COMMANDS
from gpututor.app.keys import BY_NAME, key_faults, with_keys
from gpututor.paths import settings_file
from gpututor.settings import SettingsFile
from tests.support.apps import AppEnv, main_screen, until, until_shown, write
from tests.support.screens import screen_text
from tests.support.tiny_course import RIGHT


async def test_a_command_has_the_keys_of_the_settings_everywhere(env: AppEnv) -> None:
    write('[keys]\nrun = ["B", "ctrl+b"]\nhint = "r"\n')
    async with env.start((100, 30)) as pilot:
        assert "B Run" in screen_text(pilot.app)
        assert "r Hint" in screen_text(pilot.app)
        await pilot.press("e")
        await until_shown(pilot, "^b Run")
        await pilot.press("ctrl+s", "f5")
        await pilot.press("escape", "r")
        await until_shown(pilot, "Hints")
        assert env.client.requests == []
        for number, keys in enumerate((["e", "ctrl+b"], ["escape", "B"]), 1):
            await pilot.press(*keys)
            await until(pilot, lambda number=number: len(env.client.requests) == number, "for the run")  # type: ignore[misc]
            await until(pilot, lambda: not main_screen(pilot).running, "for its end")
        await pilot.press("f1")
        await until_shown(pilot, "and all keys")
        await pilot.press("space")
        await until_shown(pilot, "B ^b Save your file and run the checks.")
        await pilot.press("escape", "ctrl+p", *"run")
        await until_shown(pilot, "B ^b")


async def test_tabs_show_the_keys_of_the_settings(env: AppEnv) -> None:
    write('[keys]\ntask = "B"\n')
    async with env.start((100, 30)) as pilot:
        await until_shown(pilot, "2 Lesson  B Task  4 Code")
        settings_file().unlink()
        await until_shown(pilot, "2 Lesson  3 Task  4 Code")


async def test_sentences_name_the_keys_of_the_settings(env: AppEnv) -> None:
    write('[keys]\nrun = "B"\ndevice = "U"\nhint = ["H", "ctrl+b"]\nsolution = "Z"\nnext = "N"\nattempts = "A"\n')
    async with env.start((100, 30)) as pilot:
        await pilot.press("X")
        await until_shown(pilot, "no trace to export yet: B runs the checks.")
        await pilot.press("H")
        await until_shown(pilot, "H (or ^b) shows the next one.")
        await pilot.press("Z")
        await until_shown(pilot, "first: H")
        env.file().write_text(RIGHT)
        await pilot.press("escape", "B")
        await until_shown(pilot, "Z compares with the solution; N opens 1.2 Twice 2.")
        await until_shown(pilot, "U shows the timeline.")
        await pilot.press("x")
        await until_shown(pilot, "ran: A,")


async def test_an_invalid_key_is_reported_and_changes_apply_at_once(env: AppEnv) -> None:
    write('[keys]\nsettings = "b"\nrum = "B"\n')
    async with env.start((100, 30)) as pilot:
        await until_shown(pilot, "A setting is invalid. Press b to see which.")
        assert "r Run" in screen_text(pilot.app)
        await pilot.press("b")
        await until_shown(
            pilot, "settings.toml, line 3: keys: rum = \"B\": there is no command 'rum'. Did you mean 'run'?"
        )
        await pilot.press("escape")
        write('[keys]\nrun = "B"\nhelp = "r"\n')
        await until_shown(pilot, "B Run")
        await until_shown(pilot, "r Help")
        await pilot.press("r")
        await until_shown(pilot, "and all keys")
        await pilot.press("escape")
        settings_file().unlink()
        await until_shown(pilot, "r Run")
        await pilot.press("B")
        assert env.client.requests == []
        await pilot.press("r")
        await until(pilot, lambda: len(env.client.requests) == 1, "for the run")


@pytest.mark.parametrize(
    ("lines", "faulty", "words"),
    [
        ('rum = "b"', 4, "Did you mean 'run'?"),
        ('run = "ctrl+"', 4, '"ctrl+" is not a valid key'),
        ('run = "up"', 4, '"up" is not a valid key'),
        ('run = ""', 4, '"" is not a valid key'),
        ("run = 5", 4, "a list of keys"),
        ("run = []", 4, "a list of keys"),
        ('run = "h"', 4, "h is a key of hint too"),
        ('hint = "b"\nrun = "b"', 5, "b is a key of hint too"),
        ('run = "ctrl+o"', 4, "^o is a key of jump too"),
        ('run = "alt+w"', 4, "Alt+w is a key of Find"),
        ('run = "ctrl+v"', 4, "^v is the editor's own key for “Paste”"),
        ('hint = ["H", "ctrl+x"]', 4, "^x is the editor's own key for “Cut”"),
        ('next = "alt+f"', 4, "Alt+f is the editor's own key for “Word right”"),
        ('search = "b"\nrun = "/"', 5, "/ already has a meaning in the pane Course"),
        ('run = "escape"', 4, "Esc has a fixed meaning"),
        ('run = ["b", "enter"]', 4, "Enter has a fixed meaning"),
        ('run = "ctrl+p"', 4, "^p opens the palette"),
        ('run = "j"', 4, "j already has a meaning in the pane"),
        ('device = "ctrl+"', 4, 'device = "ctrl+"'),
    ],
)
def test_a_faulty_key_is_reported_with_its_line_and_ignored(lines: str, faulty: int, words: str) -> None:
    path = write(f'device = "cpu"\n\n[keys]\n{lines}\n')
    settings = SettingsFile()
    settings.accept_keys(key_faults)
    (fault,) = settings.faults
    assert fault.startswith(f"{path}, line {faulty}: keys: ")
    assert words in fault
    assert len(settings.now.keys) == lines.count("\n"), "the other line applies"
    settings.choose("costs", False)
    assert settings.faults == (fault.replace(f"line {faulty}", f"line {faulty + 1}"),)
    assert settings.now.device == "cpu"


def test_keys_that_are_no_table_are_reported() -> None:
    path = write('keys = "ctrl+b"\n')
    assert SettingsFile().faults == (
        f'{path}, line 1: keys must be a table: a line [keys], then lines such as run = "alt+e".',
    )


def test_each_command_can_have_its_own_keys_and_stop_keeps_esc() -> None:
    own = tuple((name, (*command.letters, *command.keys)) for name, command in BY_NAME.items() if name != "stop")
    assert len(BY_NAME) == len(COMMANDS)
    assert key_faults(own) == {}
    assert with_keys(COMMANDS, own) == COMMANDS
    assert key_faults((("run", ("h", "f7")), ("hint", ("r", "f5")))) == {}
    assert key_faults((("run", ("ctrl+z",)), ("undo", ("alt+u",)))) == {}
    (stop,) = (command for command in with_keys(COMMANDS, (("stop", ("ctrl+b",)),)) if command.title == "Stop")
    assert stop.keys == ("escape", "ctrl+b")
