"""Every command of the main screen, declared once: keys, palette, footers and help all come from here.

Those of the other screens are in `screen_commands`, which comes after the first paint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from textual.binding import Binding


class Pane(StrEnum):
    """What a learner can be looking at. The order is that of the tabs."""

    COURSE = "course"
    LESSON = "lesson"
    TASK = "task"
    CODE = "code"
    RESULTS = "results"
    HINTS = "hints"

    @property
    def heading(self) -> str:
        return self.value.capitalize()

    @property
    def digit(self) -> str:
        return str(list(Pane).index(self) + 1)


@dataclass(frozen=True)
class Command:
    """Something that a learner can do."""

    handler: str
    """Path of the method that does it, from the main screen; on another screen, a name."""
    keys: tuple[str, ...]
    """Keys that work everywhere, in the editor too: control and function keys. The first one is shown."""
    letters: tuple[str, ...]
    """Keys that work outside the editor. The first one is shown there."""
    title: str
    """One or two words, for the footer and the palette."""
    help: str
    """A sentence."""
    group: str = ""
    """Its heading on the help screen."""
    editor_only: bool = False
    action: str = ""
    """The screen's action, where it is not called as the id."""
    shown: str = ""
    """The keys as the help writes them, where that is not one by one."""
    bar: tuple[str, str] | None = None
    """Key and words for the screen's line of keys; None where the line does not name it."""
    more: tuple[tuple[str, str], ...] = ()
    """Further keys with actions of their own, such as those of the other direction."""
    palette: tuple[str, ...] | None = None
    """Other names in the palette, of a command of another screen than the main one; None where it is not there."""

    @property
    def bound(self) -> tuple[tuple[str, str], ...]:
        """Each key outside an editor with its action."""
        own = tuple((key, self.action or self.id) for key in self.letters)
        return (*own, *((key, action) for keys, action in self.more for key in keys.split(",")))

    @property
    def id(self) -> str:
        """The name of the method."""
        return self.handler.rpartition(".")[2].removeprefix("action_")


MOVING = "Moving about"
WORKING = "Working on an exercise"
EDITING = "In the editor"
PROGRAM = "The program"

COMMANDS = (
    Command("navigator.show_course", ("f2",), ("1", "l"), "Course", "Show the list of lessons and exercises.", MOVING),
    Command(
        "navigator.show_lesson", ("ctrl+l",), ("2",), "Lesson", "Read the lesson that the exercise belongs to.", MOVING
    ),
    Command("navigator.show_task", ("f3", "ctrl+t"), ("3", "t"), "Task", "Read what the exercise asks for.", MOVING),
    Command("navigator.show_code", ("f4",), ("4", "e"), "Code", "Go to your file.", MOVING),
    Command("navigator.show_results", ("f6", "ctrl+r"), ("5",), "Results", "See what the checks said.", MOVING),
    Command("navigator.next_pane", (), ("tab",), "Next pane", "Go to the pane that follows.", MOVING),
    Command("navigator.previous_pane", (), ("shift+tab",), "Previous pane", "Go to the pane before.", MOVING),
    Command("navigator.next_exercise", ("ctrl+n", "f9"), ("n",), "Next", "Open the next exercise.", MOVING),
    Command("navigator.previous_exercise", ("shift+f9",), ("p",), "Previous", "Open the exercise before.", MOVING),
    Command("navigator.search", ("shift+f3",), ("slash",), "Search", "Find words in lessons, tasks and names.", MOVING),
    Command("navigator.jump", ("ctrl+o",), ("semicolon",), "Jump", "Letters appear: press one, and be there.", MOVING),
    Command("navigator.go_back", ("alt+left",), ("backspace",), "Back", "Back to where you followed a link.", MOVING),
    Command("runs.run_checks", ("ctrl+s", "f5"), ("r",), "Run", "Save your file and run the checks.", WORKING),
    Command("cancel", ("escape", "shift+f5"), (), "Stop", "Stop the run; else leave the editor.", WORKING),
    Command("go_to_failure", ("f12",), ("f",), "Go to line", "Go to the line that a failed check points at.", WORKING),
    Command("attempts.show_device", ("f10",), ("d",), "Device", "See what the device did in your last run.", WORKING),
    Command(
        "attempts.compare", ("shift+f11",), ("V",), "Compare", "Set your last run beside another attempt.", WORKING
    ),
    Command("attempts.export_trace", (), ("X",), "Export trace", "Write your last run's trace, for Perfetto.", WORKING),
    Command("open_check", (), ("space",), "Open", "Open or close the check that has the cursor.", WORKING),
    Command(
        "attempts.show_all_text",
        ("shift+f12",),
        ("v",),
        "All text",
        "Read all that the run said, however long.",
        WORKING,
    ),
    Command(
        "attempts.show_history",
        ("shift+f6",),
        ("a",),
        "Attempts",
        "See your attempts, and what changed between them.",
        WORKING,
    ),
    Command(
        "external_editor.open_file", ("shift+f4",), ("o",), "Own editor", "Open your file in your own editor.", WORKING
    ),
    Command(
        "learning.show_hints",
        ("f7", "ctrl+g"),
        ("h", "6"),
        "Hint",
        "Show the hints; once more for the next one.",
        WORKING,
    ),
    Command("learning.show_solution", ("f8",), ("s",), "Solution", "Compare your file with the solution.", WORKING),
    Command(
        "learning.reset", ("shift+f10",), ("x",), "Reset", "Start again from the starter; your file is kept.", WORKING
    ),
    Command(
        "panes.editor.action_toggle_comment",
        ("ctrl+underscore", "f11"),
        (),
        "Comment",
        "Comment lines out, or in again.",
        EDITING,
        True,
    ),
    Command("editing.find", ("ctrl+f",), (), "Find", "Find and replace in your file.", EDITING, True),
    Command("panes.editor.action_select_all", ("alt+a",), (), "Select all", "Select your whole file.", EDITING, True),
    Command(
        "editing.complete",
        ("ctrl+@", "ctrl+space"),
        (),
        "Complete",
        "Show the names that can stand here.",
        EDITING,
        True,
    ),
    Command(
        "editing.move_lines_up", ("alt+up",), (), "Line up", "Move the line, or the selected ones, up.", EDITING, True
    ),
    Command(
        "editing.move_lines_down",
        ("alt+down",),
        (),
        "Line down",
        "Move the line, or the selected ones, down.",
        EDITING,
        True,
    ),
    Command(
        "panes.editor.action_duplicate_lines",
        ("alt+shift+down",),
        (),
        "Duplicate",
        "Put the line a second time below.",
        EDITING,
        True,
    ),
    Command(
        "editing.switch_costs", ("shift+f8",), ("c",), "Costs", "Show at each line what it cost, or hide it.", EDITING
    ),
    Command(
        "learning.show_progress",
        ("shift+f7",),
        ("w",),
        "Progress",
        "How far you are, and what is worth repeating.",
        PROGRAM,
    ),
    Command(
        "runs.show_devices",
        ("shift+f1",),
        ("D",),
        "Devices",
        "See what is here; choose where your runs happen.",
        PROGRAM,
    ),
    Command(
        "show_settings", ("shift+f2",), ("comma",), "Settings", "Colours, editor, motion, when checks run.", PROGRAM
    ),
    Command("attempts.save_picture", (), ("S",), "Save screen", "Write a picture of the screen into exports.", PROGRAM),
    Command("show_help", ("f1",), ("question_mark",), "Help", "Show the keys.", PROGRAM),
    Command("leave", ("ctrl+q",), ("q",), "Quit", "Save and leave.", PROGRAM),
)

BY_ID = {command.id: command for command in COMMANDS}

OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "show_course": ("list",),
    "show_code": ("editor",),
    "search": ("find text",),
    "run_checks": ("grade",),
    "cancel": ("cancel",),
    "go_to_failure": ("failure",),
    "show_device": ("trace",),
    "compare": ("beside",),
    "export_trace": ("Perfetto",),
    "show_all_text": ("output",),
    "show_history": ("history",),
    "show_solution": ("diff",),
    "reset": ("starter",),
    "toggle_comment": ("uncomment",),
    "find": ("replace",),
    "move_lines_up": ("move up",),
    "move_lines_down": ("move down",),
    "duplicate_lines": ("copy line",),
    "show_progress": ("statistics",),
    "show_devices": ("models", "doctor"),
    "show_settings": ("options",),
    "save_picture": ("screenshot",),
    "show_help": ("keys",),
    "leave": ("exit",),
}
"""What else commands are called, by their ids: the palette finds them by these words, too."""

DEVICE_TABS = {
    "Timeline": "When each kernel and copy of your last run ran.",
    "Memory": "What your last run held in the device's memory.",
    "Times": "How long your last run took, beside the baseline.",
    "Lines": "What each line cost in your last run.",
    "Hazards": "What may go wrong in your last run, and what is worth changing.",
}
"""The tabs of the device screen in their order, each with a sentence: the palette opens them, too."""

FOOTERS: dict[Pane, tuple[str, ...]] = {
    Pane.COURSE: ("show_task", "show_code", "run_checks", "next_exercise", "show_help", "leave"),
    Pane.LESSON: (
        "go_back",
        "show_task",
        "show_code",
        "show_course",
        "next_exercise",
        "search",
        "jump",
        "show_help",
        "leave",
    ),
    Pane.TASK: (
        "go_back",
        "show_code",
        "run_checks",
        "show_hints",
        "show_course",
        "show_lesson",
        "search",
        "show_help",
        "leave",
    ),
    Pane.CODE: ("run_checks", "show_task", "show_results", "show_hints", "show_course", "show_help", "leave"),
    Pane.RESULTS: (
        "open_check",
        "go_to_failure",
        "show_code",
        "run_checks",
        "show_device",
        "show_hints",
        "next_exercise",
        "show_history",
        "show_solution",
        "show_help",
        "leave",
    ),
    Pane.HINTS: ("show_hints", "show_code", "show_task", "run_checks", "show_solution", "show_help", "leave"),
}
"""What the footer names where it can do something now, the most useful first; the last two always stay."""


@dataclass(frozen=True)
class About:
    """What the help says of a pane before anything else."""

    sentence: str
    keys: tuple[tuple[str, str], ...]
    """(keys, what they do) of its own, beside the commands."""


_TEXT_KEYS = (
    ("j k  Space", "Scroll; g and G go to the top and to the end."),
    ("→ ←", "Choose the next link, or the one before."),
    ("Enter", "Follow the chosen link. Backspace comes back."),
)
ABOUT = {
    Pane.COURSE: About(
        "All lessons and exercises, and how far you are in each.",
        (
            ("j k  g G", "Down, up, to the top, to the end."),
            ("Enter", "Open the exercise, or read the lesson."),
            ("/", "Type words to narrow the list; Esc shows all again."),
            ("v", "Show what is to do, started, passed, or all."),
        ),
    ),
    Pane.LESSON: About("The lesson that the exercise belongs to, to read before it.", _TEXT_KEYS),
    Pane.TASK: About("What the exercise asks for, and what it is graded on.", _TEXT_KEYS),
    Pane.CODE: About(
        "Your own file. It is saved while you type; letters are text here, so commands have other keys.",
        (("Esc", "Leave the editor: then letters are commands."),),
    ),
    Pane.RESULTS: About(
        "What the checks said in the last run, one sentence each; a failed one says what to try.",
        (
            ("j k  g G", "From check to check."),
            ("Enter", "Go to the line that the check points at."),
            ("Space", "Open the check, or close it."),
            ("v", "Read everything in full, also what is cut here."),
        ),
    ),
    Pane.HINTS: About("Help in steps. Each hint says a little more than the one before.", _TEXT_KEYS),
}

_KEY_NAMES = {
    "escape": "Esc",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "question_mark": "?",
    "slash": "/",
    "semicolon": ";",
    "backspace": "Bksp",
    "alt+left": "Alt+←",
    "comma": ",",
    "tab": "Tab",
    "shift+tab": "Shift+Tab",
    "ctrl+underscore": "^/",
    "ctrl+@": "^Space",
    "ctrl+space": "^Space",
    "alt+up": "Alt+↑",
    "alt+down": "Alt+↓",
    "alt+shift+down": "Alt+Shift+↓",
}


def key_name(key: str) -> str:
    """How a key is written for people: `^s`, `F5`, `Esc`, `r`."""
    if key in _KEY_NAMES:
        return _KEY_NAMES[key]
    if key.startswith("ctrl+"):
        return f"^{key.removeprefix('ctrl+')}"
    return "+".join(part.capitalize() if len(part) > 1 else part for part in key.split("+"))


def shown_key(command: Command, in_editor: bool) -> str:
    """The key to name in a footer."""
    key = command.keys[0] if command.keys and (in_editor or not command.letters) else command.letters[0]
    return key_name(key)


class KeyHint(NamedTuple):
    """A key and its action, for a bar of keys."""

    key: str
    title: str
    command: str = ""
    """Id of the command that a click runs; empty where there is none."""


def footer(
    ids: Sequence[str], *, in_editor: bool, keys: Iterable[tuple[str, str]] = ()
) -> tuple[list[KeyHint], list[KeyHint]]:
    """Hints for the commands `ids`, the most useful first, behind `keys`; the last two ids are to stay always."""
    hints = [KeyHint(shown_key(BY_ID[id], in_editor), BY_ID[id].title, id) for id in ids]
    return [*(KeyHint(*key) for key in keys), *hints[:-2]], hints[-2:]


def shown_keys(command: Command) -> str:
    """One key for outside the editor, and one that works in it, too."""
    return "  ".join(key_name(key) for key in (*command.letters[:1], *command.keys[:1]))


def _as_sent(key: str) -> str:
    """What most terminals send for a function key with Shift: F13 to F24; empty for other keys."""
    number = key.removeprefix("shift+f")
    return f"f{int(number) + 12}" if key != number and number.isdigit() else ""


def bindings() -> Iterator[Binding]:
    """Bind the keys of the main screen; those that work in the editor have priority, and act after its text."""
    for command in COMMANDS:
        for key in (*command.keys, *(shifted for name in command.keys if (shifted := _as_sent(name)))):
            yield Binding(key, f"after_text('{command.id}')", command.title, show=False, priority=True)
        for letter in command.letters:
            yield Binding(letter, f"run_command('{command.id}')", command.title, show=False)
