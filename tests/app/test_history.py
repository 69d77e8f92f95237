"""The history of attempts, and differences between texts."""

from __future__ import annotations

import json
import re
import sqlite3
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.pilot import Pilot

from gpututor.app.commands import Pane
from gpututor.app.screens import history
from gpututor.app.screens.history import HistoryScreen
from gpututor.app.widgets.folding import fold
from gpututor.app.widgets.results import CHANGED
from gpututor.app.wording import moment
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Outcome, Status
from tests.support.apps import AppEnv, backups, main_screen, until, until_on, until_shown
from tests.support.screens import TRIED_SIZES, assert_golden, screen_lines, screen_text
from tests.support.scripted_client import ScriptedClient, judge_by_text, report, verdict
from tests.support.tiny_course import RIGHT, WRONG

NOW = datetime(2026, 1, 4, 15, 4, 5, tzinfo=UTC)


STILL_WRONG = "def twice(number):\n    # half way\n    return number + 1\n"


@pytest.fixture(autouse=True)
def _at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    made = HistoryScreen.__init__
    monkeypatch.setattr(HistoryScreen, "__init__", lambda self, *parts: made(self, *parts, now=lambda: NOW))


def attempts(env: AppEnv, *texts: str | None, exercise: int = 0) -> None:
    """Store an attempt for each text; None is an attempt without a stored text."""
    store = env.progress()
    for number, text in enumerate(texts):
        folder = env.course.exercises[exercise].folder
        graded = judge_by_text(GradeRequest(str(folder), text or WRONG, "x.py"))
        store.record(graded, text, run_ns=1_000_000 - number if text else None, peak_bytes=12 << 20 if text else None)
    store.close()


async def open_history(pilot: Pilot[None]) -> HistoryScreen:
    await pilot.press("a")
    screen = await until_on(pilot, HistoryScreen)
    await until(pilot, lambda: screen._shown is not None, "for what changed")
    return screen


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_the_list_looks_as_agreed(env: AppEnv, size: tuple[int, int]) -> None:
    attempts(env, None, WRONG, STILL_WRONG, RIGHT)
    async with env.start(size) as pilot:
        await open_history(pilot)
        await pilot.press("j")
        await until_shown(pilot, "Since attempt 2, 1 change:")
        await until_shown(pilot, "best")
        await assert_golden(pilot, "history")


async def test_a_file_that_does_not_run_yet_has_no_count_of_checks(env: AppEnv) -> None:
    loads = verdict("loads", Status.FAILED, got="SyntaxError: invalid syntax, at line 1", line=1)
    env.client = ScriptedClient(
        lambda request: report(request, loads, verdict("parity", Status.NOT_RUN), outcome=Outcome.ERROR)
    )
    async with env.start() as pilot:
        await pilot.press("a")
        await until_shown(pilot, "No attempt yet")
        assert pilot.app.screen is main_screen(pilot)
        await pilot.press("r")
        await until_shown(pilot, "✗ Does not run yet")
        await open_history(pilot)
        await until_shown(pilot, "Attempt 1: ✗ Does not run yet")
        [row] = [line for line in screen_lines(pilot.app) if line.startswith("▸")]
        assert "Does not run yet" in row
        assert " of " not in row


MOVED = "import torch\n\n\n" + WRONG


@pytest.mark.parametrize(
    ("now", "key", "row"),
    [(MOVED, "f", 4), (MOVED, "enter", 4), (RIGHT, "f", 1), ("# new\n" + RIGHT, "f", 2), ("", "f", 0)],
)
async def test_a_failure_of_an_older_attempt_leads_to_its_line_now(env: AppEnv, now: str, key: str, row: int) -> None:
    attempts(env, WRONG, RIGHT)
    env.file().write_text(now)
    async with env.start() as pilot:
        await open_history(pilot)
        await pilot.press("j", "enter")
        await until_shown(pilot, "Attempt 1 (")
        await pilot.press(key)
        await until(pilot, lambda: main_screen(pilot).panes.current is Pane.CODE, "for the code")
        await until(pilot, lambda: main_screen(pilot).panes.editor.cursor_location[0] == row, "for the line")
        if now != MOVED:
            await until_shown(pilot, "Line 2 of that run has changed or is gone. It was here.")
        assert ("is gone" in screen_text(pilot.app)) is (now != MOVED)


async def test_each_attempt_is_compared_with_the_one_before(env: AppEnv) -> None:
    attempts(env, WRONG, WRONG, RIGHT)
    async with env.start() as pilot:
        await open_history(pilot)
        await until_shown(pilot, "- return number")
        await until_shown(pilot, "+ return 2 * number")
        await pilot.press("j")
        await until_shown(pilot, "Since attempt 1 nothing changed in the file.")
        await until_shown(pilot, "✗ failed: The check called placement holds.")
        await until_shown(pilot, "got a result on cpu, line 2")
        await pilot.press("G")
        await until_shown(pilot, "Since the starter, 1 change:")
        await until_shown(pilot, "- raise NotImplementedError # TODO")


async def test_an_attempt_of_an_older_gpututor_says_that_it_has_no_text(env: AppEnv) -> None:
    attempts(env, None, WRONG)
    async with env.start() as pilot:
        screen = await open_history(pilot)
        await until_shown(pilot, "The text of attempt 1 was not saved.")
        await pilot.press("j")
        await until_shown(pilot, "An older gpututor did not save its text.")
        await pilot.press("b")
        await pilot.pause()
        assert pilot.app.screen is screen, "there is nothing to take back"


async def test_enter_opens_the_report_and_the_file_stays(env: AppEnv) -> None:
    attempts(env, WRONG, RIGHT)
    env.file().write_text(RIGHT)
    async with env.start() as pilot:
        main = main_screen(pilot)
        before = main.editor_text
        await open_history(pilot)
        await pilot.press("j", "enter")
        await until_shown(pilot, "Attempt 1 (")
        await until_shown(pilot, "Your file is unchanged.")
        await until_shown(pilot, "✗ Failed: 1 of 3 checks passed")
        await until_shown(pilot, "Line 2 return number")  # as it was then
        assert main.panes.current is Pane.RESULTS
        assert main.editor_text == before == env.file().read_text()
        await open_history(pilot)
        await pilot.press("enter")
        await until_shown(pilot, "This is your last run.")
        assert "older" not in screen_text(pilot.app)


async def test_b_takes_a_text_back_and_loses_nothing(env: AppEnv) -> None:
    attempts(env, WRONG, RIGHT)
    mine = "def twice(number):\n    return 'mine'\n"
    env.file().write_text(mine)
    async with env.start() as pilot:
        main = main_screen(pilot)
        await open_history(pilot)
        await pilot.press("b")
        await until(pilot, lambda: main.editor_text == RIGHT, "for the text")
        await until_shown(pilot, "Loaded attempt 2. Backup: …/")
        assert not main.takes_letters, "letters are commands, as before"
        assert env.file().read_text() == RIGHT
        assert backups(env) == [mine]
        await open_history(pilot)
        await pilot.press("b")
        await until_shown(pilot, "Your file already matches attempt 2.")
        assert backups(env) == [mine]
        await pilot.press("ctrl+z")
        await until(pilot, lambda: main.editor_text == mine, "for the undo")


async def test_of_five_hundred_attempts_only_those_in_sight_are_read(env: AppEnv) -> None:
    store = env.progress()
    graded = judge_by_text(GradeRequest(str(env.course.exercises[0].folder), WRONG, "x.py"))
    text = json.dumps(graded.to_json())
    with sqlite3.connect(store.path) as connection:
        statement = "INSERT INTO attempts (exercise, outcome, counted, report, source) VALUES (?, ?, 1, ?, ?)"
        rows = [(graded.exercise, "failed", text, f"{WRONG}# {number}\n") for number in range(500)]
        connection.executemany(statement, rows)
    connection.close()
    store.close()
    async with env.start() as pilot:
        screen = await open_history(pilot)
        assert len(screen._list.known) < 40
        await until_shown(pilot, "500 2 Jan 03:04")
        await pilot.press("G")
        await until_shown(pilot, "Since the starter")
        assert any(line.startswith("▸    1  ") for line in screen_lines(pilot.app))
        assert len(screen._list.known) < 80


async def test_a_report_of_another_version_is_marked(env: AppEnv) -> None:
    attempts(env, WRONG, RIGHT)
    with sqlite3.connect(env.folder / "progress.sqlite3") as connection:
        connection.execute("UPDATE attempts SET report = '{}' WHERE id = 1")
    connection.close()
    async with env.start() as pilot:
        await open_history(pilot)
        await until_shown(pilot, "The attempt before cannot be read.")
        await pilot.press("j")
        await until_shown(pilot, "It cannot be read.")
        await pilot.press("enter", "b")
        await pilot.pause()
        assert isinstance(pilot.app.screen, HistoryScreen)


async def test_a_very_long_file_is_not_compared(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_LINES", 2)
    attempts(env, WRONG, STILL_WRONG)
    async with env.start() as pilot:
        await open_history(pilot)
        await until_shown(pilot, "it is too long to be compared here")


async def test_text_of_attempts_is_never_markup(env: AppEnv) -> None:
    attempts(env, "x = '[/int]'\n", "x = '[@click=app.quit]y[/]\x1b[2J'\n")
    async with env.start() as pilot:
        await open_history(pilot)
        await until_shown(pilot, "+ x = '[@click=app.quit]y[/]\\x1b[2J'")


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("2026-01-04T15:03:40+00:00", "just now"),
        ("2026-01-04T14:09:05+00:00", "55 min ago"),
        ("2026-01-04T13:09:05+00:00", "today 13:09"),
        ("2026-01-03T23:59:59+00:00", "yesterday 23:59"),
        ("2026-01-02T03:04:05+00:00", "2 Jan 03:04"),
        ("2025-12-31T03:04:05+00:00", "31 Dec 2025"),
        ("2026-01-04T16:09:05+00:00", "today 16:09"),
        ("soon", "soon"),
    ],
)
def test_moments_in_words(written: str, words: str) -> None:
    assert moment(written, NOW) == words


def test_every_outcome_has_room_in_the_list() -> None:
    from gpututor.grading.report_text import DOES_NOT_RUN, OUTCOME_TITLES

    assert max(map(len, (DOES_NOT_RUN, *OUTCOME_TITLES.values()))) <= 21


async def test_two_answers_close_the_list_once_and_never_cover_a_run(env: AppEnv) -> None:
    attempts(env, WRONG, RIGHT)
    env.client.holds = True
    async with env.start() as pilot:
        screen = await open_history(pilot)
        await until(pilot, lambda: 0 in screen._list.known, "for the newest")
        screen.action_choose("report")  # as keys do that were sent here before the first one had acted
        screen.action_close()
        await until_shown(pilot, "Results")
        assert pilot.app.screen is main_screen(pilot)
        await pilot.press("r")
        await until(pilot, lambda: len(main_screen(pilot).panes.results.rows) == 1, "for the first check")
        await open_history(pilot)
        await pilot.press("j", "enter")
        await until_shown(pilot, "The checks are running: wait for their results first.")


async def test_a_lone_surrogate_in_the_editor_does_not_hide_the_last_report(env: AppEnv) -> None:
    attempts(env, WRONG)
    async with env.start() as pilot:
        screen = main_screen(pilot)
        screen.panes.editor.replace_all("x = '\ud800'\n")
        screen.attempts.show_last_report()
        screen.show_pane(Pane.RESULTS)
        await until_shown(pilot, "Remove the character.")  # the autosave's dialog stands before the results
        await pilot.press("c")
        await until_shown(pilot, CHANGED)


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("x = f(first, second)", ["x = f(first, second)"]),
        ("x = f(first, second, third)  # fourth", ["x = f(first, second,", "↪ third)  # fourth"]),
        ("    return torch.nn.relu(x)", ["    return torch.nn", "    ↪ .relu(x)"]),
        ("values=[1.25,2.5,3.75,4.0]", ["values=[1.25,2.5,", "↪ 3.75,4.0]"]),
        ("x" * 30, ["x" * 20, "↪ " + "x" * 10]),
    ],
)
def test_a_long_line_is_broken_where_code_would_be(line: str, rows: list[str]) -> None:
    assert [ahead + part.rstrip() for ahead, part in fold(line, 20)] == rows


@given(st.text(" ab.,([=1日", max_size=60), st.integers(6, 40))
def test_parts_of_a_line_fit_and_nothing_but_blanks_is_lost(line: str, room: int) -> None:
    wrapped = [ahead + part.rstrip() for ahead, part in fold(line, room)]
    assert all(cell_len(row) <= room for row in wrapped)
    assert re.sub(r"[↪ ]", "", "".join(wrapped)) == line.replace(" ", "")
