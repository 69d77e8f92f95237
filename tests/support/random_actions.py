"""Storms: random actions of a learner, a terminal and other programs, and the checks that follow them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import strategies as st
from textual import events
from textual.app import App
from textual.keys import _character_to_key as name_of_key
from textual.pilot import OutOfBounds, Pilot
from textual.widgets import TextArea

from gpututor.app.commands import COMMANDS
from gpututor.app.editor.editor import Editor
from gpututor.app.main.screen import MainScreen
from gpututor.course.loader import load_course
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Outcome, Report, Status
from gpututor.text import with_newlines
from tests.support.apps import AppEnv
from tests.support.scripted_client import BROKEN, ScriptedClient, failure, report, verdict
from tests.support.tiny_course import write_course


@dataclass(frozen=True)
class Keys:
    """Keys that arrive in one moment."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Click:
    """A click somewhere on the screen, given in hundredths of its width and height."""

    x: int
    y: int
    times: int = 1


@dataclass(frozen=True)
class Scroll:
    """A turn of the wheel somewhere on the screen."""

    x: int
    y: int
    down: bool


@dataclass(frozen=True)
class Resize:
    """A new size of the terminal's window."""

    columns: int
    lines: int


@dataclass(frozen=True)
class Paste:
    """A pasted text."""

    text: str


@dataclass(frozen=True)
class DiskWrite:
    """A write of another program to an exercise's file."""

    exercise: int
    content: bytes


@dataclass(frozen=True)
class DiskRemoval:
    """A removal of an exercise's file, or of its whole folder, by another program."""

    exercise: int | None


@dataclass(frozen=True)
class Answer:
    """A change of the judge: it releases held gradings, or holds back new ones."""

    holds: bool


@dataclass(frozen=True)
class Rest:
    """A pause of so many moments."""

    moments: int


Action = Keys | Click | Scroll | Resize | Paste | DiskWrite | DiskRemoval | Answer | Rest

_NAMED = (
    *("enter", "escape", "tab", "shift+tab", "space", "backspace", "delete", "insert"),
    *("up", "down", "left", "right", "home", "end", "pageup", "pagedown"),
    *("shift+up", "shift+down", "shift+left", "shift+right", "ctrl+home", "ctrl+end", "ctrl+left", "ctrl+right"),
    *("alt+up", "alt+down", "ctrl+space", "ctrl+@", "ctrl+underscore", "ctrl+backslash"),
    *(f"f{number}" for number in range(1, 13)),
    *(f"shift+f{number}" for number in range(1, 13)),
    *(f"ctrl+{letter}" for letter in "abdefghijklnoprstuvwxyz"),  # ^c and ^q leave: they are tried by themselves
)
_SINGLE = tuple("abcdefghijklmnoprstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" + "!\"#$%&'()*+,-./:;<=>?@[]^_{|}~é語")
_COMMANDS = tuple(key for command in COMMANDS if command.id != "quit" for key in (*command.keys, *command.letters))

_key = st.one_of(st.sampled_from(_NAMED), st.sampled_from(_SINGLE), st.sampled_from(_COMMANDS))
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
_percent = st.integers(0, 99)
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(Keys, st.lists(_key, min_size=1, max_size=8).map(tuple)),
    st.builds(Keys, st.sampled_from(_COMMANDS).map(lambda key: (key,))),
    st.builds(Keys, st.lists(st.sampled_from([*"jkgGynd", "enter", "escape", "space"]), max_size=4).map(tuple)),
    st.builds(Click, _percent, _percent, st.integers(1, 3)),
    st.builds(Scroll, _percent, _percent, st.booleans()),
    st.builds(Resize, st.integers(8, 200), st.integers(3, 60)),
    st.builds(Resize, st.sampled_from([80, 100, 140]), st.sampled_from([24, 30, 40])),
    st.builds(
        Paste, st.one_of(_text, st.just("\tif x:\n\t\treturn 1\r\n" * 300), st.just("[/red] [@click=app.quit]x"))
    ),
    st.builds(DiskWrite, st.integers(0, 3), st.one_of(_text.map(str.encode), st.binary(max_size=30))),
    st.builds(DiskRemoval, st.one_of(st.integers(0, 3), st.none())),
    st.builds(Answer, st.booleans()),
    st.builds(Rest, st.integers(1, 20)),
)
LEAVING = ("ctrl+q", "ctrl+c", "terminated")


def judge(request: GradeRequest) -> Report:
    """Return any kind of report, chosen by the text's length."""
    match len(request.submission) % 5:
        case 0:
            return report(request, verdict("loads"), verdict("placement"), output="printed\n" * 300)
        case 1:
            return report(request, verdict("loads"), failure(line=10_000), traceback="Traceback\n  [red]here\n")
        case 2:
            return report(request, verdict("loads"), failure(), failure("two GPUs"), verdict("parity", Status.NOT_RUN))
        case 3:
            return report(request, outcome=Outcome.INTERNAL_ERROR, reason="The judge [b]broke[/b].")
        case _:
            raise BROKEN


class Keeper:
    """A watch over the learner's texts: a text may leave the editor only if a file keeps it."""

    def __init__(self, env: AppEnv) -> None:
        self._desk = env
        self.files = [env.file(number) for number in range(len(env.course.exercises))]
        """Paths of the exercises' files."""
        self._not_the_learners = {""}
        self.lost: list[str] = []

    def note(self, text: str) -> None:
        """Note that the text came from elsewhere, so that it may get lost."""
        self._not_the_learners.add(with_newlines(text))

    def forgive(self, *paths: Path) -> None:
        """Note that another program removes these files, which is not the app's fault."""
        for path in paths:
            with contextlib.suppress(OSError):
                self.note(path.read_bytes().decode(errors="replace"))

    def check(self, text: str) -> None:
        """Record `text`, which leaves the editor, as lost unless a file keeps it."""
        text = with_newlines(text)
        if text not in self._not_the_learners and text not in self._kept():
            self.lost.append(text)

    def _kept(self) -> set[str]:
        kept = set()
        for folder in (self._desk.workspace_folder, self._desk.folder / "home"):
            for path in folder.rglob("*"):
                with contextlib.suppress(OSError, UnicodeDecodeError):
                    kept.add(with_newlines(path.read_bytes().decode()))
        return kept

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Check each text that replaces another."""
        keeper, load, replace_all = self, TextArea.load_text, Editor.replace_all

        def load_text(editor: TextArea, text: str) -> None:
            if isinstance(editor, Editor):
                keeper.check(editor.text)
                keeper.note(text)
            load(editor, text)
            if isinstance(editor, Editor):
                keeper.note(editor.text)

        def replace(editor: Editor, text: str) -> None:
            keeper.check(editor.text)
            keeper.note(text)
            replace_all(editor, text)
            keeper.note(editor.text)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TextArea, "load_text", load_text)
            patch.setattr(Editor, "replace_all", replace)
            yield


async def blow(
    folder: Path, size: tuple[int, int], actions: Sequence[Action], leaving: str, *, first: bool = False
) -> None:
    """Start the app in `folder`, do all that and leave. Raises what the app raised; asserts that no text is lost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUTUTOR_HOME", str(folder / "home"))
        patch.setenv("HOME", str(folder))
        patch.setenv("VISUAL", "true")
        patch.setattr(App, "open_url", lambda *_, **__: None)
        env = AppEnv(
            folder, load_course(write_course(folder / "course", exercises=2, lessons=2)), ScriptedClient(judge)
        )
        keeper = Keeper(env)
        with keeper.watching():
            async with env.start(size, first=first) as pilot:
                for action in actions:
                    await _do(pilot, env, keeper, action)
                    if _has_ended(pilot.app):
                        break
                await _leave(pilot, env, keeper, leaving)
        assert keeper.lost == [], "the learner typed this, and it is nowhere"


async def do_anywhere(pilot: Pilot[None], client: ScriptedClient, action: object) -> None:
    """Do what any app of gpututor can meet; ignore other actions."""
    match action:
        case Keys(keys):
            for key in keys:
                pilot.app.post_message(key_event(key))
            await pilot.pause()
        case Click(x, y, times):
            width, height = pilot.app.size
            with contextlib.suppress(OutOfBounds):
                await pilot.click(offset=(x * width // 100, y * height // 100), times=times)
        case Resize(columns, lines):
            await pilot.resize_terminal(columns, lines)
        case Answer(holds):
            client.holds = holds
            client.released.set()
        case Rest(moments):
            for _ in range(moments):
                await pilot.pause(0.01)


async def _do(pilot: Pilot[None], env: AppEnv, keeper: Keeper, action: Action) -> None:
    app = pilot.app
    match action:
        case Scroll(x, y, down):
            width, height = app.size
            event = events.MouseScrollDown if down else events.MouseScrollUp
            x, y = x * width // 100, y * height // 100
            app.post_message(event(None, x, y, 0, 0, 0, False, False, False, screen_x=x, screen_y=y))
            await pilot.pause()
        case Paste(text):
            app.post_message(events.Paste(text))
            await pilot.pause()
        case DiskWrite(exercise, content):
            keeper.forgive(keeper.files[exercise])
            with contextlib.suppress(OSError):
                keeper.files[exercise].write_bytes(content)
                keeper.note(content.decode(errors="replace"))
        case DiskRemoval(None):
            keeper.forgive(*env.workspace_folder.rglob("*"))
            shutil.rmtree(env.workspace_folder, ignore_errors=True)
        case DiskRemoval(int(exercise)):
            keeper.forgive(keeper.files[exercise])
            with contextlib.suppress(OSError):
                os.unlink(keeper.files[exercise])
        case _:
            await do_anywhere(pilot, env.client, action)


async def _leave(pilot: Pilot[None], env: AppEnv, keeper: Keeper, leaving: str) -> None:
    """Leave by a key, or as a closed terminal does; a file must keep the text of the editor."""
    env.client.holds = False
    env.client.cancel()
    app = pilot.app
    if leaving != "terminated" and not _has_ended(app):
        app.post_message(key_event(leaving))
        await pilot.pause()
    if not _has_ended(app):
        app.leave_at_once()  # type: ignore[attr-defined]
    for screen in app.screen_stack:
        if isinstance(screen, MainScreen):
            keeper.check(screen.panes.editor.text)


def _has_ended(app: App[None]) -> bool:
    return app._exit or not app.is_running


def key_event(key: str) -> events.Key:
    """Return Textual's event for a key, which is a name as in bindings or the character itself."""
    if len(key) == 1:
        return events.Key(name_of_key(key), key)
    return events.Key(key, _CHARACTERS.get(key))


_CHARACTERS = {
    "enter": "\r",
    "tab": "\t",
    "space": " ",
    "escape": "\x1b",
    "backspace": "\x7f",
    **{name_of_key(character): character for character in "?/;,.:"},
}
