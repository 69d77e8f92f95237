"""The instructor's screens, and random actions on them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual.pilot import Pilot

from gpututor.app.classroom.app import ClassroomApp, source_of
from gpututor.app.classroom.class_screen import ClassScreen, review_sections
from gpututor.app.classroom.class_table import Order, mark_words, points_of, shown_of, students_of, table_of
from gpututor.app.classroom.regrade_client import RegradeClient
from gpututor.app.classroom.submission_screen import SubmissionScreen
from gpututor.app.screens.base import QuestionDialog
from gpututor.app.screens.help import TextScreen
from gpututor.app.screens.palette import CommandProvider
from gpututor.app.screens.trace import DeviceScreen
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.terminal import lines_of
from gpututor.classroom.history import HistoryEvent, read_history
from gpututor.classroom.regrade import regrade_job
from gpututor.classroom.review import review_of
from gpututor.classroom.submissions import Unmatched
from gpututor.cli.main import main
from gpututor.errors import UsageError
from gpututor.grading.journal import entries
from gpututor.grading.report import Outcome
from tests.support.apps import until, until_on, until_shown
from tests.support.classes import describe_tiny_checks, graded_class, key_at
from tests.support.classroom_app import ONE, TWO, files, judged
from tests.support.random_actions import Answer, Click, Keys, Resize, Rest, do_anywhere
from tests.support.screens import TRIED_SIZES, assert_golden, screen_lines, screen_text
from tests.support.scripted_client import BROKEN, ScriptedClient
from tests.support.tiny_course import RIGHT, write_course


@pytest.fixture(autouse=True)
def judge_knows_the_tiny_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    describe_tiny_checks(monkeypatch)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_course(tmp_path_factory.mktemp("classroom") / "course", exercises=2, lessons=2)


@pytest.fixture
def folder(course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassFolder:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    made = ClassFolder(tmp_path / "class")
    graded_class(made, files(), course)
    return made


@contextlib.asynccontextmanager
async def opened(
    folder: ClassFolder,
    client: ScriptedClient | None = None,
    size: tuple[int, int] = (80, 18),
    *,
    with_names: bool = True,
) -> AsyncIterator[Pilot[None]]:
    source = source_of(folder, with_names=with_names)
    app = ClassroomApp(source, RegradeClient(folder, client or ScriptedClient()))
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        await reviewed(pilot)
        await until(pilot, lambda: pilot.app.focused is class_screen(pilot).marks, "for the focus")
        yield pilot


async def reviewed(pilot: Pilot[None]) -> None:
    """Wait until the screen has read and reviewed the class."""
    screen = class_screen(pilot)
    await until(pilot, lambda: not screen._is_reading and screen.table is not None, "for the class")


def class_screen(pilot: Pilot[None]) -> ClassScreen:
    screen = pilot.app.screen_stack[0]
    assert isinstance(screen, ClassScreen)
    return screen


async def at_submission(pilot: Pilot[None]) -> SubmissionScreen:
    screen = await until_on(pilot, SubmissionScreen)
    await until(pilot, lambda: bool(screen.source) and screen.focused is not None, "for the text")
    return screen


def journal(folder: ClassFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.journal.glob("*/*")}


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_the_class_looks_as_agreed(
    folder: ClassFolder, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if size == (140, 40):
        monkeypatch.setenv("NO_COLOR", "1")
    async with opened(folder, size=size) as pilot:
        await pilot.press("j")
        await until_shown(pilot, "bo · 1.1")
        await assert_golden(pilot, "class")
        await pilot.press("2")
        await until_shown(pilot, "Checks that failed most")
        await assert_golden(pilot, "class_exercises")
        await pilot.press("1", "enter")
        await at_submission(pilot)
        await until_shown(pilot, "Failed: 1 of 3")
        await pilot.press("enter")
        await until_shown(pilot, "2 ▸")
        await assert_golden(pilot, "class_submission")


async def test_filter_and_palette_lead_to_submissions_and_students(folder: ClassFolder) -> None:
    async with opened(folder) as pilot:
        screen = class_screen(pilot)
        await pilot.press("slash", *"1.2", "enter")
        await until_shown(pilot, "ada · 1.2")
        await pilot.press("enter")
        await at_submission(pilot)
        await until_shown(pilot, "attempt 2 of 2 (counts)")
        await pilot.press("left_square_bracket")
        await until_shown(pilot, "attempt 1 of 2")
        await until_shown(pilot, "Failed: 1 of 3")
        await pilot.press("n")
        await until_shown(pilot, "zoe[b]\\x1b[2J · 1.2 Twice 2")
        await pilot.press("n")
        await until_shown(pilot, "There is no submission after this one.")
        await pilot.press("escape", "escape")
        await until_shown(pilot, "4 students by id")
        await pilot.press("s")
        await until_shown(pilot, "4 students by name")
        assert any(line.startswith("▸ zoe[b]\\x1b") for line in screen_lines(pilot.app)), "the cursor stays"
        await pilot.press("tab", "tab")
        await until_shown(pilot, "For a person to review: 1 item")
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextScreen), "for the help")
        await pilot.press("escape", "escape")
        await until(pilot, lambda: screen.page_number == 0, "for the first page")
        everything = CommandProvider(screen)
        assert "zoe" not in "".join(entry.title for entry in everything.entries()), "2,000 would be slow to list"
        (evil,) = [entry for entry in everything.entries("zoe") if entry.title.startswith("zoe")]
        screen.filter_by("ada")
        evil.act()
        await until_shown(pilot, "▸ zoe[b]")
        assert len(screen.shown.rows) == 4


def test_the_table_filters_words_shows_marks_and_what_is_to_look_at(folder: ClassFolder) -> None:
    source = source_of(folder)
    gradebook = source.read()
    table = table_of(gradebook, source.review(gradebook))

    def filtered(typed: str, order: Order = Order.ID) -> list[str]:
        shown = shown_of(table, typed, order)
        ids = [table.rows[row].marks.student.id.partition("[")[0] for row in shown.rows]
        return [*ids, *(table.columns[column] for column in shown.columns)]

    assert filtered("") == ["ada", "bo", "chen", "zoe", "1.1", "1.2", "2.1"]
    assert filtered("", Order.POINTS)[:4] == ["ada", "chen", "bo", "zoe"]
    assert filtered("1.2 FAILED") == filtered("placement zo") == ["zoe", "1.2"]
    assert filtered("twice_2") == ["ada", "bo", "chen", "zoe", "2.1"]
    assert filtered("open") == ["bo", "chen", "1.1", "2.1"]
    assert filtered("look") == filtered("needs review") == ["chen", "1.1"]
    assert filtered("hoe") == []
    assert [row.marks.student.id for row in students_of(table, "A")] == ["ada"]
    gradebook = source_of(folder).read()
    printed = {words[0]: words[1:] for words in map(str.split, lines_of(gradebook, 120)) if words}
    table = table_of(gradebook)
    for row in table.rows:
        printed_row = printed[row.name.split()[0]]
        assert (printed_row[0] == "open") == (row.total == "open")
        for mark, cell in zip(printed_row[-3:], row.cells, strict=True):
            if cell.mark.status.word:
                assert (cell.text.split()[1], points_of(cell.mark)) == (mark, "")
                assert mark_words(cell.mark).startswith(f"{mark}, no mark yet")
            else:
                assert points_of(cell.mark).partition("/")[0] == mark.replace("–", "")
    assert table.rows[2].so_far == "total open, 3/7 so far"
    graded = folder.read_class()
    stray = tuple(Unmatched(f"bo/{name}.py", "No exercise is called that.", ("bo",)) for name in ("homework", "other"))
    folder.write_class(replace(graded, unmatched=stray))
    gradebook = source_of(folder).read()
    assert table_of(gradebook).review is None
    table = table_of(gradebook, review_of(folder, gradebook))
    assert table.review is not None
    assert len(table.review.items) == 3
    assert sum(section.heading.endswith(("1 item", "2 items")) for section in review_sections(table)) == 2


async def test_what_devices_did_is_recorded_once_and_kept(folder: ClassFolder) -> None:
    before, client = journal(folder), ScriptedClient(lambda request: judged(ONE, request.submission), holds=True)
    async with opened(folder, client) as pilot:
        await pilot.press("enter")
        await at_submission(pilot)
        await pilot.press("d")
        await until(pilot, lambda: bool(client.requests), "for the judge")
        await pilot.press("n")
        await until_shown(pilot, "A grading is running: Esc stops it.")
        await pilot.press("escape")
        await until_shown(pilot, "Stopped.")
        assert client.cancelled.is_set()
        assert not list(folder.recordings.iterdir())
        client.holds = False
        for _ in range(2):
            await pilot.press("d")
            await until(pilot, lambda: isinstance(pilot.app.screen, DeviceScreen), "for the device")
            await until_shown(pilot, "ada · 1.1 Twice 1")
            await pilot.press("escape")
            await at_submission(pilot)
    assert len(client.requests) == 2
    assert all((request.key, request.journal, request.submission) == (None, None, RIGHT) for request in client.requests)
    assert [path.name for path in folder.recordings.iterdir()] == [key_at(folder, 0).name]
    assert journal(folder) == before


async def grade_again(pilot: Pilot[None]) -> None:
    await pilot.press("R")
    await until(pilot, lambda: isinstance(pilot.app.screen, QuestionDialog), "for the question")
    await pilot.press("g")


async def test_another_result_is_taken_only_where_the_instructor_says_so(
    folder: ClassFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = journal(folder)
    client = ScriptedClient(lambda request: judged(ONE, request.submission))
    async with opened(folder, client) as pilot:
        await pilot.press("enter")
        await at_submission(pilot)
        await grade_again(pilot)
        await until_shown(pilot, "The same result again: ✓ Passed")
        client.judge = lambda request: replace(judged(ONE, RIGHT), outcome=Outcome.INTERNAL_ERROR, reason="A fault.")
        await grade_again(pilot)
        await until_shown(pilot, "It could not be graded: ! The grader failed")
        assert len(client.requests) == 2
        client.judge = lambda request: judged(ONE, request.submission, passes=False)
        await grade_again(pilot)
        await until_shown(pilot, "The result differs")
        await pilot.press("k")
        await until_shown(pilot, "The journal is unchanged. The other result: ✗ Failed")
        assert journal(folder) == before
        await grade_again(pilot)
        await until_shown(pilot, "The result differs")
        take, may_go_on = RegradeClient.take, threading.Event()
        monkeypatch.setattr(RegradeClient, "take", lambda *words: may_go_on.wait() and take(*words))
        await pilot.press("t", "escape")
        await until_shown(pilot, "The new result is being saved.")
        may_go_on.set()
        await until_shown(pilot, "Saved.")
        await pilot.press("escape")
        await until_shown(pilot, "✗ Failed: 1 of 3 checks passed")
        await reviewed(pilot)
    [kept] = folder.replaced.iterdir()
    assert kept.read_bytes() in before.values()
    changed = [name for name, content in journal(folder).items() if content != before[name]]
    assert [name.partition(".")[0] for name in changed] == [kept.name.partition(".")[0]]
    assert len(list(entries(folder.journal))) == len(before)
    assert [(entry.event, entry.student) for entry in read_history(folder)] == [(HistoryEvent.REGRADED, "ada")]
    assert all(request.journal is None for request in client.requests)


async def test_a_mark_by_hand_is_set_and_removed_in_a_dialog(folder: ClassFolder) -> None:
    async with opened(folder) as pilot:
        await pilot.press("m")
        await until_shown(pilot, "a mark from 0 to 3")
        await pilot.press(*"7", "space", *"Appeal", "enter")
        await until_shown(pilot, "'7' is not a mark for 1.1")
        await pilot.press("home", "delete", *"2.5", "enter")
        await until_shown(pilot, "2.5 instead of 3")
        await reviewed(pilot)
        assert "* by hand" in screen_text(pilot.app)
        await pilot.press("m")
        await until_shown(pilot, "to restore the computed mark")
        await pilot.press("minus", "space", *"Settled", "enter")
        await until_shown(pilot, "ada · 1.1")
        await until(pilot, lambda: "* by hand" not in screen_text(pilot.app), "for the computed mark")
    assert [(entry.event, entry.points, entry.why) for entry in read_history(folder)] == [
        (HistoryEvent.MARKED, 2.5, "Appeal"),
        (HistoryEvent.CLEARED, None, "Settled"),
    ]


async def test_with_pseudonyms_no_name_is_shown_and_changes_go_to_the_student(folder: ClassFolder) -> None:
    client = ScriptedClient(lambda request: judged(TWO, request.submission, passes=False))
    pseudonyms = source_of(folder, with_names=False).read().pseudonyms
    assert pseudonyms is not None
    async with opened(folder, client, with_names=False) as pilot:
        shown = [screen_text(pilot.app)]
        assert "pseudonyms" in shown[0]
        class_screen(pilot).filter_by(f"{pseudonyms.of('ada')} 1.2")
        await until_shown(pilot, f"{pseudonyms.of('ada')} · 1.2")
        await pilot.press("enter")
        screen = await at_submission(pilot)
        assert screen.source == f"{RIGHT}# {pseudonyms.of('ada')}\n"
        await grade_again(pilot)
        await until_shown(pilot, "The result differs")
        await pilot.press("t")
        await until_shown(pilot, "Saved.")
        shown.append(screen_text(pilot.app))
        await pilot.press("escape")
        await reviewed(pilot)
        await pilot.press("m", *"1", "space", *"Appeal", "enter")
        await until_shown(pilot, "* by hand")
        shown.append(screen_text(pilot.app))
    # As words: the digits of a hash may contain "ada".
    assert not [text for text in shown if re.search(r"\b(ada|chen|zoe)\b", text)]
    history = [(entry.event, entry.student, entry.exercise) for entry in read_history(folder)]
    assert history == [(HistoryEvent.REGRADED, "ada", TWO), (HistoryEvent.MARKED, "ada", TWO)]


def test_what_would_be_another_grading_is_not_done(folder: ClassFolder, course: Path) -> None:
    submission = folder.read_class().submissions[0]
    assert regrade_job(folder, submission).key == key_at(folder, 0)
    given = course / "01_lesson_1" / "01_twice_1_1" / "given.py"
    text = given.read_text()
    try:
        given.write_text(text + "# newer\n")
        with pytest.raises(UsageError, match="the files of the exercise"):
            regrade_job(folder, submission)
    finally:
        given.write_text(text)
    secret = folder.secret_file.read_text()
    folder.secret_file.write_text(secret[::-1])
    with pytest.raises(UsageError, match="the class secret"):
        regrade_job(folder, submission)
    folder.secret_file.unlink()
    with pytest.raises(UsageError, match=r"class\.secret"):
        regrade_job(folder, submission)
    assert not folder.secret_file.exists(), "none is drawn"


async def test_files_may_come_and_go_beside_it(folder: ClassFolder) -> None:
    path = folder.class_file
    content = path.read_text()
    async with opened(folder) as pilot:
        await until_shown(pilot, "6 of 7 files graded")
        path.unlink()
        await pilot.press("f5")
        await until_shown(pilot, "! ")
        await until_shown(pilot, "has no graded class.")
        assert "bo " in screen_text(pilot.app), "what was read before stays"
        path.write_text(content)
        [ada] = {
            entry.sha256 for entry in folder.read_class().submissions if entry.student == "bo" and entry.exercise == ONE
        }
        key_at(folder, 3).file_in(folder.journal).unlink()
        folder.submission(ada).unlink()
        await pilot.press("ctrl+r")
        await until_shown(pilot, "5 of 7 files graded")
        await reviewed(pilot)
        await pilot.press("j", "enter")
        await until_shown(pilot, "Its text cannot be read: No such file or directory")
        await pilot.press("R", "g")
        await until_shown(pilot, "cannot be read")


def test_without_a_class_or_a_terminal_it_is_told(
    folder: ClassFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classroom", "open", str(tmp_path / "nowhere")]) == 2
    assert "no graded class" in capsys.readouterr().err
    assert main(["classroom", "open", str(folder.folder)]) == 2
    assert "`gpututor classroom report" in capsys.readouterr().err


KEYS = (
    *("enter", "escape", "tab", "shift+tab", "space", "backspace", "up", "down", "left", "right", "home", "end"),
    *("pageup", "pagedown", "f1", "f5", "f10", "ctrl+r", "ctrl+p", "ctrl+u"),
    *"123456789sjkghlGnpdRvrtc/?[]+-.aowk",
)
DISK = ("class.json", "class.secret", "options.json", "journal", "submissions", "recordings", "replaced", "course")
DAMAGE = ("removed", "broken", "restored")
Action = Keys | Click | Resize | Answer | Rest | tuple[str, str]
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(Keys, st.lists(st.sampled_from(KEYS), min_size=1, max_size=8).map(tuple)),
    st.builds(Keys, st.sampled_from([("enter", "R", "g"), ("enter", "d"), ("R", "g", "escape"), ("R", "g", "t")])),
    st.builds(Click, st.integers(0, 99), st.integers(0, 99), st.integers(1, 2)),
    st.builds(Resize, st.integers(8, 200), st.integers(3, 60)),
    st.builds(Answer, st.booleans()),
    st.builds(Rest, st.integers(1, 10)),
    st.tuples(st.sampled_from(DAMAGE), st.sampled_from(DISK)),
)


async def blow(base: Path, size: tuple[int, int], actions: list[Action]) -> None:
    """Start the screen on a class below `base`, and do all actions."""
    course = write_course(base / "course", exercises=2, lessons=2)
    folder = ClassFolder(base / "class")
    graded_class(folder, files(), course)
    shutil.copytree(folder.folder, base / "kept")
    shutil.copytree(course, base / "kept" / "course")
    ends = iter(range(1_000_000))

    def judge(request: object) -> object:
        """Return each kind of report in turn."""
        number = next(ends) % 4
        if number == 3:
            raise BROKEN
        return judged("lesson_1/twice_1_1", request.submission, (None, True, False)[number])  # type: ignore[attr-defined]

    client = ScriptedClient(judge)  # type: ignore[arg-type]
    app = ClassroomApp(source_of(folder), RegradeClient(folder, client))
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        for action in actions:
            if isinstance(action, tuple):
                _damage(base, *action)
            else:
                await do_anywhere(pilot, client, action)
            if app._exit:
                break
        assert not any(path.is_symlink() for path in folder.folder.rglob("*"))


def _damage(base: Path, how: str, name: str) -> None:
    """Remove or break a file of the class as another program would, or restore it."""
    path = base / ("course" if name == "course" else f"class/{name}")
    kept = base / "kept" / name
    with contextlib.suppress(OSError):
        if how == "broken":
            for file in [path] if path.is_file() else [child for child in path.rglob("*") if child.is_file()]:
                file.write_bytes(b"\xff{")
            return
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if how == "restored" and kept.exists():
        with contextlib.suppress(OSError):
            shutil.copytree(kept, path) if kept.is_dir() else shutil.copy(kept, path)


def storm(size: tuple[int, int], actions: list[Action]) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUTUTOR_HOME", f"{folder}/home")
        describe_tiny_checks(patch)
        asyncio.run(blow(Path(folder), size, actions))


STORMS: Mapping[str, st.SearchStrategy[object]] = {
    "size": st.sampled_from([(80, 24), (140, 40), (60, 15)]),
    "actions": st.lists(ACTIONS, min_size=15, max_size=45),
}
RULES = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))  # so that all cores take part
@settings(RULES, max_examples=25, print_blob=True)
@given(**STORMS)
def test_100_storms_do_not_crash_the_instructors_screen(
    part: int, size: tuple[int, int], actions: list[Action]
) -> None:
    storm(size, actions)
