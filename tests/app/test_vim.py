"""Vim's keys in the editor: a table of texts and keys, the mode in the status line, and Esc."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from textual import events
from textual.pilot import Pilot

from gpututor.app.commands import Pane
from gpututor.app.editor.editor import Editor
from gpututor.app.editor.vim import Mode
from gpututor.settings import read_settings
from tests.support.apps import AppEnv, burst, edit, main_screen, settle, until, until_shown, write
from tests.support.screens import screen_text
from tests.support.tiny_course import RIGHT, WRONG

ESC, REDO = "\x1b", "\x12"
CASES = [
    # Motions. | is the cursor.
    ("|ab\ncd", "l", "a|b\ncd"),
    ("|ab\ncd", "5l", "a|b\ncd"),
    ("a|b\ncd", "j", "ab\nc|d"),
    ("ab\nc|d", "kh", "|ab\ncd"),
    ("abc|d\ne\nfghi", "jj", "abcd\ne\n|fghi"),
    ("|one two(x)", "w", "one |two(x)"),
    ("|one two(x)", "3w", "one two(|x)"),
    ("|one\n\ntwo", "w", "one\n|\ntwo"),
    ("|one\n\ntwo", "ww", "one\n\n|two"),
    ("one two|", "b", "one |two"),
    ("one\n  |two", "b", "|one\n  two"),
    ("|one two", "e", "on|e two"),
    ("on|e two", "e", "one tw|o"),
    ("  on|e", "0", "|  one"),
    ("  on|e", "^", "  |one"),
    ("|one\ntwo", "$", "on|e\ntwo"),
    ("|one\ntwo", "2$", "one\ntw|o"),
    ("on|e\ntwo\n  six", "G", "one\ntwo\n  |six"),
    ("one\ntwo\nsi|x", "gg", "|one\ntwo\nsix"),
    ("|one\ntwo\nsix", "2G", "one\n|two\nsix"),
    ("|one\ntwo\nsix", ":2\r", "one\n|two\nsix"),
    ("|one\ntwo\nsix", "v:2\rd", "|wo\nsix"),
    ("|one\ntwo\nsix", "V:2\rd", "|six"),
    ("|one\ntwo", ":wq\rl:x\r", "o|ne\ntwo"),
    ("|one\ntwo", ":dd" + ESC + "l", "o|ne\ntwo"),
    ("|a.b.c", "f.", "a|.b.c"),
    ("|a.b.c", "2f.", "a.b|.c"),
    ("|a.b.c", "t.t.", "|a.b.c"),
    ("|a.b.c", "f.;", "a.b|.c"),
    ("|a.b.c", "f.;,", "a|.b.c"),
    ("a.b.|c", "F.", "a.b|.c"),
    ("|a b", "f ", "a| b"),
    ("|abc", "fz", "|abc"),
    ("a\n|b\n\nc", "}", "a\nb\n|\nc"),
    ("a\n\nb\n|c", "{", "a\n|\nb\nc"),
    ("a\n\nb\n|c", "2{", "|a\n\nb\nc"),
    ("|a\n\nbc", "3}", "a\n\nb|c"),
    ("|f(a, (b))", "%", "f(a, (b)|)"),
    ("f(\n  a[0],\n|)", "%", "f|(\n  a[0],\n)"),
    ("|abc", "%", "|abc"),
    ("|f(a", "%", "|f(a"),
    # Into INSERT mode and back
    ("a|b", f"ix{ESC}", "a|xb"),
    ("a|b", f"ax{ESC}", "ab|x"),
    ("  a|b", f"Ix{ESC}", "  |xab"),
    ("|ab", f"Ax{ESC}", "ab|x"),
    ("|ab\ncd", f"ox{ESC}", "ab\n|x\ncd"),
    ("if a:|\nb", f"ox{ESC}", "if a:\n    |x\nb"),
    ("  a|b", f"Ox{ESC}", "  |x\n  ab"),
    # Edits
    ("a|bc", "x", "a|c"),
    ("a|bc", "9x", "|a"),
    ("|", "x", "|"),
    ("a|bc", "X", "|bc"),
    ("a|bc", "rx", "a|xc"),
    ("a|bc d", "D", "|a"),
    ("a|bc", f"Cx{ESC}", "a|x"),
    ("|ab", f"sx{ESC}", "|xb"),
    ("|a\nb\nc", "dd", "|b\nc"),
    ("|a\nb\nc", "2dd", "|c"),
    ("a\n|b", "dd", "|a"),
    ("|a", "dd", "|"),
    ("|a\nb\nc", "dj", "|c"),
    ("a\nb\n|c", "dk", "|a"),
    ("a\n|b\nc", "dG", "|a"),
    ("a\n|b\nc", "dgg", "|c"),
    ("|a\nb", "d5j", "|"),
    ("a\n|b", "dj", "a\n|b"),
    ("|one two", "dw", "|two"),
    ("one |two\nsix", "dw", "one| \nsix"),
    ("|one two six", "2dw", "|six"),
    ("|one two six", "d2w", "|six"),
    ("|one two", "de", "| two"),
    ("one tw|o", "db", "one |o"),
    ("|one two", "d$", "|"),
    ("|a.b", "df.", "|b"),
    ("|a.b", "dt.", "|.b"),
    ("one tw|o x", "diw", "one | x"),
    ("one tw|o x", f"ciwa{ESC}", "one |a x"),
    ("|one two", f"cwa{ESC}", "|a two"),
    ("|o two", f"cwa{ESC}", "|a two"),
    ("  o|ne\nx", f"cca{ESC}", "  |a\nx"),
    ("|one two", f"c2wa{ESC}", "|a"),
    ("|abc", "dz", "|abc"),
    ("|one two", "daw", "|two"),
    ("|a\nb\n\nc", "d}", "|\nc"),
    ("a |(b) c", "d%", "a | c"),
    ("f(a, g(|b))", f"ci(x{ESC}", "f(a, g(|x))"),
    ("f(a, g(|b))", "da)", "f(a, g|)"),
    ("f(|a, g(b))", f"cibx{ESC}", "f(|x)"),
    ("a = [\n  |1,\n]", "di]", "a = [|]"),
    ("f(|)", f"ci(x{ESC}", "f(|x)"),
    ("|print('a b')", f"ci'x{ESC}", "print('|x')"),
    ('f("a|", "b")', 'da"', 'f(|, "b")'),
    ("|abc", "di(x", "|bc"),
    # Joining lines, and case
    ("|a\n  b\nc", "J", "a| b\nc"),
    ("|f(\n  a,\n)", "3J", "f( a,|)"),
    ("a\n|b", "J", "a\n|b"),
    ("|a\nb\nc", "J.", "a b| c"),
    ("a|bC", "2~", "aB|c"),
    ("|ab", "~.", "A|B"),
    # Registers
    ("|a\nb", "yyp", "a\n|a\nb"),
    ("|a\nb", "yyjp", "a\nb\n|a"),
    ("|a\nb", "yyP", "|a\na\nb"),
    ("|a\nb", "yy2p", "a\n|a\na\nb"),
    ("|a\nb\nc", "yjGp", "a\nb\nc\n|a\nb"),
    ("|one two", "ywP", "one| one two"),
    ("|one two", "yw$p", "one twoone| "),
    ("|ab", "xp", "b|a"),
    ("|a\nb", "ddp", "b\n|a"),
    ("|abc", "p", "|abc"),
    # Shifting
    ("|a\nb", ">>", "    |a\nb"),
    ("|a\n\nb", "3>>", "    |a\n\n    b"),
    ("      |a", "<<", "  |a"),
    ("  |a", "<<", "|a"),
    ("|a\nb", ">j", "    |a\n    b"),
    # Undo and redo
    ("|abc", "xxu", "|bc"),
    ("|abc", "xx2u", "|abc"),
    ("|abc", f"xxu{REDO}", "|c"),
    ("|ab", f"ix y{ESC}u", "|ab"),
    # Repetition
    ("|abc", "x.", "|c"),
    ("|abcde", "x2.", "|de"),
    ("|a\nb\nc", f"Ax{ESC}j.", "ax\nb|x\nc"),
    ("|one two", f"cwa{ESC}w.", "a |a"),
    ("|a\nb\nc", "dd.", "|c"),
    ("|a\nb", f"ox{ESC}.", "a\nx\n|x\nb"),
    ("|a\nb", ">>j.", "    a\n    |b"),
    # VISUAL mode
    ("|abcd", "vld", "|cd"),
    ("ab|cd", "vhd", "a|d"),
    ("|one two", "vey$p", "one twoon|e"),
    ("|one two", f"vecx{ESC}", "|x two"),
    ("|a\nb\nc", "Vjd", "|c"),
    ("a\nb|\nc", "Vy", "a\n|b\nc"),
    ("|a\nb\nc", "Vj>", "    |a\n    b\nc"),
    ("    |a", "V<", "|a"),
    ("|a\nb", f"Vcx{ESC}", "|x\nb"),
    ("|abc", f"vl{ESC}x", "a|c"),
    ("a|bc d", "viwd", "| d"),
    ("ab|c", "vohd", "|a"),
    ("f(a|b)", "vi(d", "f(|)"),
    ("|a\nb\nc", "VjJ", "a| b\nc"),
    ("|ab", f"d{ESC}x", "|b"),
    ("|a.bc", f"vf{ESC}ld", "|bc"),
    # What is not offered does nothing, and takes the keys that Vim would take.
    ("|abc", '"ayyp', "abc\n|abc"),
    ("|abc", "maqax", "|bc"),
    ("|abc", "yypdapx", "abc\n|bc"),
    ("|abc", "d'ax", "|bc"),
    ("|abc", "vrxd", "|bc"),
    ("|abc", "r\rx", "|bc"),
    ("a\n|b", ":0\r", "|a\nb"),
    ("|ab", f"x{'9' * 5000}u", "|ab"),
]


@pytest.fixture
async def vim(env: AppEnv) -> AsyncIterator[Pilot[None]]:
    """Start the app with Vim's keys."""
    write("vim = true\n")
    async with env.start() as pilot:
        yield pilot


def marked(editor: Editor) -> str:
    lines, (row, column) = list(editor.document.lines), editor.cursor_location
    lines[row] = f"{lines[row][:column]}|{lines[row][column:]}"
    return "\n".join(lines)


def play(editor: Editor, text: str, keys: str) -> str:
    """Type keys into a text with a mark for the cursor; return the text and its cursor afterwards."""
    editor.use_vim(on=True)
    before = text.partition("|")[0]
    editor.show(text.replace("|", "", 1))
    editor.move_cursor((before.count("\n"), len(before.rpartition("\n")[2])))
    assert editor.vim is not None
    for key in keys:
        name = {ESC: "escape", REDO: "ctrl+r", " ": "space", "\r": "enter"}.get(key, key)
        if not editor.vim.handle(name, None if key in (ESC, REDO) else key) and key != ESC:
            editor.insert(key)
    return marked(editor)


async def test_keys_do_what_they_do_in_vim(pilot: Pilot[None]) -> None:
    editor = await edit(pilot)
    wrong = [(text, keys, made) for text, keys, wanted in CASES if (made := play(editor, text, keys)) != wanted]
    assert wrong == []


async def test_modes_find_and_esc_are_those_of_vim(env: AppEnv) -> None:
    write("vim = true\n")
    async with env.start() as pilot:
        await until(pilot, lambda: main_screen(pilot).panes.editor.vim is not None, "for the setting")
        editor = await edit(pilot, "one\ntwo\n")
        await until_shown(pilot, " NORMAL ")
        await pilot.press("q", "n", "1", "G", "o", *"if x:")
        await until_shown(pilot, " INSERT ")
        await pilot.press("enter", *"y")
        assert editor.text == "one\nif x:\n    y\ntwo\n", "letters are text, with the usual indents"
        await pilot.press("escape")
        await until_shown(pilot, " NORMAL ")
        await pilot.press("V", "k")
        await until_shown(pilot, " VISUAL LINE ")
        await pilot.press("d", "u", "ctrl+r")
        await until(pilot, lambda: editor.text == "one\ntwo\n", "for the redo")
        assert main_screen(pilot).panes.current is Pane.CODE
        await pilot.press("escape")
        await until(pilot, lambda: main_screen(pilot).panes.current is Pane.TASK, "for the task")
        assert "NORMAL" not in screen_text(pilot.app)
        editor = await edit(pilot, "one\ntwo\none\none\n")
        await pilot.press("n")
        await until_shown(pilot, "Nothing to find yet")
        await pilot.press("slash")
        await until(pilot, lambda: bool(main_screen(pilot).editing.find_keys), "for the bar")
        await pilot.press(*"one", "escape")
        await until(pilot, lambda: editor.has_focus, "for the editor")
        places = []
        for key in ("n", "n", "n", "N"):
            await pilot.press(key)
            await settle(pilot)
            places.append(editor.cursor_location[0])
        assert places == [2, 3, 0, 3], places
        await pilot.press("v", "n")
        await settle(pilot)
        assert (editor.cursor_location[0], editor.mode) == (0, Mode.NORMAL)


async def test_the_word_at_the_cursor_is_found_without_the_bar(vim: Pilot[None]) -> None:
    editor = await edit(vim)
    editor.show("ab = 1\nabc = ab\nprint(ab)\n")
    await settle(vim)
    editor.move_cursor((0, 0))
    for keys, place in (("*", (1, 6)), ("n", (2, 6)), ("*", (0, 0)), ("#", (2, 6)), ("N", (1, 6))):
        await vim.press(*keys)
        await until(vim, lambda place=place: editor.cursor_location == place, f"for {keys}")  # type: ignore[misc]
    assert editor.has_focus


async def test_a_repetition_inserts_only_text_that_was_typed_in_one_place(pilot: Pilot[None]) -> None:
    editor = await edit(pilot)
    play(editor, "|one\ntwo\nsix", "ix")
    editor.move_cursor((2, 3))
    assert editor.vim is not None
    for key in ("escape", "."):
        editor.vim.handle(key, key)
    assert editor.text == "xone\ntwo\nsix"


@pytest.mark.parametrize(("before", "after"), [("Vjj", "kd"), ("Vjj:", "1\rd")])
async def test_a_text_that_became_shorter_ends_no_selection_in_an_error(
    pilot: Pilot[None], before: str, after: str
) -> None:
    editor = await edit(pilot)
    play(editor, "|one\ntwo\nsix", before)
    editor.replace_all("one")
    assert editor.vim is not None
    for key in after:
        editor.vim.handle("enter" if key == "\r" else key, key)
    assert editor.text == ""


@pytest.mark.parametrize("keys", ["yG9999p", "vGy9999P", "y20jp9999.", f"o{'ab' * 50}{ESC}9999.", "VG9999>"])
async def test_no_count_makes_a_text_too_long_to_be_graded(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    monkeypatch.setattr("gpututor.app.editor.vim.MAX_SUBMISSION_BYTES", 4_000)
    editor = await edit(pilot)
    play(editor, "|" + "x = 1\n" * 500, keys)
    assert len(editor.text) <= 4_000
    await until_shown(pilot, "Stopped: ")


async def test_keys_with_ctrl_move_where_they_would_delete(vim: Pilot[None]) -> None:
    editor = await edit(vim, "line\n" * 50)
    await vim.press("ctrl+d", "ctrl+w")
    row = editor.cursor_location[0]
    await vim.press("ctrl+u")
    assert (editor.text, editor.cursor_location[0], row) == ("line\n" * 50, 0, max(1, editor.size.height // 2))


async def test_a_text_behind_a_dialog_or_read_only_cannot_be_changed(vim: Pilot[None]) -> None:
    editor = await edit(vim, "abc\n")
    await vim.press("x", "u", "f1", "ctrl+r")
    await settle(vim)
    assert editor.text == "abc\n", "redo reaches no editor behind a dialog"
    await vim.press("escape")
    editor.read_only = True
    await vim.press("x", "o", "escape")
    await settle(vim)
    assert editor.text == "abc\n"


async def test_a_key_with_alt_runs_its_command_in_normal_mode(vim: Pilot[None]) -> None:
    editor = await edit(vim, "abc\n")
    vim.app.post_message(events.Key("alt+a", "a"))
    await until(vim, lambda: editor.selected_text == "abc\n", "for the whole text")
    assert main_screen(vim).panes.current is Pane.CODE


async def test_esc_and_the_command_after_it_may_arrive_together(vim: Pilot[None]) -> None:
    editor = await edit(vim, "abc\n")
    await vim.press("i")
    burst(vim.app, "z", "escape", "x", "A", "y", "escape")
    await until(vim, lambda: editor.text == "abcy\n" and editor.mode == Mode.NORMAL, "for all keys")


@pytest.mark.parametrize("on", [True, False])
async def test_the_setting_turns_it_on_and_off_at_once(env: AppEnv, on: bool) -> None:
    path = write(f"vim = {str(not on).lower()}\n")
    async with env.start() as pilot:
        editor = await edit(pilot, "abc\n")
        main_screen(pilot).learner.settings.choose("vim", on)
        main_screen(pilot).apply_settings()
        await pilot.press("x")
        assert editor.text == ("bc\n" if on else "xabc\n")
    assert read_settings(path).settings.vim is on


async def test_a_command_line_is_shown_and_a_second_esc_leaves_nothing(env: AppEnv) -> None:
    write("vim = true\n")
    async with env.start() as pilot:
        await until(pilot, lambda: main_screen(pilot).panes.editor.vim is not None, "for the setting")
        editor = await edit(pilot, "one\ntwo\n")
        await until_shown(pilot, "Esc Leave")
        await pilot.press("colon", "w")
        await until_shown(pilot, " :w ")
        await pilot.press("enter")
        await until_shown(pilot, "There is no :w.")
        await pilot.press("colon", "2", "enter")
        await until(pilot, lambda: editor.cursor_location == (1, 0), "for the line")
        await pilot.press("i", "x", "escape", "escape", "x")
        await until(pilot, lambda: editor.text == "one\ntwo\n", "for the letter to go: the second Esc left nothing")
        for begun in ("v", "d"):
            await pilot.press(begun, "escape", "escape")
            assert main_screen(pilot).is_in_editor, begun
            await pilot.press("l")
        await pilot.press("escape")
        await until(pilot, lambda: main_screen(pilot).panes.current is Pane.TASK, "for the task")


async def test_a_run_that_starts_by_itself_leaves_normal_mode_alone(env: AppEnv) -> None:
    write('vim = true\nauto_run = "saved"\n')
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await until(pilot, lambda: screen.panes.editor.vim is not None, "for the setting")
        editor = await edit(pilot, WRONG)
        await pilot.press("i", "#", "enter", "escape")
        await until(pilot, lambda: screen.panes.results.report is not None, "for the report")
        await pilot.press("x")
        await until(pilot, lambda: editor.text == f"#\n{WRONG[1:]}", "for the letter to go")
        assert (screen.panes.current, screen.is_in_editor) == (Pane.CODE, True)


async def test_in_all_modes_the_keys_that_are_named_are_no_letters(env: AppEnv) -> None:
    write("vim = true\n")
    async with env.start((100, 30)) as pilot:
        screen = main_screen(pilot)
        await until(pilot, lambda: screen.panes.editor.vim is not None, "for the setting")
        await edit(pilot, RIGHT)
        await pilot.press("ctrl+s")
        await until_shown(pilot, "F8 compares with the solution; ^n opens 1.2 Twice 2.")
        assert screen.is_in_editor
        for key in ("v", "V", "escape", "i"):
            await pilot.press(key)
            assert screen.key_now("run_checks") == "^s", key
        screen.show_pane(Pane.TASK)
        await until(pilot, lambda: screen.key_now("run_checks") == "r", "for the letters")
