"""The learner's own editor: its command, and running it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpututor.app.main.external_editor import _IN_VS_CODE, EditorCommand, EditorPlace, _call_in_terminal, editor_command
from gpututor.course.loader import load_course
from gpututor.course.workspace import make_workspace
from gpututor.errors import UsageError
from tests.support.app_in_terminal import start
from tests.support.apps import AppEnv, is_asking, main_screen, stop_ticking, until, until_shown
from tests.support.screens import screen_text
from tests.support.terminals import Terminal
from tests.support.tiny_course import RIGHT, WITHOUT_A_PLACE, write_course

FILE = Path("/home/ada/my files/01_born.py")


def command(
    environment: dict[str, str], *, setting: str = "", missing: tuple[str, ...] = (), columns: int = 140
) -> EditorCommand:
    """Choose the command on a machine that has every program in /bin except the missing ones."""

    def which(name: str) -> str | None:
        if name in missing:
            return None
        return name if "/" in name else f"/bin/{name}"

    return editor_command(FILE, 7, environment=environment, setting=setting, which=which, columns=columns)


IN_THE_TERMINAL = {
    **{
        name: [f"/bin/{name}", "+7", f"{FILE}"] for name in ("vi", "vim", "nvim", "nano", "emacs", "micro", "hx", "kak")
    },
    "emacs -nw": ["/bin/emacs", "-nw", "+7", f"{FILE}"],
    "emacsclient -t": ["/bin/emacsclient", "-t", "+7", f"{FILE}"],
    "ed": ["/bin/ed", f"{FILE}"],
    "/opt/bin/nvim": ["/opt/bin/nvim", "+7", f"{FILE}"],
    "vim -c 'set number'": ["/bin/vim", "-c", "set number", "+7", f"{FILE}"],
    "'/opt/my editors/nano'": ["/opt/my editors/nano", "+7", f"{FILE}"],
}
OUTSIDE = {
    **{name: [f"/bin/{name}", "--goto", f"{FILE}:7"] for name in ("code", "codium", "cursor")},
    "code --wait": ["/bin/code", "--goto", f"{FILE}:7"],
    "code -n -w": ["/bin/code", "-n", "--goto", f"{FILE}:7"],
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
    chosen = command({variable: editor})
    assert list(chosen.words) == IN_THE_TERMINAL[editor]
    assert (chosen.place, chosen.origin) == (EditorPlace.TERMINAL, f"${variable}")


@pytest.mark.parametrize("environment", [{}, {"TMUX": "/tmp/tmux-1/default,1,0"}, {"TERM_PROGRAM": "vscode"}], ids=str)
@pytest.mark.parametrize("editor", OUTSIDE)
def test_an_editor_with_a_window_opens_outside_wherever_the_app_is(environment: dict[str, str], editor: str) -> None:
    chosen = command({"EDITOR": editor, **environment})
    assert list(chosen.words) == OUTSIDE[editor]
    assert (chosen.place, chosen.origin) == (EditorPlace.OUTSIDE, "$EDITOR")


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
    chosen = command({"VISUAL": visual, "EDITOR": editor}, setting=setting)
    assert (chosen.program, chosen.origin) == (program, origin)


@pytest.mark.parametrize(
    ("columns", "place", "begin"),
    [
        (140, EditorPlace.SPLIT, ["split-window", "-h"]),
        (80, EditorPlace.TMUX_WINDOW, ["new-window", "-a", "-n", "leave vim to return"]),
    ],
)
def test_tmux_shows_the_editor_next_to_the_app_or_in_a_window(
    columns: int, place: EditorPlace, begin: list[str]
) -> None:
    chosen = command({"EDITOR": "vim", "TMUX": "/tmp/tmux-1/default,1,0", "TMUX_PANE": "%3"}, columns=columns)
    assert chosen.place is place
    assert list(chosen.words) == ["/bin/tmux", *begin, "-c", "/home/ada/my files", *IN_THE_TERMINAL["vim"]]


@pytest.mark.parametrize(
    ("columns", "place", "where"),
    [(140, EditorPlace.SPLIT, ["--direction", "right"]), (80, EditorPlace.FLOATING, ["--floating"])],
)
def test_zellij_shows_the_editor_next_to_the_app_or_over_it(columns: int, place: EditorPlace, where: list[str]) -> None:
    chosen = command({"EDITOR": "vim", "ZELLIJ": "0"}, columns=columns)
    assert chosen.place is place
    options = ["--close-on-exit", "--cwd", "/home/ada/my files", "--"]
    assert list(chosen.words) == ["/bin/zellij", "run", *where, *options, *IN_THE_TERMINAL["vim"]]


@pytest.mark.parametrize(
    ("environment", "others"),
    [
        ({"EDITOR": "vim", "TMUX": ""}, {}),
        ({"EDITOR": "vim", "ZELLIJ": "0"}, {"missing": ("zellij",)}),
        ({"EDITOR": "vim", "TMUX": "/tmp/tmux-1/default,1,0"}, {"missing": ("tmux",)}),
        ({"EDITOR": "nano", "TERM_PROGRAM": "vscode"}, {"setting": "vim"}),
        ({"EDITOR": "vim", "TERM_PROGRAM": "vscode"}, {"missing": _IN_VS_CODE}),
    ],
    ids=["not in tmux", "no Zellij", "no tmux", "chosen in the settings", "VS Code without its command"],
)
def test_no_multiplexer_nor_vs_code_takes_an_editor_that_is_not_theirs(
    environment: dict[str, str], others: dict[str, Any]
) -> None:
    chosen = command(environment, **others)
    assert (chosen.place, list(chosen.words)) == (EditorPlace.TERMINAL, IN_THE_TERMINAL["vim"])


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
    chosen = command({"EDITOR": editor, "TERM_PROGRAM": "vscode"}, missing=missing)
    assert list(chosen.words) == [f"/bin/{program}", "--goto", f"{FILE}:7"]
    assert (chosen.place, chosen.origin) == (EditorPlace.OUTSIDE, "VS Code's terminal")


@pytest.mark.parametrize(
    ("environment", "setting", "named"),
    [
        ({"VISUAL": "subl"}, "", "$VISUAL"),
        ({"EDITOR": "subl"}, "", "$EDITOR"),
        ({}, "subl", "the settings"),
        ({"VISUAL": "vim 'a"}, "", "$VISUAL names an editor that cannot be parsed: vim 'a"),
    ],
)
def test_an_error_names_the_source_of_the_editor(environment: dict[str, str], setting: str, named: str) -> None:
    with pytest.raises(UsageError) as raised:
        command(environment, setting=setting, missing=("subl",))
    assert named in raised.value.title


def make_program(folder: Path, name: str, body: str) -> Path:
    """Make a program that writes its words into `NAME.words`, a line each, and runs the Python code `body`."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(
        f"#!{sys.executable}\nimport pathlib, sys, time, os, signal\n"
        f"words = pathlib.Path({str(folder / name)!r} + '.words')\n"
        "part = words.with_suffix('.part')\npart.write_text('\\n'.join(sys.argv[1:]))\npart.replace(words)\n"
        f"file = pathlib.Path(sys.argv[-1].partition(':')[0])\n{body}\n"
    )
    program.chmod(0o755)
    return program


def words_of(program: Path) -> list[str]:
    """Return the words that `program` was started with; empty if it was not started."""
    words = program.with_name(program.name + ".words")
    return words.read_text().split("\n") if words.exists() else []


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that comes first on the path, and no editor chosen."""
    for name in ("VISUAL", "EDITOR", "TMUX", "TMUX_PANE", "ZELLIJ", "TERM_PROGRAM"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


async def test_an_editor_with_a_window_opens_the_saved_file_at_the_cursor(
    env: AppEnv, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = make_program(programs, "code", f"file.write_text(file.read_text() + {RIGHT!r})")
    monkeypatch.setenv("VISUAL", "code --wait")
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("e", *"m=1", "down")
        start_ticking = stop_ticking(pilot)  # only the command may save
        await pilot.press("shift+f4")
        await until(pilot, lambda: words_of(code) != [], "for the editor")
        assert words_of(code) == ["--goto", f"{env.file()}:2"]
        await until_shown(pilot, "Open in code. Save there, and the change appears here.")
        start_ticking()
        await until(pilot, lambda: screen.editor_text.endswith(RIGHT), "for the reload")
        assert screen.editor_text.startswith("m=1def")
        assert not is_asking(pilot)


async def test_on_a_failure_the_editor_opens_at_its_line(
    env: AppEnv, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = make_program(programs, "code", "")
    monkeypatch.setenv("EDITOR", "code")
    async with env.start() as pilot:
        await pilot.press("e", "ctrl+s")
        await until(pilot, lambda: "1 of 3 checks passed" in screen_text(pilot.app), "for the verdicts")
        await pilot.press("o")
        await until(pilot, lambda: words_of(code) != [], "for the editor")
        assert words_of(code) == ["--goto", f"{env.file()}:2"], "the failure is on line 2, the cursor on line 1"


async def test_in_tmux_the_editor_gets_a_split_or_a_window(
    env: AppEnv, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmux, nano = make_program(programs, "tmux", ""), make_program(programs, "nano", "")
    monkeypatch.setenv("EDITOR", "nano")
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")
    for size, begin, notice in (
        ((140, 40), "split-window", "next to the app"),
        ((80, 24), "new-window", "leave nano to come back"),
    ):
        async with env.start(size) as pilot:
            await pilot.press("o")
            await until(pilot, lambda begin=begin: words_of(tmux)[:1] == [begin], "for tmux")  # type: ignore[misc]
            assert words_of(tmux)[-3:] == [str(nano), "+1", str(env.file())]
            await until_shown(pilot, notice)


@pytest.mark.parametrize(
    ("editor", "title", "advice"),
    [
        ("nowhere", "There is no program called nowhere", "let $EDITOR name another"),
        ("code", "code ended with exit code 3: no display", "The command comes from $EDITOR"),
        ("broken", "broken cannot be started: Exec format error.", "Check $EDITOR."),
        ("nano", "nano needs the terminal,", "and the app cannot hand this one over."),  # a pilot's app has none
    ],
)
async def test_an_editor_that_does_not_open_is_told_with_what_to_do(
    env: AppEnv, programs: Path, monkeypatch: pytest.MonkeyPatch, editor: str, title: str, advice: str
) -> None:
    make_program(programs, "code", "print('first\\nno display', file=sys.stderr); sys.exit(3)")
    make_program(programs, "nano", "")
    (programs / "broken").write_bytes(b"\x7fELF")
    (programs / "broken").chmod(0o755)
    monkeypatch.setenv("EDITOR", editor)
    if editor == "broken":
        monkeypatch.setattr("gpututor.app.main.external_editor._OUTSIDE", ("broken",))
    async with env.start((100, 30)) as pilot:
        await pilot.press("1", "o")
        await until_shown(pilot, title)
        await until_shown(pilot, advice)


async def test_installed_editors_are_offered_once_and_the_choice_is_kept(
    env: AppEnv, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = make_program(programs, "code", "")
    make_program(programs, "subl", "")
    monkeypatch.setenv("PATH", str(programs))
    async with env.start() as pilot:
        await pilot.press("o")
        await until_shown(pilot, "code in its own window")
        assert "nano" not in screen_text(pilot.app), "it is not installed"
        await pilot.press("down", "up", "enter")
        await until(pilot, lambda: words_of(code) == ["--goto", f"{env.file()}:1"], "for the editor")
        assert main_screen(pilot).learner.settings.now.editor == "code"
        main_screen(pilot).learner.settings.choose("editor", "")
        await pilot.press("o")
        await until_shown(pilot, "Esc cancels")
        await pilot.press("escape")
        assert main_screen(pilot).learner.settings.now.editor == "", "Esc chooses none"


async def test_the_settings_name_the_editor(env: AppEnv, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = make_program(programs, "code", "")
    monkeypatch.setenv("EDITOR", "nano")
    async with env.start() as pilot:
        main_screen(pilot).learner.settings.choose("editor", "code -n")
        await pilot.press("o")
        await until(pilot, lambda: words_of(code) == ["-n", "--goto", f"{env.file()}:1"], "for the editor")


# In a real terminal, where the app steps aside

EDIT = f"""
print('I am the editor', flush=True)
line = sys.stdin.readline()
file.write_text({RIGHT!r} + '# ' + line)
"""


def in_terminal(tmp_path: Path, editor: str) -> tuple[Terminal, Path]:
    course = write_course(tmp_path / "course", exercises=1)
    (course / "01_lesson_1" / "01_twice_1_1" / "starter.py").write_text(WITHOUT_A_PLACE)
    workspace, _ = make_workspace(tmp_path / "workspace", load_course(course))
    environment = {"GPUTUTOR_HOME": str(tmp_path / "home"), "EDITOR": editor}
    return start(course, workspace.folder, environment), workspace.path_of(load_course(course).exercises[0])


def test_a_terminal_editor_gets_the_terminal_and_the_app_rereads_the_file(tmp_path: Path, programs: Path) -> None:
    nano = make_program(programs, "nano", EDIT)
    terminal, file = in_terminal(tmp_path, "nano")
    with terminal:
        terminal.press("f4")
        terminal.until_shown("^s Run")
        terminal.press(*"m=1", "f3", "o")
        terminal.until_shown("I am the editor")
        assert file.read_text().startswith("m=1def"), "all edits are saved before"
        assert words_of(nano) == ["+1", str(file)]
        terminal.send(b"and I was here\r")
        terminal.until_shown("Reloaded: another program changed the file.")
        terminal.press("f4")
        terminal.until_shown("# and I was here")
        terminal.press("ctrl+q")
        assert terminal.until_end() == 0


def test_a_failing_terminal_editor_is_reported_and_gets_ctrl_c(tmp_path: Path, programs: Path) -> None:
    make_program(programs, "nano", "print('I am the editor', flush=True)\nsys.stdin.readline()")
    terminal, _ = in_terminal(tmp_path, "nano")
    with terminal:
        terminal.press("o")
        terminal.until_shown("I am the editor")
        terminal.press("ctrl+c")
        terminal.until_shown("nano ended with exit code")
        terminal.press("escape", "f4")
        terminal.until_shown("twice(number)")
        terminal.press("ctrl+q")
        assert terminal.until_end() == 0


@pytest.mark.long
@pytest.mark.parametrize(("number", "ends"), [(signal.SIGTERM, True), (signal.SIGHUP, True), (signal.SIGTERM, False)])
def test_sigterm_ends_the_app_without_waiting_for_the_editor(
    tmp_path: Path, programs: Path, number: signal.Signals, ends: bool
) -> None:
    answer = "lambda *_: sys.exit(0)" if ends else "signal.SIG_IGN"
    end = f"signal.signal({int(number)}, {answer})\n"
    body = "    print('I am the editor', os.getpid(), flush=True)\n    time.sleep(1000)\n"
    nano = make_program(programs, "nano", f"{end}try:\n{body}finally:\n    words.with_suffix('.ended').touch()\n")
    terminal, file = in_terminal(tmp_path, "nano")
    with terminal:
        terminal.press("f4")
        terminal.until_shown("^s Run")
        terminal.press(*"m=1", "f3", "o")
        terminal.until_shown("I am the editor")
        os.kill(terminal.pid, number)
        terminal.until_end()
        assert nano.with_suffix(".ended").exists() is ends
        assert file.read_text().startswith("m=1def")


@pytest.mark.parametrize("before", [True, False], ids=["before it runs", "as it begins to run"])
def test_sigterm_during_the_start_of_the_editor_ends_it(monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    start_process, started = subprocess.Popen, []

    def told_meanwhile(words: tuple[str, ...]) -> subprocess.Popen[bytes]:
        if before:
            os.kill(os.getpid(), signal.SIGTERM)
        started.append(start_process(words))
        if not before:
            os.kill(os.getpid(), signal.SIGTERM)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", told_meanwhile)
    handler = signal.signal(signal.SIGTERM, lambda *_: None)  # as the app's event loop has one
    try:
        _call_in_terminal(("sleep", "5"))
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert started[0].returncode == -signal.SIGTERM
