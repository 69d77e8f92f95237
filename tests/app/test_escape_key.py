"""The app recognizes Esc as soon as it cannot begin another key, even with a key right after it."""

from __future__ import annotations

import errno
import io
import os
import selectors
import signal
from collections.abc import AsyncIterator
from typing import IO, cast
from unittest import mock

import pytest
from textual import events
from textual.app import App
from textual.drivers import linux_driver
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot

from gpututor.app.commands import Pane
from gpututor.app.escape_key import LOOK_EVERY_S, EscapeParser, QuickDriver, TerminalOutput, quick_driver
from gpututor.app.main.screen import MainScreen
from gpututor.app.screens.help import TextScreen
from gpututor.app.screens.history import HistoryScreen
from gpututor.course.workspace import make_workspace
from tests.support.app_in_terminal import start
from tests.support.apps import DEFAULT_START, AppEnv, edit, main_screen, run_checks, until
from tests.support.parameters import mostly_long
from tests.support.timeouts import no_waiting


def test_output_to_a_closed_terminal_never_blocks_the_app() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.EIO, "Input/output error")

    output = WriterThread(cast("IO[str]", TerminalOutput(Closed())))
    output.start()
    with no_waiting():
        for _ in range(3 * MAX_QUEUED_WRITES):
            output.write("x")
        output.stop()
    assert not output.is_alive()


@pytest.fixture
async def driver() -> AsyncIterator[QuickDriver]:
    """Yield a driver that was not started; put back the handlers of the signals that it sets."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)}
    yield QuickDriver(App())
    for number, handler in handlers.items():
        signal.signal(number, handler)


async def test_the_driver_writes_to_output_that_may_be_closed(driver: QuickDriver) -> None:
    assert isinstance(vars(driver)["_file"], TerminalOutput)


async def test_the_driver_clears_the_screen_before_it_leaves_it(
    driver: QuickDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(driver, "write", written.append)
    driver.stop_application_mode()
    assert written.index("\x1b[2J") < written.index("\x1b[?1049l")


def test_the_driver_looks_more_often_tells_esc_and_reads_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float | None] = []
    sent, received = [b"", b"a", b"\x1b1"], list[object]()

    def select(_: selectors.SelectSelector, timeout: float | None = None) -> list[int]:
        looks.append(timeout)
        return [1]

    monkeypatch.setattr(selectors.SelectSelector, "select", select)
    monkeypatch.setattr(selectors.SelectSelector, "register", lambda *_: None)
    monkeypatch.setattr(os, "read", lambda *_: sent.pop())
    driver = mock.Mock()
    driver.exit_event.is_set = lambda: len(sent) == 1
    driver.process_message = received.append
    QuickDriver.run_input_thread(driver)
    assert sent == []
    assert looks == [LOOK_EVERY_S] * 3
    assert [key.key for key in received if isinstance(key, events.Key)] == ["alt+1", "a"]


def test_only_textuals_own_driver_is_replaced() -> None:
    assert quick_driver(linux_driver.LinuxDriver) is QuickDriver
    assert quick_driver(HeadlessDriver) is HeadlessDriver


def keys_of(sent: str) -> list[events.Key]:
    """Return the keys that a terminal sent, if nothing follows them."""
    parser = EscapeParser()
    return [event for event in (*parser.feed(sent), *parser.feed("")) if isinstance(event, events.Key)]


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("\x1b?", ["alt+question_mark"]),
        ("\x1b?\x1b", ["alt+question_mark", "escape"]),
        ("\x1b]", ["alt+right_square_bracket"]),
        ("\x1b\r", ["escape", "enter"]),
        ("\x1b\x13", ["escape", "ctrl+s"]),
        ("\x1b1", ["alt+1"]),
        ("\x1bV", ["alt+shift+v"]),
        ("\x1ba", ["alt+a"]),
        ("\x1b=x", ["alt+equals_sign", "x"]),
        ("\x1b\x1bOP", ["escape", "f1"]),
        ("\x1b[1;3A", ["alt+up"]),
        ("\x1b[1;3B", ["alt+down"]),
        ("\x1b[1;4B", ["alt+shift+down"]),
        ("\x1bf", ["ctrl+right"]),
        ("\x1b[Z", ["shift+tab"]),
        ("\x1bOQ", ["f2"]),
    ],
)
def test_esc_is_not_lost_with_a_key_behind_it(sent: str, keys: list[str]) -> None:
    assert [key.key for key in keys_of(sent)] == keys


async def send(pilot: Pilot[None], sent: str) -> None:
    """Send the app the keys of a single piece of terminal input."""
    for key in keys_of(sent):
        pilot.app.post_message(key)
    await pilot.pause()


@pytest.mark.parametrize("key", mostly_long(["?", "1", "V", "d", "ä", "=", "]", "r"], ["?", "ä", "r"]))
async def test_a_character_right_behind_esc_is_never_typed(pilot: Pilot[None], screen: MainScreen, key: str) -> None:
    await edit(pilot)
    before = screen.editor_text
    await send(pilot, f"\x1b{key}")
    await until(pilot, lambda: screen.panes.current is not Pane.CODE or pilot.app.screen is not screen, "to leave")
    assert screen.editor_text == before


async def test_keys_right_after_an_esc_that_stops_a_run_are_no_text(env: AppEnv) -> None:
    env.client.holds = True
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("r", "e")
        await until(pilot, lambda: screen.running and screen.focused is screen.panes.editor, "for the editor")
        before = screen.editor_text
        await send(pilot, "\x1b?")
        await until(pilot, lambda: not screen.running, "for the run to be stopped")
        await pilot.pause()
        assert screen.editor_text == before


async def test_commands_behind_esc_are_done_and_alt_keys_keep_their_meaning(
    pilot: Pilot[None], screen: MainScreen
) -> None:
    await edit(pilot)
    await send(pilot, "\x1b?")
    await until(pilot, lambda: isinstance(pilot.app.screen, TextScreen), "for the help")
    await pilot.press("escape")
    await until(pilot, lambda: pilot.app.screen is screen, "for the main screen")
    await edit(pilot)
    await send(pilot, "\x1b1")
    await until(pilot, lambda: screen.panes.current is Pane.COURSE, "for the course")
    await edit(pilot)
    before = screen.editor_text.splitlines()
    await send(pilot, "\x1b[1;3B")
    await until(pilot, lambda: screen.editor_text.splitlines()[:2] == before[1::-1], "for the line to go down")
    await send(pilot, "\x1b[1;3A")
    await until(pilot, lambda: screen.editor_text.splitlines() == before, "for the line to come back")
    await send(pilot, "\x1ba")
    await until(pilot, lambda: screen.panes.editor.selected_text == screen.editor_text, "for all to be selected")
    assert screen.panes.current is Pane.CODE


async def test_esc_overtakes_no_letter_and_alt_is_esc_outside_the_editor(pilot: Pilot[None]) -> None:
    await run_checks(pilot)
    screen = main_screen(pilot)
    await send(pilot, "V\x1b1")
    await until(pilot, lambda: screen.panes.current is Pane.COURSE, "for the course")
    assert pilot.app.screen is screen
    await run_checks(pilot)
    await send(pilot, "\x1ba")
    await until(pilot, lambda: isinstance(pilot.app.screen, HistoryScreen), "for the attempts")
    assert not main_screen(pilot).panes.editor.selected_text


def test_in_a_terminal_what_comes_right_behind_esc_is_a_command(env: AppEnv) -> None:
    make_workspace(env.workspace_folder, env.course)
    with start(env.course.folder, env.workspace_folder, {"GPUTUTOR_HOME": str(env.folder / "home")}) as terminal:
        terminal.press("e")
        terminal.until_shown(DEFAULT_START)
        terminal.send(b"\x1b?")
        terminal.until_shown("Esc closes")
    assert "?" not in env.file().read_text()
