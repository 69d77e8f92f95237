"""Every command of the other screens, their tabs and lists, declared once: for keys, palette, bars of keys and help."""

from __future__ import annotations

from dataclasses import replace

from textual.binding import Binding, BindingType

from gpututor.app.commands import COMMANDS, Command, KeyHint, key_name


def _keys(
    id: str,
    letters: str,
    action: str,
    title: str,
    help: str,
    *,
    shown: str = "",
    bar: tuple[str, str] | None = None,
    more: tuple[tuple[str, str], ...] = (),
    palette: tuple[str, ...] | None = None,
) -> Command:
    """Declare keys of another screen than the main one; without `letters`, a widget of the screen answers them."""
    names = tuple(letters.split(",")) if letters else ()
    return Command(id, (), names, title, help, action=action, shown=shown, bar=bar, more=more, palette=palette)


def _pages(pages: int, action: str, title: str, help: str, *, first: int = 0, turn: str = "turn") -> Command:
    """Declare digits and Tab, which go through pages."""
    numbers = range(2, pages + 1)
    digits = tuple((str(number), f"{action}({number - 1 + first})") for number in numbers)
    turns = (("tab", f"{turn}(1)"), ("shift+tab", f"{turn}(-1)"))
    bar = (f"1-{pages}", title.lower())
    return _keys("pages", "1", f"{action}({first})", title, help, shown=f"1-{pages}", bar=bar, more=(*digits, *turns))


_SAVE_SCREEN = _keys("save_screen", "S", "", "Save screen", "Write a picture of the screen into exports.")
_SCROLL = (("k", "scroll(-1)"),)
_OTHER_ROWS = (("k", "step(-1)"),)

# fmt: off
SCREENS: dict[str, tuple[Command, ...]] = {
    "main": COMMANDS,
    "trace": (
        _pages(5, "tab", "Tab", "The tabs; Tab and Shift+Tab go through them.", turn="next_tab"),
        _keys(
            "case", "c", "case(1)", "Call", "Another call of your function.", shown="c C", bar=("c", "call"),
            more=(("C", "case(-1)"),),
        ),
        _keys("scenario", "s", "scenario(1)", "Scenario", "Another scenario.", bar=("s", "scenario")),
        _keys("compare", "V,shift+f11,f23", "", "Compare", "Compare the attempt with another.", bar=("V", "compare")),
        _keys("export", "X", "", "Export", "Write the trace of this call, for Perfetto.", bar=("X", "export")),
        _keys("run", "r,f5,ctrl+s", "", "Run", "Back, and run the checks again.", bar=("r", "run the checks")),
        _SAVE_SCREEN,
        _keys("help", "question_mark,f1", "", "Help", "How to read the tab, and its keys.", bar=("?", "help")),
        _keys("close", "escape,q,d,f10", "", "Back", "Back.", shown="Esc  q  d", bar=("Esc", "back")),
    ),
    "compare": (
        _pages(3, "page", "Page", "The pages; Tab and Shift+Tab go through them.", turn="next_page"),
        _keys(
            "other", "a", "other(1)", "Beside another", "Beside another attempt, or the baseline.", shown="a A",
            bar=("a", "beside another"), more=(("A", "other(-1)"),),
        ),
        _keys(
            "case", "c", "case(1)", "Call", "Another call of your function.", shown="c C", bar=("c", "call"),
            more=(("C", "case(-1)"),),
        ),
        _keys("scenario", "s", "scenario(1)", "Scenario", "Another scenario.", bar=("s", "scenario")),
        _SAVE_SCREEN,
        _keys("help", "question_mark,f1", "", "Help", "How to read the page, and its keys.", bar=("?", "help")),
        _keys("close", "escape,q,V,shift+f11,f23", "", "Back", "Back.", shown="Esc  q  V", bar=("Esc", "back")),
    ),
    "history": (
        _keys("rows", "", "", "Attempt", "From attempt to attempt; the best has a mark.", shown="j k  ↑ ↓"),
        _keys(
            "report", "enter,o", "choose('report')", "Report",
            "Show what the checks said of it; your file stays as it is.", shown="Enter  o", bar=("Enter", "report"),
        ),
        _keys(
            "text", "b", "choose('text')", "Text", "Put its text into your file. What was there is kept in .backups.",
            bar=("b", "take its text back"),
        ),
        _keys("device", "d,f10", "choose('device')", "Device", "See what the device did in it.", bar=("d", "device")),
        _keys(
            "compare", "V,shift+f11,f23", "choose('compare')", "Compare", "Set it beside another attempt.",
            bar=("V", "compare"),
        ),
        _keys("changes", "tab", "scroll_changes", "Changes", "Show more of what changed in the file."),
        _keys("close", "escape,q,a,shift+f6,f18", "", "Back", "Back.", shown="Esc  q  a", bar=("Esc", "back")),
        _keys("help", "question_mark,f1", "", "Help", "Show these keys.", bar=("?", "help")),
    ),
    "devices": (
        _keys("choose", "", "", "Choose", "Let runs happen there, or on that GPU.", bar=("Enter", "chooses")),
        _keys("rows", "j", "step(1)", "Rows", "Down and up.", shown="j k  ↓ ↑", more=_OTHER_ROWS),
        _keys(
            "scroll", "pagedown", "scroll_page(1)", "Scroll", "Scroll the page.", shown="PgDn PgUp",
            more=(("pageup", "scroll_page(-1)"),),
        ),
        replace(_pages(3, "page", "Page", "The pages; Tab turns them.", first=1), bar=("Tab", "turns the page")),
        _keys("look_again", "r", "", "Look again", "Look for faults anew.", bar=("r", "looks again")),
        _keys("close", "escape,q,D,shift+f1,f13", "", "Close", "Close it.", bar=("Esc", "closes")),
    ),
    "progress": (
        _keys("open", "", "", "Open", "Open the exercise, or the lesson.", bar=("Enter", "opens")),
        _keys("again", "x", "", "Again", "Start the exercise anew; your file is kept in .backups."),
        _keys("rows", "j", "step(1)", "Rows", "Down and up.", shown="j k  ↓ ↑", more=_OTHER_ROWS),
        _keys("ends", "g", "end('first')", "Ends", "To the top and to the end.", more=(("G", "end('last')"),)),
        replace(_pages(2, "page", "Page", "The pages; Tab turns them.", first=1), bar=("Tab", "turns the page")),
        _keys("close", "escape,q,w,shift+f7,f19", "", "Close", "Close it.", bar=("Esc", "closes")),
    ),
    "search": (
        _keys("open", "", "", "Open", "Go to the place that was found.", bar=("Enter", "opens")),
        _keys(
            "rows", "down,ctrl+n", "move('cursor_down')", "Choose", "From place to place.", shown="↓ ↑",
            bar=("↓ ↑", "choose"),
            more=(("up", "move('cursor_up')"), ("pagedown", "move('page_down')"), ("pageup", "move('page_up')")),
        ),
        _keys("close", "escape", "", "Close", "Close it.", bar=("Esc", "closes")),
    ),
    "settings": (
        _keys(
            "turn", "right,l,space", "turn(1)", "Change", "The next value, or the one before.", shown="← →",
            bar=("← →", "changes"), more=(("left,h", "turn(-1)"),),
        ),
        _keys("rows", "j", "step(1)", "Rows", "Down and up.", shown="j k  ↓ ↑", more=_OTHER_ROWS),
        _keys("next", "", "", "Next", "The next value, or a line to type in.", bar=("Enter", "the next one")),
        _keys("close", "escape,q,comma,shift+f2,f14", "", "Close", "Close it.", bar=("Esc", "closes")),
    ),
    "text": (
        _keys("scroll", "j", "scroll(1)", "Scroll", "Down and up.", bar=("↓ ↑ Space", "scroll"), more=_SCROLL),
        _keys("page", "space", "", "Page", "A page on."),
        _keys("ends", "g", "end('home')", "Ends", "To the top and to the end.", more=(("G", "end('end')"),)),
        _keys("close", "escape,q,f1,question_mark,enter", "", "Close", "Close it.", bar=("Esc", "closes")),
    ),
    "all_text": (
        _keys("scroll", "", "", "Scroll", "Down and up.", bar=("j k", "scroll")),
        _keys("ends", "", "", "Ends", "To the top and to the end.", bar=("g G", "top and end")),
        _keys("close", "escape,q,v,enter,shift+f12,f24", "", "Close", "Close it.", bar=("Esc", "closes")),
    ),
    "diff": (
        _keys(
            "next", "right_square_bracket,n", "walk(1)", "Next change", "Go to the next change.", bar=("]", "next")
        ),
        _keys(
            "before", "left_square_bracket,p", "walk(-1)", "Change before", "Go to the change before.",
            bar=("[", "before"),
        ),
        _keys(
            "scroll", "j", "scroll('down')", "Scroll", "Down and up.", bar=("j k", "scroll"),
            more=(("k", "scroll('up')"),),
        ),
        _keys("ends", "g", "scroll('home')", "Ends", "To the top and to the end.", more=(("G", "scroll('end')"),)),
        _keys("close", "escape,q,enter", "", "Close", "Close it.", bar=("Esc", "closes")),
    ),
    "finished": (
        _keys("next", "n,f9", "", "Next", "Open the next exercise.", bar=("n", "opens")),
        _keys(
            "progress", "w,shift+f7,f19", "leave('progress')", "Progress",
            "How far you are, and what is worth repeating.", bar=("w", "your progress"),
        ),
        _keys("scroll", "j", "scroll(1)", "Scroll", "Down and up.", more=_SCROLL),
        _keys("close", "escape,q,enter,space", "leave('')", "Stay", "Stay here.", bar=("Esc", "stays here")),
    ),
    "welcome": (
        _keys("begin", "enter,space", "app.begin", "Begin", "Make the folder; go to the first exercise.",
              bar=("Enter", "begins")),
        _keys("quit", "q,escape", "app.quit", "Quit", "Leave.", bar=("q", "leaves")),
    ),
    "question": (
        _keys("before", "left,up", "app.focus_previous", "Answer before", "To the answer before."),
        _keys("next", "right,down", "app.focus_next", "Next answer", "To the next answer."),
        _keys("give_up", "escape", "", "Leave", "Give the harmless answer."),
    ),
    "class": (
        _keys(
            "cells", "j", "step('cursor_down')", "Cells", "From cell to cell; g and G to the top and to the end.",
            shown="h j k l  ← ↓ ↑ →", bar=("j k", "scroll"),
            more=(("k", "step('cursor_up')"), ("g", "step('first')"), ("G", "step('last')")),
        ),
        _keys("open", "", "", "Open", "Open what was handed in there.", shown="Enter", bar=("Enter", "open")),
        _keys(
            "students", "", "", "Students", "On the page of exercises: show its students.", shown="Enter",
            bar=("Enter", "its students"),
        ),
        _keys(
            "filter", "slash", "", "Filter", "Filter; Enter goes to the table, Esc shows all again.",
            bar=("/", "filter"), palette=("search", "find"),
        ),
        _keys("order", "s", "", "Order", "Order by id, by name, by points.", bar=("s", "order"), palette=("sort",)),
        replace(_pages(3, "page", "Page", "Students, exercises, review."), shown="1 2 3  Tab", bar=None),
        _keys(
            "read_again", "f5,ctrl+r", "", "Read again", "Read the class again, as it is by now.", shown="F5  ^r",
            bar=("F5", "read again"), palette=("reload",),
        ),
        _keys("palette", "", "", "Palette", "Find a command, a student or an exercise by its name.", shown="^p"),
        _keys("back", "escape", "", "Show all", "Show all again, then the first page."),
        _keys("help", "question_mark,f1", "", "Help", "What is shown, and the keys.", bar=("?", "help"), palette=()),
        _keys("quit", "q,ctrl+q", "app.quit", "Quit", "Leave.", shown="q", bar=("q", "quit")),
    ),
    "submission": (
        _keys("checks", "", "", "Checks", "From check to check.", shown="j k  g G"),
        _keys("line", "", "", "Line", "Go to the line that the check points at.", shown="Enter"),
        _keys("open_check", "space", "", "Open", "Open the check, or close it."),
        _keys(
            "attempt", "right_square_bracket", "attempt(1)", "Attempt",
            "This student's next attempt, or the one before.", shown="] [", bar=("] [", "attempt"),
            more=(("left_square_bracket", "attempt(-1)"),),
        ),
        _keys(
            "other_side", "tab,shift+tab", "", "Text", "From the checks to the text, and back.", shown="Tab",
            bar=("Tab", "text"),
        ),
        _keys(
            "device", "d,f10", "", "Device", "What the devices did.", shown="d", bar=("d", "device"),
            palette=("trace", "timeline"),
        ),
        _keys("again", "R", "", "Grade again", "Grade it again.", bar=("R", "grade again"), palette=("regrade",)),
        _keys(
            "next", "n", "step(1)", "Next student", "The next student's, among those shown.", bar=("n p", "next, back"),
            palette=(),
        ),
        _keys("previous", "p", "step(-1)", "Previous student", "The one before.", palette=()),
        _keys("all_text", "v", "", "All text", "Read everything in full.", bar=("v", "all"), palette=()),
        _keys("help", "question_mark,f1", "", "Help", "What is shown, and the keys.", bar=("?", "help"), palette=()),
        _keys(
            "back", "escape,q", "", "Back", "Stop a grading; else back to the class.", shown="Esc",
            bar=("Esc", "back"), palette=(),
        ),
    ),
}
# fmt: on
"""The commands of every screen, in the order of its help and its bar of keys."""

# fmt: off
_ROWS = _keys(
    "rows", "j", "list('cursor_down')", "Choose", "Down and up.", shown="↑↓", bar=("↑↓", "choose"),
    more=(("k", "list('cursor_up')"),),
)
_LINE = _keys("line", "", "", "Line", "Go to that line in your file.", bar=("Enter", "line"))
_ENDS = _keys("ends", "g", "list('first')", "Ends", "To the top and to the end.", more=(("G", "list('last')"),))
_TIMELINE = (
    _keys(
        "event", "left,h", "step(-1)", "Event",
        "The event before, the next one; the row's first and last are g and G.", shown="← →  h l",
        bar=("←→", "event"),
        more=(("right,l", "step(1)"), ("g,home", "end_of_lane(-1)"), ("G,end", "end_of_lane(1)")),
    ),
    _keys(
        "lane", "up,k", "lane(-1)", "Lane", "Another row, at the same time.", shown="↑ ↓  k j", bar=("↑↓", "lane"),
        more=(("down,j", "lane(1)"),),
    ),
    _keys(
        "zoom", "plus,equals_sign", "zoom(1)", "Zoom", "Zoom, around the event.", shown="+ -", bar=("+-", "zoom"),
        more=(("minus,underscore", "zoom(-1)"),),
    ),
    _keys(
        "line", "enter", "go_to_line", "Line", "Go to the line of your file that caused the event.",
        bar=("Enter", "line"),
    ),
    _keys(
        "stop", "n", "stop(1)", "Hazard, wait", "The next hazard or wait of the host, the one before.",
        bar=("n", "hazard, wait"), more=(("N", "stop(-1)"),),
    ),
    _keys(
        "all", "z", "zoom_to_event", "All", "Zoom to the event; see everything.", shown="z  0", bar=("0", "all"),
        more=(("0", "whole"),),
    ),
    _keys(
        "pan", "shift+left,left_square_bracket", "pan(-1)", "Move", "Earlier and later; shift and an arrow key too.",
        shown="[ ]", bar=("[ ]", "move"), more=(("shift+right,right_square_bracket", "pan(1)"),),
    ),
    _keys(
        "launch", "space", "other_end", "Launch", "From a launch to what was launched, and back.",
        bar=("Space", "launch"),
    ),
)
_OTHER = _keys("other", "o", "", "Other one", "Give the keys to the other timeline.", bar=("o", "other one"))

WIDGETS: dict[str, tuple[Command, ...]] = {
    "chart": _TIMELINE,
    "timeline": (
        *_TIMELINE,
        _keys(
            "words", "pagedown", "scroll_words(1)", "Words", "Scroll the words below.", shown="PgUp PgDn",
            more=(("pageup", "scroll_words(-1)"),),
        ),
    ),
    "timelines": (
        *_TIMELINE[:3], _OTHER, *(command for command in _TIMELINE[3:] if command.id in ("line", "all", "pan")),
    ),
    "memory": (
        _keys(
            "read", "left,h", "read(-1)", "Read", "Read the curve, a column on or back.", shown="←→",
            bar=("←→", "read"), more=(("right,l", "read(1)"),),
        ),
        _keys(
            "step", "shift+left,left_square_bracket", "step(-1)", "Change by change",
            "The change before, the next one.", shown="[ ]", bar=("[ ]", "change by change"),
            more=(("shift+right,right_square_bracket", "step(1)"),),
        ),
        _keys("peak", "p", "go('peak')", "Peak", "To the peak.", bar=("p", "peak")),
        _keys("line", "enter", "", "Line", "Go to the line that took memory last, or gave it back.",
              bar=("Enter", "line")),
        _keys(
            "device", "down,j", "device(1)", "Device", "Another device.", shown="↑↓", bar=("↑↓", "device"),
            more=(("up,k", "device(-1)"),),
        ),
        _keys(
            "ends", "g,home", "go('begin')", "Ends", "To the beginning and to the end.",
            more=(("G,end", "go('end')"),),
        ),
    ),
    "list": (_ROWS, _LINE, _ENDS),
    "lines": (
        _ROWS, _keys("order", "o", "", "Order", "By time, or as in the file.", bar=("o", "order")), _LINE, _ENDS,
    ),
    "scrolling": (
        _keys(
            "scroll", "j", "scroll_down", "Scroll", "Down and up.", shown="↑↓", bar=("↑↓", "scroll"),
            more=(("k", "scroll_up"),),
        ),
        _keys("ends", "g", "scroll_home", "Ends", "To the top and to the end.", more=(("G", "scroll_end"),)),
    ),
    "attempts": (
        _keys("rows", "j,down", "move(1)", "Attempt", "Down and up.", more=(("k,up", "move(-1)"),)),
        _keys("page", "pagedown,space", "page(1)", "Page", "A page on, a page back.", more=(("pageup", "page(-1)"),)),
        _keys("ends", "g,home", "go(0)", "Ends", "To the newest and to the first.", more=(("G,end", "go(-1)"),)),
    ),
    "marks": (
        _keys(
            "cells", "j,down", "move(1,0)", "Cells", "From cell to cell.",
            more=(("k,up", "move(-1,0)"), ("l,right", "move(0,1)"), ("h,left", "move(0,-1)")),
        ),
        _keys("page", "pagedown,space", "page(1)", "Page", "A page on, a page back.", more=(("pageup", "page(-1)"),)),
        _keys("ends", "g,home", "end(0)", "Ends", "To the top and to the end.", more=(("G,end", "end(-1)"),)),
        _keys("choose", "enter", "", "Open", "Open what was handed in there."),
    ),
    "filter": (
        _keys("rows", "down", "screen.move(1)", "Cells", "From row to row.", more=(("up", "screen.move(-1)"),)),
    ),
}
# fmt: on
"""The commands of widgets that have keys of their own, such as the tabs of the trace screen."""
_PRIORITY = {"tab", "shift+tab", "pagedown", "pageup", "f5", "ctrl+r"}
"""Keys that a screen takes before the widget that has the focus."""


def screen_bindings(name: str, *only: str) -> list[BindingType]:
    """Bind the keys of a screen or a widget; with `only`, those of these commands."""
    return [
        Binding(key, action, command.title, show=False, priority=name in SCREENS and key in _PRIORITY)
        for command in _commands(name)
        if not only or command.id in only
        for key, action in command.bound
    ]


def bar(name: str, *without: str) -> list[KeyHint]:
    """Return the hints for the line of keys of a screen or a tab, `without` some commands."""
    return [KeyHint(*command.bar) for command in _commands(name) if command.bar and command.id not in without]


def foot(screen: str, *without: str) -> str:
    """Return a dialog's line of keys in words, `without` some commands."""
    return "   ".join(f"{hint.key} {hint.title}" for hint in bar(screen, *without))


def help_keys(name: str, *without: str) -> list[tuple[str, str]]:
    """Return the keys of a screen or a tab, each row with its sentence, `without` some commands."""
    rows = (command for command in _commands(name) if command.id not in without)
    return [(command.shown or _written(command), command.help) for command in rows]


def _commands(name: str) -> tuple[Command, ...]:
    return SCREENS.get(name) or WIDGETS[name]


def _written(command: Command) -> str:
    """Return a key of each action as people write it; the key of its bar if a widget answers it."""
    if not command.bound:
        return command.bar[0] if command.bar else ""
    first = {action: key for key, action in reversed(command.bound)}
    return " ".join(key_name(key) for key in reversed(first.values()))
