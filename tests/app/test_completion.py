"""Completion: names of the file at once, jedi's from a child process, and a child that hangs, dies or is not there."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from textual.geometry import Region
from textual.pilot import Pilot

from gpututor.app.editor import completion
from gpututor.app.editor.completion import MOST_FAILURES, Completer, CompletionList, Question, file_names
from gpututor.app.editor.editor import Editor
from gpututor.app.screens.help import documentation_content
from gpututor.processes import is_alive
from tests.support.apps import AppEnv, edit, main_screen, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import assert_golden, screen_lines, screen_text
from tests.support.timeouts import wait_for

CODE = ["import torch", "alpha = torch.zeros(3)", "alphabet = alpha.sum()", "al"]


def test_names_of_the_file_come_first_and_attributes_after_a_dot() -> None:
    names = file_names(CODE, 3, 2)
    assert names[:2] == ["alpha", "alphabet"]
    assert names.index("torch") < names.index("return") < names.index("print")
    assert "al" not in names, "this word is still being typed"
    assert file_names([*CODE, "alpha."], 4, 6) == ["sum", "zeros"]
    assert file_names([*CODE, "alpha.s"], 4, 7) == ["sum", "zeros"]
    code = ['"""Compare by', 'comparisons."""', "bank = 'blue'  # board", "b"]
    assert "bank" in file_names(code, 3, 1)
    assert not {"by", "comparisons", "blue", "board"} & set(file_names(code, 3, 1))


# The child process

PRINTS_READY = "import sys, json, time, os\nprint(json.dumps({'ready': True}), flush=True)\n"
ECHO = PRINTS_READY + (
    "for line in sys.stdin:\n"
    "    asked = json.loads(line)\n"
    "    print(json.dumps({'names': [asked['text'], str(os.getpid())]}), flush=True)\n"
)
HANGS = PRINTS_READY + (
    "for line in sys.stdin:\n"
    "    asked = json.loads(line)\n"
    "    if asked['text'] == 'hang':\n"
    "        time.sleep(600)\n"
    "    print(json.dumps({'names': ['well', str(os.getpid())]}), flush=True)\n"
)
DIES = PRINTS_READY + "sys.stdin.readline()\nsys.exit(3)\n"
BABBLES = PRINTS_READY + "sys.stdin.readline()\nprint('no json', flush=True)\ntime.sleep(600)\n"


class Answers:
    """A completer with a child that runs `program`, and its answers."""

    def __init__(self, program: str, **limits: float) -> None:
        self.answers: dict[int, tuple[str, ...]] = {}
        self.completer = Completer(self.answers.__setitem__, [sys.executable, "-c", program], **limits)

    def wait(self, number: int) -> tuple[str, ...]:
        """Wait for the answer to a question, and return it."""
        wait_for(lambda: number in self.answers)
        return self.answers[number]


def ask(answers: Answers, number: int, text: str = "x") -> None:
    answers.completer.ask(Question(number, text, 1, 0))


def test_one_child_answers_many_questions_and_ends_with_the_completer() -> None:
    answers = Answers(ECHO)
    ask(answers, 1, "first")
    first = answers.wait(1)
    ask(answers, 2, "second")
    second = answers.wait(2)
    assert (first[0], second[0]) == ("first", "second")
    assert first[1] == second[1]
    answers.completer.close()
    wait_for(lambda: not is_alive(int(first[1])))


@pytest.mark.long
def test_a_hanging_child_is_replaced_for_the_next_question() -> None:
    answers = Answers(HANGS, answered_within_s=2.0)
    ask(answers, 1, "fine")
    child = int(answers.wait(1)[1])
    ask(answers, 2, "hang")
    assert 2 not in answers.answers  # who asks does not wait
    assert answers.wait(2) == ()
    assert not is_alive(child)
    ask(answers, 3, "fine")
    again = answers.wait(3)
    assert again[0] == "well"
    assert int(again[1]) != child
    answers.completer.close()


@pytest.mark.parametrize("program", [DIES, BABBLES, "raise SystemExit(1)"])
def test_after_some_broken_children_no_more_are_started(program: str) -> None:
    answers = Answers(program)
    for number in range(1, MOST_FAILURES + 1):
        assert answers.completer.is_available
        ask(answers, number)
        assert answers.wait(number) == ()
    wait_for(lambda: not answers.completer.is_available)
    ask(answers, 99)
    assert 99 not in answers.answers


def test_only_the_newest_question_is_answered() -> None:
    slow_start = "import time\ntime.sleep(0.3)\n" + ECHO
    answers = Answers(slow_start)
    for number in range(1, 20):
        ask(answers, number)
        time.sleep(0.001)
    answers.wait(19)
    assert answers.answers.keys() <= {1, 19}
    answers.completer.close()


@pytest.fixture(scope="module")
def real_child(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Return a completer with Jedi itself, which takes many seconds to read torch's stubs for the first time."""
    answers = Answers("", ready_within_s=120.0, answered_within_s=30.0)
    answers.completer._command = completion.default_command()
    return answers


def ask_jedi(answers: Answers, number: int, text: str) -> tuple[str, ...]:
    lines = text.split("\n")
    answers.completer.ask(Question(number, text, len(lines), len(lines[-1])))
    wait_for(lambda: number in answers.answers, 150)
    return answers.answers[number]


@pytest.mark.long
def test_jedi_knows_torch_without_importing_it(real_child: Answers) -> None:
    assert "synchronize" in ask_jedi(real_child, 4, "import torch\ntorch.cuda.")
    assert "zeros" in ask_jedi(real_child, 1, "import torch\ntorch.")
    assert "cuda" in ask_jedi(real_child, 2, "import torch\ndef f(x: torch.Tensor):\n    x.")
    assert "abc" in ask_jedi(real_child, 3, "def f(abc):\n    y = a")
    real_child.completer.ask(Question(5, "import torch\nx = torch.zeros(3)", 2, 12, "documentation"))
    name, signatures, text = real_child.wait(5)
    assert (name, signatures[:12]) == ("zeros", "zeros(*size,"), "the docstring's own, not the stub's"
    assert text.startswith("Returns a tensor filled with")
    child = real_child.completer._child
    assert child is not None
    if sys.platform == "linux":
        maps = Path(f"/proc/{child.pid}/maps").read_text()
        assert "libtorch" not in maps
    real_child.completer.close()


# In the app


def list_of(pilot: Pilot[None]) -> CompletionList:
    return main_screen(pilot).panes.editor.completions


async def write(pilot: Pilot[None], text: str, *, command: list[str] | None = None) -> Editor:
    """Put a text into the editor, and the cursor at its end; `command` starts the completer's child."""
    screen = main_screen(pilot)
    screen.editing._completer = Completer(partial(screen.call_later, screen.editing.take_answer), command or [])
    editor = await edit(pilot, text)
    editor.move_cursor(editor.document.end)
    return editor


async def open_list(pilot: Pilot[None]) -> None:
    await pilot.press("ctrl+@")
    await until(pilot, lambda: list_of(pilot).is_open, "for the list")


@pytest.mark.parametrize(("keys", "take", "after"), [("pha", "enter", "\n"), (["down"], "tab", "    ")])
async def test_the_list_narrows_and_a_key_takes_the_chosen_name(
    pilot: Pilot[None], keys: str | list[str], take: str, after: str
) -> None:
    editor = await write(pilot, "alpha = alphabet = 1\nal")
    await open_list(pilot)
    assert list_of(pilot).shown == ["alpha", "alphabet", "all"]
    await pilot.press(*keys)
    assert keys != "pha" or list_of(pilot).shown == ["alphabet"]
    await pilot.press(take)
    assert editor.text == "alpha = alphabet = 1\nalphabet"
    assert not list_of(pilot).is_open
    await pilot.press(take)
    assert editor.text == f"alpha = alphabet = 1\nalphabet{after}", "the key has its usual meaning again"


@pytest.mark.parametrize(
    "key", mostly_long(["left", "home", "space", "full_stop", "backspace", "escape"], ["left", "space", "escape"])
)
async def test_keys_that_leave_the_word_close_the_list(pilot: Pilot[None], key: str) -> None:
    editor = await write(pilot, "alpha = 1\na")
    await open_list(pilot)
    await pilot.press(key)
    await until(pilot, lambda: not list_of(pilot).is_open, "for the list to close")
    assert editor.has_focus
    assert key != "escape" or editor.text == "alpha = 1\na"


async def test_names_from_the_child_replace_names_from_the_file(env: AppEnv) -> None:
    def naming(names: str) -> list[str]:
        return [sys.executable, "-c", ECHO.replace("asked['text'], str(os.getpid())", names)]

    async with env.start() as pilot:
        editor = await write(pilot, "alpha = 1\nal", command=naming("'almanac', 'other'"))
        await open_list(pilot)
        await until(pilot, lambda: list_of(pilot).shown == ["almanac", "alpha", "all"], "for the names")
        await pilot.press("enter")
        assert editor.text == "alpha = 1\nalmanac"
        await write(pilot, "alpha = 1\nfrom torch import ", command=naming("'nn', 'cuda'"))
        await open_list(pilot)
        await until(pilot, lambda: list_of(pilot).shown == ["nn", "cuda"], "for the names")


async def test_a_hanging_child_blocks_neither_typing_nor_lists_nor_boxes(env: AppEnv) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    async with env.start() as pilot:
        editor = await write(pilot, "alpha = 1\n", command=command)
        await pilot.press(*"al")
        await open_list(pilot)
        await pilot.press(*"ph")
        assert list_of(pilot).shown == ["alpha"]
        await pilot.press("tab")
        assert editor.text == "alpha = 1\nalpha"
        editor = await write(pilot, "qwertz", command=command)
        await open_list(pilot)
        await until_shown(pilot, "reading PyTorch's names …")
        await pilot.press("tab")
        assert editor.text == "qwertz"
        await open_list(pilot)
        await pilot.press("enter")
        assert editor.text == "qwertz\n"
        await write(pilot, "alpha = 1", command=command)
        await pilot.press("alt+d")
        await until_shown(pilot, "Looking it up …")
        await pilot.press("escape")
        await until(pilot, lambda: main_screen(pilot).is_active, "for the main screen")
        editing = main_screen(pilot).editing
        editing.take_answer(editing._question, ("alpha", "", "too late"))
        await pilot.pause()
        assert "too late" not in screen_text(pilot.app)


async def test_late_names_are_dropped_and_nothing_to_complete_is_reported(pilot: Pilot[None]) -> None:
    await write(pilot, "alpha = 1\nal")
    await open_list(pilot)
    screen = main_screen(pilot)
    screen.editing.add_completions(screen.editing._question - 1, ("almost",))
    await pilot.pause()
    assert list_of(pilot).shown == ["alpha", "all"]
    await pilot.press("escape")
    screen.editing.add_completions(screen.editing._question, ("almost",))
    await pilot.pause()
    assert not list_of(pilot).is_open
    await write(pilot, "qwertz")
    await pilot.press("ctrl+@")
    await until_shown(pilot, "Nothing here to complete.")
    for text in ("", "x = ", "f(a, ", "return ", "x = 3"):
        await write(pilot, text)
        await pilot.press("ctrl+@")
        await until_shown(pilot, "Type a letter or a dot first.")
        assert not list_of(pilot).is_open


async def test_the_child_ends_with_the_app(env: AppEnv) -> None:
    command = [sys.executable, "-c", ECHO]
    async with env.start() as pilot:
        await write(pilot, "alpha = 1\nal", command=command)
        await open_list(pilot)
        completer = main_screen(pilot).editing._completer
        assert completer is not None
        await until(pilot, lambda: completer._child is not None, "for the child")
        assert completer._child is not None
        child = completer._child.pid
    wait_for(lambda: not is_alive(child))


@pytest.mark.parametrize("size", mostly_long([(80, 24), (140, 40)], [(80, 24)]), ids=str)
@pytest.mark.parametrize("row", [0, 20])
async def test_the_list_is_never_cut_at_the_screen_s_edge(pilot: Pilot[None], size: tuple[int, int], row: int) -> None:
    names = "\n".join(f"value_{number} = 1" for number in range(30)) + "\n" + "x" * 100
    await write(pilot, "\n" * row + "(" + " " * 66 + "value_\n" + names)
    editor = main_screen(pilot).panes.editor
    editor.move_cursor((row, 73))
    await pilot.pause()
    await open_list(pilot)
    await until_shown(pilot, "1 of 30")
    lines = screen_lines(pilot.app)
    width, height = size
    region = list_of(pilot).region
    assert Region(0, 0, width, height).contains_region(region)
    assert any("value_1" in line[region.x : region.right] for line in lines)
    await pilot.press("up")
    await until_shown(pilot, "30 of 30")
    chosen = list_of(pilot).chosen
    assert chosen is not None
    assert any(chosen in line[region.x : region.right] for line in screen_lines(pilot.app))


@pytest.mark.parametrize("size", mostly_long([(80, 24), (140, 40)], [(80, 24)]), ids=str)
async def test_the_list_of_names_looks_so(pilot: Pilot[None]) -> None:
    await write(pilot, "import torch\n\nsigma = 1\n\ndef twice(number):\n    s")
    await open_list(pilot)
    await until_shown(pilot, "sigma")
    await until(pilot, lambda: main_screen(pilot).files.is_saved, "for the text to be saved")
    await assert_golden(pilot, "completion")


# Documentation


REPLIES = PRINTS_READY + (
    "for line in sys.stdin:\n"
    "    asked = json.loads(line)\n"
    "    place = asked['text'].split(chr(10))[asked['line'] - 1][:asked['column']]\n"
    "    text = ':attr:`size` of [bold]' + place + '[/]' + ''.join(f'{chr(10)}line {n}' for n in range(60))\n"
    "    print(json.dumps({asked['about']: ['zeros', 'zeros(*size, out=None)', text]}), flush=True)\n"
)


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], list[str]]:
    """Return a function that looks a place up, the end of some words in a text, as the child does."""
    from gpututor.app.editor.completion_process import documentation

    def look_up(text: str, words: str) -> list[str]:
        before = text[: text.index(words) + len(words)].split("\n")
        return documentation(text, len(before), len(before[-1]))

    return look_up


@pytest.mark.parametrize("words", ["def mine(a", "return a", "\nmine(a"])
def test_a_parameter_is_documented_with_its_declaration_and_function(
    documented: Callable[[str, str], list[str]], words: str
) -> None:
    text = "def mine(a: int = 2) -> int:\n    return a + 1\n\nmine(a=1)\n"
    assert documented(text, words) == ["a", "a: int=2", "It is a parameter of mine()."]
    assert documented("double = lambda b: 2 * b\n", "2 * b") == ["b", "b", "It is a parameter."]


def test_documentation_is_shown_for_own_functions_and_the_surrounding_call(
    documented: Callable[[str, str], list[str]],
) -> None:
    text = 'def mine(a: int, b=2) -> int:\n    """Add [them]."""\n    return a + b\n\nmine(1, 2)\n'
    expected = ["mine", "mine(a: int, b=2) -> int", "Add [them]."]
    assert documented(text, "def mi") == documented(text, "\nmine(1") == expected
    assert documented(text, "mine(1, ") == expected
    assert documented("x = nowhere(", "nowhere(") == []
    assert documented("x = ((", "x = ((") == []


@pytest.mark.parametrize("size", mostly_long([(80, 24), (140, 40)], [(80, 24)]), ids=str)
async def test_a_key_shows_signature_and_docstring_in_a_box_that_scrolls(env: AppEnv, size: tuple[int, int]) -> None:
    async with env.start(size) as pilot:
        editor = await write(pilot, "x = torch.zeros", command=[sys.executable, "-c", REPLIES])
        editor.move_cursor((0, 12))
        await pilot.press("alt+d")
        await until_shown(pilot, "zeros(*size, out=None)")
        lines = screen_lines(pilot.app)
        assert any("│ torch.zeros  " in line for line in lines), f"the name in full: {lines}"
        assert "size of [bold]x = torch.ze[/]" in screen_text(pilot.app), "no markup, no references"
        assert "line 8" in screen_text(pilot.app)
        assert "line 59" not in screen_text(pilot.app)
        assert "Esc closes" in screen_text(pilot.app)
        await pilot.press("G")
        await until_shown(pilot, "line 59")
        await pilot.press("escape")
        await until(pilot, lambda: main_screen(pilot).is_active, "for the main screen")
        assert editor.text == "x = torch.zeros"
        assert editor.has_focus


def test_paragraphs_of_a_docstring_are_joined_but_no_code_and_lists() -> None:
    docstring = "\n".join(
        (
            "A sequence of executions that belongs to a specific device,",
            "independent from other streams.",
            "",
            "    number (int): a number that is used for nothing at all here",
            "        and may be left out.",
            "    other (int): another number",
            "",
            "    >>> one_name_that_is_long = torch.zeros(1, 2, 3, 4, 5, 6, 7)",
            "    >>> other",
        )
    )
    lines = documentation_content(["f", "f()", docstring], 200).plain.split("\n")
    assert lines[2].endswith("specific device, independent from other streams.")
    assert lines[4].endswith("at all here and may be left out.")
    assert lines[5].strip() == "other (int): another number"
    assert [line.strip()[:3] for line in lines[7:]] == [">>>", ">>>"]


async def test_the_box_shows_a_linked_name_or_says_that_nothing_was_found(env: AppEnv) -> None:
    async with env.start() as pilot:
        await write(pilot, "alpha = 1")
        await pilot.press("escape", "K")
        await until_shown(pilot, "shows your code")
        await pilot.press("e", "alt+d")
        await until_shown(pilot, "No documentation found.")
        await pilot.press("escape")
        await write(pilot, "", command=[sys.executable, "-c", REPLIES])
        main_screen(pilot).navigator.follow("name:torch.cuda.Event")
        await until_shown(pilot, "size of [bold]torch.cuda.Event[/]")
