"""The command that opens a file in the learner's own editor, for every editor and every place."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.app.main.external_editor import EditorCommand, Place, editor_command
from gpututor.errors import UsageError

FILE = Path("/home/ada/my files/01_born.py")


def command(
    environment: dict[str, str], *, setting: str = "", missing: tuple[str, ...] = (), columns: int = 140
) -> EditorCommand:
    """On a machine that has every program, in /bin, but the missing ones."""

    def which(name: str) -> str | None:
        if name in missing:
            return None
        return name if "/" in name else f"/bin/{name}"

    return editor_command(FILE, 7, environment=environment, setting=setting, which=which, columns=columns)


IN_THE_TERMINAL = {
    "vi": ["/bin/vi", "+7", f"{FILE}"],
    "vim": ["/bin/vim", "+7", f"{FILE}"],
    "nvim": ["/bin/nvim", "+7", f"{FILE}"],
    "nano": ["/bin/nano", "+7", f"{FILE}"],
    "emacs": ["/bin/emacs", "+7", f"{FILE}"],
    "emacs -nw": ["/bin/emacs", "-nw", "+7", f"{FILE}"],
    "emacsclient -t": ["/bin/emacsclient", "-t", "+7", f"{FILE}"],
    "micro": ["/bin/micro", "+7", f"{FILE}"],
    "hx": ["/bin/hx", "+7", f"{FILE}"],
    "kak": ["/bin/kak", "+7", f"{FILE}"],
    "ed": ["/bin/ed", f"{FILE}"],
    "/opt/bin/nvim": ["/opt/bin/nvim", "+7", f"{FILE}"],
    "vim -c 'set number'": ["/bin/vim", "-c", "set number", "+7", f"{FILE}"],
    "'/opt/my editors/nano'": ["/opt/my editors/nano", "+7", f"{FILE}"],
}
OUTSIDE = {
    "code": ["/bin/code", "--goto", f"{FILE}:7"],
    "code --wait": ["/bin/code", "--goto", f"{FILE}:7"],
    "code -n -w": ["/bin/code", "-n", "--goto", f"{FILE}:7"],
    "codium": ["/bin/codium", "--goto", f"{FILE}:7"],
    "cursor": ["/bin/cursor", "--goto", f"{FILE}:7"],
    "subl -w": ["/bin/subl", f"{FILE}:7"],
    "zed --wait": ["/bin/zed", f"{FILE}:7"],
    "gvim": ["/bin/gvim", "+7", f"{FILE}"],
    "vim -g": ["/bin/vim", "-g", "+7", f"{FILE}"],
    "kate": ["/bin/kate", "--line", "7", f"{FILE}"],
    "emacsclient": ["/bin/emacsclient", "+7", f"{FILE}"],
    "emacsclient -c": ["/bin/emacsclient", "-c", "+7", f"{FILE}"],
}


@pytest.mark.parametrize("variable", ["VISUAL", "EDITOR"])
@pytest.mark.parametrize("editor", IN_THE_TERMINAL)
def test_an_editor_for_terminals_takes_the_line_and_the_terminal(variable: str, editor: str) -> None:
    found = command({variable: editor})
    assert list(found.words) == IN_THE_TERMINAL[editor]
    assert (found.place, found.origin) == (Place.TERMINAL, f"${variable}")


@pytest.mark.parametrize("environment", [{}, {"TMUX": "/tmp/tmux-1/default,1,0"}, {"TERM_PROGRAM": "vscode"}], ids=str)
@pytest.mark.parametrize("editor", OUTSIDE)
def test_an_editor_with_a_window_opens_outside_wherever_the_app_is(environment: dict[str, str], editor: str) -> None:
    found = command({"EDITOR": editor, **environment})
    assert list(found.words) == OUTSIDE[editor]
    assert (found.place, found.origin) == (Place.OUTSIDE, "$EDITOR")


@pytest.mark.parametrize(
    ("visual", "editor", "setting", "program", "origin"),
    [
        ("nano", "vi", "hx", "hx", "the settings"),
        ("nano", "vi", "", "nano", "$VISUAL"),
        ("", "vi", "", "vi", "$EDITOR"),
        (" ", "vi", " ", "vi", "$EDITOR"),
    ],
)
def test_the_settings_come_before_what_the_shell_names(
    visual: str, editor: str, setting: str, program: str, origin: str
) -> None:
    found = command({"VISUAL": visual, "EDITOR": editor}, setting=setting)
    assert (found.program, found.origin) == (program, origin)


def test_in_tmux_the_editor_stands_beside_the_app() -> None:
    found = command({"EDITOR": "vim", "TMUX": "/tmp/tmux-1/default,1,0", "TMUX_PANE": "%3"})
    assert found.place is Place.SPLIT
    assert list(found.words[:5]) == ["/bin/tmux", "split-window", "-h", "-c", "/home/ada/my files"]
    assert list(found.words[5:]) == IN_THE_TERMINAL["vim"]


def test_in_a_narrow_tmux_the_editor_has_a_window_of_its_own() -> None:
    found = command({"EDITOR": "vim", "TMUX": "/tmp/tmux-1/default,1,0", "TMUX_PANE": "%3"}, columns=80)
    assert found.place is Place.TMUX_WINDOW
    assert list(found.words[:3]) == ["/bin/tmux", "new-window", "-a"]
    assert list(found.words[3:7]) == ["-n", "leave vim to return", "-c", "/home/ada/my files"], (
        "tmux shows the name there"
    )
    assert list(found.words[7:]) == IN_THE_TERMINAL["vim"]


@pytest.mark.parametrize(
    ("environment", "missing"), [({"TMUX": ""}, ()), ({"TMUX": "/tmp/tmux-1/default,1,0"}, ("tmux",))], ids=str
)
def test_without_a_tmux_to_ask_the_app_steps_aside(environment: dict[str, str], missing: tuple[str, ...]) -> None:
    found = command({"EDITOR": "vim", **environment}, missing=missing)
    assert (found.place, list(found.words)) == (Place.TERMINAL, IN_THE_TERMINAL["vim"])


@pytest.mark.parametrize(
    ("editor", "missing", "program"),
    [
        ("", (), "code"),
        ("vim", (), "code"),
        ("", ("code", "code-insiders"), "codium"),
        ("vim", ("code", "code-insiders", "codium"), "cursor"),
    ],
)
def test_in_the_terminal_of_vs_code_the_file_opens_in_vs_code(
    editor: str, missing: tuple[str, ...], program: str
) -> None:
    found = command({"EDITOR": editor, "TERM_PROGRAM": "vscode"}, missing=missing)
    assert list(found.words) == [f"/bin/{program}", "--goto", f"{FILE}:7"]
    assert (found.place, found.origin) == (Place.OUTSIDE, "VS Code's terminal")


def test_in_vs_codes_terminal_the_settings_choose_the_editor() -> None:
    found = command({"EDITOR": "nano", "TERM_PROGRAM": "vscode"}, setting="vim")
    assert (found.place, list(found.words)) == (Place.TERMINAL, IN_THE_TERMINAL["vim"])


def test_in_vs_codes_terminal_without_its_command_the_named_editor_opens() -> None:
    none = ("code", "code-insiders", "codium", "cursor", "windsurf")
    found = command({"EDITOR": "vim", "TERM_PROGRAM": "vscode"}, missing=none)
    assert (found.place, list(found.words)) == (Place.TERMINAL, IN_THE_TERMINAL["vim"])


def refusal(environment: dict[str, str], **others: object) -> UsageError:
    with pytest.raises(UsageError) as raised:
        command(environment, **others)  # type: ignore[arg-type]
    return raised.value


def test_without_any_editor_it_is_said_how_to_name_one() -> None:
    error = refusal({})
    assert error.title == "No editor is chosen yet."
    assert "settings" in error.advice
    assert "export EDITOR=" in error.advice


@pytest.mark.parametrize(
    ("environment", "setting", "origin"),
    [({"VISUAL": "subl"}, "", "$VISUAL"), ({"EDITOR": "subl"}, "", "$EDITOR"), ({}, "subl", "the settings")],
)
def test_an_editor_that_is_not_there_is_told_with_what_named_it(
    environment: dict[str, str], setting: str, origin: str
) -> None:
    error = refusal(environment, setting=setting, missing=("subl",))
    assert error.title == f"There is no program called subl, which {origin} names as your editor."
    assert origin in error.advice


def test_a_quote_without_an_end_is_told() -> None:
    error = refusal({"VISUAL": "vim 'a"})
    assert error.title == "What $VISUAL names as your editor cannot be understood: vim 'a"
    assert "quote" in error.advice
