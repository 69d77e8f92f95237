"""Screens of text to scroll: help on panes, screens and tabs, and the whole output of a run."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from gpututor.app.commands import (
    ABOUT,
    COMMANDS,
    EDITING,
    WIDGETS,
    Command,
    Pane,
    foot,
    help_keys,
    key_name,
    screen_bindings,
)
from gpututor.app.screens.base import BaseModal
from gpututor.app.widgets.base import PlainText
from gpututor.app.widgets.output import LongText, Section
from gpututor.progress.overview import State

_KEYS_WIDTH = 16
_Parts = list[Content | str | tuple[str, str]]
_IN_TEXTS = "In lists and texts"
_MORE = {
    EDITING: (
        ("Tab  Shift+Tab", "Indent and dedent."),
        ("^z  ^y", "Undo and redo."),
        ("Alt+r w l", "In Find: regex, whole word, replace all."),
        ("Esc", "Leave the editor; letters are commands outside it."),
    ),
    _IN_TEXTS: (
        ("j k  ↓ ↑", "Down and up."),
        ("g G", "To the top and to the end."),
        ("Enter", "Open; on a failed check: go to its line."),
        (" ".join(state.glyph for state in State), "Passed, started, to do."),
        ("^p", "Find any command or exercise by its name."),
    ),
}


TAB_ABOUT = {
    "Timeline": (
        "Time runs to the right. Each row is something that works by itself: the host, a stream of a device, an engine"
        " that copies one way. What stands above each other happened at the same time; a gap is time in which nothing"
        " was done there. The height of a bar says how much of its column's time is taken.",
        "The host only launches work and continues at once, unless it waits (░). If the device is idle while the host"
        " launches, the kernels are too small and too many. If it is idle while the host waits, launch more first.",
        "A short copy is an arrow: → to the device, ← to the host, ↔ between devices. ▼ or ┝━┥ on the scale is the"
        " event that you are at.",
        "A gap in all rows is time of the host without a bar: Python and PyTorch themselves, or the driver. The driver"
        " takes about 0.1 ms when PyTorch asks it for memory, because its own cache has no block that fits.",
        "Modelled times are the times that the virtual GPU would have taken. They are not measured.",
    ),
    "Memory": (
        "What tensors hold on a device over time, as torch.cuda.memory_allocated() counts it. ▲ is the peak, ✗ is"
        " memory that was requested and not available, ↑ is where you read.",
        "Below the curve are the lines that hold memory at that moment: memory that is not free yet."
        " To lower the peak, free what is at the top of that list, or take less there.",
        "The host takes and frees memory when it runs the line, not when the kernel runs. The curve does not include"
        " PyTorch's cache, the context, and the libraries' own buffers.",
    ),
    "Times": (
        "Times of one group are on one scale. The baseline is the file that the checks compare with; the line with an"
        " end is what they allow. The floor is what no program can be faster than on this device: its results have to"
        " be written, at its full rate.",
        "Inputs are drawn anew for each run. Beside other attempts compare the ratios to the baseline, or grade again.",
        "The device's time counts each moment once: computing before copying before waiting before idle. Idle time is"
        " the host's: it launches, or computes itself.",
    ),
    "Lines": (
        "What each line caused in all calls of the run together. The time is that of its kernels and copies, or that of"
        " its waits where those are longer. What backward() computes counts for the line that calls it.",
        "● marks the line that costs most, ! a line with a hazard.",
    ),
    "Figures": (
        "What both attempts made the devices do in the same call, and in words by how much the left one differs. Fewer"
        " copies, waits and kernels are mostly what makes the time shorter.",
        "Inputs are drawn anew for each run: where their shapes differ, amounts differ for that reason too.",
        "Below, both times are on one scale, with what they were spent on: each moment counts once, computing before"
        " copying before waiting before idle.",
    ),
    "Lines of both": (
        "Lines are paired by their text, wherever they stand, and those come first whose cost differs most: − costs"
        " less in the left attempt, + costs more, = costs the same. Times are of all calls of the run together.",
    ),
    "Both timelines": (
        "The left attempt is above, the other one below, on one scale: zooming and moving changes both. What stands"
        " below each other happened at the same time after the start.",
    ),
    "Hazards": (
        "A hazard is when two streams, or a copy and the host, use the same memory, one of them writes it, and nothing"
        " says which comes first. The values may still be right here; on a real GPU they need not be.",
        "What is most worth changing is worked out from the trace: what it costs is an estimate. A remedy"
        " costs something too, on small inputs at times more; and two of them need not add up.",
    ),
}
"""Paragraphs on how to read each tab."""


class HelpText(Static):
    """Text that is wrapped again for each width."""

    def __init__(self, content: Callable[[int], Content]) -> None:
        super().__init__()
        self._content = content

    def on_resize(self, event: events.Resize) -> None:
        self.update(self._content(event.size.width))


class TextScreen(BaseModal[None]):
    """A text to scroll."""

    BINDINGS: ClassVar[list[BindingType]] = screen_bindings("text")

    def __init__(self, title: str, content: Callable[[int], Content]) -> None:
        """`content` returns the text in lines of at most so many columns."""
        super().__init__()
        self._title = title
        self._content = content

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall"):
            yield PlainText(self._title, classes="title")
            with VerticalScroll(id="keys"):
                yield HelpText(self._content)
            yield PlainText(foot("text"), classes="foot")

    def on_mount(self) -> None:
        for text in self.query("#keys"):  # None while the app is leaving: Textual mounts nothing then.
            text.focus()

    def action_scroll(self, by: int) -> None:
        self.query_one("#keys").scroll_relative(y=by, animate=False)

    def action_page(self) -> None:
        self.query_one("#keys").scroll_page_down(animate=False)

    def action_end(self, which: str) -> None:
        keys = self.query_one("#keys")
        (keys.scroll_home if which == "home" else keys.scroll_end)(animate=False)


class AllTextScreen(BaseModal[None]):
    """The whole output of a run, at one of its sections at first."""

    BINDINGS: ClassVar[list[BindingType]] = screen_bindings("all_text")

    def __init__(self, sections: Sequence[Section], first: int = 0) -> None:
        super().__init__()
        self._text = LongText(sections, first, id="all-text")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall"):
            yield PlainText("All that the run said", classes="title")
            yield self._text
            yield PlainText(foot("all_text"), classes="foot")

    def on_mount(self) -> None:
        self._text.focus()


def help_screen(pane: Pane) -> TextScreen:
    """Explain `pane`, which the learner is looking at, and list every key."""
    return TextScreen(f"{pane.heading}, and all keys", partial(help_content, pane))


def help_content(pane: Pane, width: int) -> Content:
    """Explain `pane` and list all keys, in lines of at most `width` columns."""
    table = pane.value if pane.value in WIDGETS else "reader"
    parts: _Parts = [f"{_wrapped(ABOUT[pane], width)}\n"]
    parts += [help_line(*entry, width) for entry in help_keys(table)]
    for group, commands in groupby(COMMANDS, key=lambda command: command.group):
        parts.append((f"\n{group}\n", "bold $text-accent"))
        parts += [help_line(_keys(command), command.help, width) for command in commands]
        parts += [help_line(*entry, width) for entry in _MORE.get(group, ())]
    parts.append((f"\n{_IN_TEXTS}\n", "bold $text-accent"))
    parts += [help_line(*entry, width) for entry in _MORE[_IN_TEXTS]]
    rest = "Letters and digits work outside the editor; other keys work everywhere."
    parts.append((f"\n{_wrapped(rest, width)}", "$foreground-muted"))
    return Content.assemble(*parts)


def screen_help(title: str, table: str, paragraphs: Sequence[str] = ()) -> TextScreen:
    """Explain a screen in paragraphs, and list the keys of its table with a sentence each."""

    def content(width: int) -> Content:
        return Content.assemble(*_explained(paragraphs, table, width))

    return TextScreen(title, content)


def tab_help(tab: str, table: str, screen: str, *without: str) -> TextScreen:
    """Explain how to read a tab, and list its keys and those of the screen, `without` some commands.

    `table` has the keys of the tab; it is empty while the tab is not shown.
    """

    def content(width: int) -> Content:
        parts = _explained(TAB_ABOUT[tab], table, width)
        parts.append(("\nThe screen\n", "bold $text-accent"))
        parts += [help_line(*entry, width) for entry in help_keys(screen, *without)]
        return Content.assemble(*parts)

    return TextScreen(f"{tab}: how to read it, and its keys", content)


def _explained(paragraphs: Sequence[str], table: str, width: int) -> _Parts:
    keys = help_keys(table) if table else []
    lines = [help_line(*entry, width) for entry in keys]
    return [*(f"{_wrapped(paragraph, width)}\n\n" for paragraph in paragraphs), *lines]


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, max(20, width)))


def glossary_screen(text: str) -> TextScreen:
    """Show a course's glossary: Markdown with a paragraph for each word, as `**word**: its meaning`."""
    return TextScreen("Glossary", partial(glossary_content, text))


def glossary_content(text: str, width: int) -> Content:
    parts: list[Content | str | tuple[str, str]] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        word, separator, meaning = " ".join(paragraph.split()).removeprefix("**").partition("**")
        if paragraph.startswith("**") and separator:
            lines = textwrap.wrap(meaning.removeprefix(":").strip(), max(20, width - 4))
            parts += [(f"{word}\n", "bold $text-accent"), *(f"    {line}\n" for line in lines), "\n"]
    return Content.assemble(*parts)


def _keys(command: Command) -> str:
    return "  ".join(dict.fromkeys(key_name(key) for key in (*command.letters, *command.keys)))


def help_line(keys: str, help_: str, width: int) -> Content:
    """Return the keys in their column and the words beside them; keys too long for it have their own line."""
    first, *rest = textwrap.wrap(help_, max(16, width - _KEYS_WIDTH - 3)) or [""]
    indent = " " * (_KEYS_WIDTH + 3)
    if len(keys) > _KEYS_WIDTH:
        shown = Content.assemble((f"  {keys}\n", "bold"), f"{indent}{first}\n")
    else:
        shown = Content.assemble((f"  {keys:<{_KEYS_WIDTH}}", "bold"), f" {first}\n")
    return Content.assemble(shown, *(f"{indent}{line}\n" for line in rest))
