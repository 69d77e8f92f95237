"""Screens of text to scroll: help on panes, screens and tabs, and the whole output of a run."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from gpututor.app.command import Command
from gpututor.app.commands import (
    EDITING,
    WIDGETS,
    Pane,
    foot,
    help_keys,
    key_name,
    screen_bindings,
)
from gpututor.app.screens.base import BaseModal
from gpututor.app.widgets.base import PlainText
from gpututor.app.widgets.output import LongText, OutputSection, ScrollableText, as_text, wrapped
from gpututor.grading.report_text import count
from gpututor.progress.overview import State

_KEYS_WIDTH = 16
_Parts = list[Content | str | tuple[str, str]]
_IN_TEXTS = "In lists and texts"
_MORE = {
    EDITING: (
        ("Tab  Shift+Tab", "Indent and dedent."),
        ("Alt+r w l", "In Find: regex, whole word, replace all."),
        ("Esc", "Leave the editor; letters are commands outside it."),
        ("⇄ ‖ ▸ ! ~", "At a line: copies, waits, kernels, a hazard; before your edits."),
        ("MiB  ms", "At a line: bytes copied, or else allocated; time on the device."),
    ),
    _IN_TEXTS: (
        ("j k  ↓ ↑", "Down and up."),
        ("g G", "To the top and to the end."),
        ("Enter", "Open; on a failed check: go to its line."),
        (" ".join([*(state.glyph for state in State), "★"]), "Passed, started, to do; on the core path."),
    ),
}


ABOUT = {
    Pane.COURSE: "All lessons and exercises, and how far you are in each.",
    Pane.LESSON: "The lesson that the exercise belongs to, to read before it.",
    Pane.TASK: "What the exercise asks for, and what it is graded on.",
    Pane.CODE: "Your own file. It is saved while you type; letters are text here, so commands have other keys.",
    Pane.RESULTS: "The results of your last run, a sentence for each check; a failed check says what to try.",
    Pane.HINTS: "Help in steps. Each hint says a little more than the last.",
}
"""Introduction of each pane on the help screen."""

TAB_ABOUT = {
    "Timeline": (
        "Time runs to the right. Each row is something that works on its own: the host, a stream of a device, or an"
        " engine that copies in one direction. Bars above each other ran at the same time; a gap means that nothing"
        " ran. The height of a bar shows how much of its column's time is used.",
        "The host only launches work and continues at once, unless it waits (░). If a device is idle while the host"
        " launches, its kernels are too many and too small. If it is idle while the host waits, give it more work.",
        "“busy” is the share of the visible time in which a row has bars; for the host this includes its waits.",
        "A short copy is an arrow: → to the device, ← to the host, ↔ between devices. ▼ or ┝━┥ on the scale marks the"
        " selected event.",
        "A gap in all rows is the host's own time: Python, PyTorch, or the driver. The driver takes about 0.1 ms when"
        " PyTorch needs memory that its cache does not have.",
        "Modelled times say how long the virtual GPU would have taken. They are not measured.",
    ),
    "Memory": (
        "The memory that tensors hold on a device over time, as torch.cuda.memory_allocated() counts it. ▲ is the peak,"
        " ✗ is a request that did not fit, ↑ is the selected moment.",
        "The list below the curve shows which lines hold memory at that moment. To lower the peak, free what is at the"
        " top of the list, or allocate less there.",
        "The host allocates and frees memory; kernels do not. PyTorch's cache, the CUDA context and the buffers of"
        " libraries are not included.",
    ),
    "Times": (
        "Times in one group share one scale. The baseline is the file that the checks compare with; a line that ends in"
        " ┤ is the limit. The floor is the least time that any program needs on this device to write its results.",
        "Each run draws new inputs. To compare attempts, compare their ratios to the baseline, or run them again.",
        "The device's time counts each moment once, in this order: computing, copying, waiting, idle. In idle time the"
        " host launches work or computes.",
    ),
    "Lines": (
        "The cost of each line in all calls of the run. The time covers its kernels and copies, or its waits if"
        " the waits are longer. The work of backward() counts for the line that calls it.",
        "● marks the most expensive line, ! a line with a hazard.",
    ),
    "Figures": (
        "The work of the devices in the same call of both attempts, and how much the left attempt differs. Fewer"
        " copies, waits and kernels usually mean less time.",
        "Each run draws new inputs: different shapes give different amounts.",
        "Below, both times share one scale. Each moment counts once, in this order: computing, copying, waiting, idle.",
    ),
    "Lines of both": (
        "Lines with the same text are paired. The pairs whose costs differ most come first: − costs less in the left"
        " attempt, + costs more, = costs the same. Times are of all calls of the run.",
    ),
    "Both timelines": (
        "The left attempt is above, the other one below. They share one scale: zooming and moving change both. Bars"
        " below each other ran at the same time after the start.",
    ),
    "Hazards": (
        "A hazard: two streams, or a copy and the host, use the same memory, one of them writes it, and nothing orders"
        " them. The values may be right here, but they can be wrong on a real GPU.",
        "The suggestions come from the trace, and their costs are estimates. A change costs something too, sometimes"
        " more than it saves on small inputs. Two savings do not always add up.",
    ),
}
"""Paragraphs on how to read each tab."""


class TextScreen(BaseModal[None]):
    """A text to scroll."""

    BINDINGS = screen_bindings("text")

    def __init__(self, title: str, content: Callable[[int], Content], *, at: str = "", is_small: bool = False) -> None:
        """`content` returns the text, wrapped to the given number of columns.

        `at`: the line to begin at. `is_small`: a box as high as its text.
        """
        super().__init__()
        self._at = at
        self._title = title
        self._content = content
        self._is_small = is_small
        self._text = ScrollableText[Callable[[int], Content]](lambda content, width: (content(width),), id="keys")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -small" if self._is_small else "dialog -tall"):
            yield PlainText(self._title, classes="title")
            yield self._text
            yield PlainText(foot("text"), classes="foot")

    def on_mount(self) -> None:
        self._text.focus()
        self._text.show(self._content)
        if self._at:
            self.call_after_refresh(self._go_to_line)

    def _go_to_line(self) -> None:
        lines = self._content(self._text.scrollable_content_region.width).plain.split("\n")
        if self._at in lines:
            self._text.scroll_to(y=lines.index(self._at), animate=False)

    def show(self, content: Callable[[int], Content]) -> None:
        """Show another text, from its top."""
        self._content = content
        self._text.show(content)


class AllTextScreen(BaseModal[None]):
    """The whole output of a run; it opens at one of its sections."""

    BINDINGS = screen_bindings("all_text")

    def __init__(self, sections: Sequence[OutputSection], first: int = 0) -> None:
        super().__init__()
        self._sections = sections
        self._text = LongText(sections, first, id="all-text")
        self._foot = PlainText(foot("all_text"), classes="foot")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall"):
            yield PlainText("The full report", classes="title")
            yield self._text
            yield self._foot

    def on_mount(self) -> None:
        self._text.focus()

    def action_copy(self) -> None:
        """Copy the whole text, and say so: the status line is behind this screen."""
        text = as_text(self._sections)
        self.app.copy_to_clipboard(text)
        self._foot.update(f"Copied {count(len(text.splitlines()), 'line')}.   {foot('all_text')}")


def help_content(pane: Pane, all_commands: Sequence[Command], width: int) -> Content:
    """Explain `pane` and list the keys of all commands, in lines of at most `width` columns."""
    table = pane.value if pane.value in WIDGETS else "reader"
    parts: _Parts = [f"{_wrapped(ABOUT[pane], width)}\n"]
    parts += [help_line(*entry, width) for entry in help_keys(table)]
    parts.append(help_line("^p", "Find any command or exercise by its name.", width))
    for group, commands in groupby(all_commands, key=lambda command: command.group):
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
    """Explain a tab, and list the keys of its `table`, empty while it is not shown, and of the screen."""

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


def glossary_content(text: str, width: int, chosen: str = "") -> Content:
    """Draw a course's glossary: Markdown with a paragraph for each word, as `**word**: its meaning`."""
    parts: list[Content | str | tuple[str, str]] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        word, separator, meaning = " ".join(paragraph.split()).removeprefix("**").partition("**")
        if paragraph.startswith("**") and separator:
            meaning = re.sub(r"\((\d+)\)$", r"(lesson \1)", meaning.removeprefix(":").strip())
            lines = textwrap.wrap(meaning, max(20, width - 4))
            parts += [(word, "bold reverse" if word == chosen else "bold $text-accent"), "\n"]
            pieces = "".join(f"    {line}\n" for line in lines).split("`")
            parts += [(piece, "italic") if number % 2 else piece for number, piece in enumerate(pieces)]
            parts.append("\n")
    return Content.assemble(*parts)


_REFERENCE = re.compile(r":[a-z]+(?::[a-z]+)?:`~?([^`<]+?)(?:\s*<[^`>]*>)?`")
"""A reference in a docstring for documentation tools, such as :attr:`size` or :class:`~torch.nn.Softmax`."""


def documentation_content(answer: Sequence[str], width: int) -> Content:
    """Draw signatures and docstring of a name. `answer`: name, signatures, docstring; empty if nothing is known."""
    if not answer:
        advice = "Put the cursor on a name, or between the brackets of a call."
        return Content(_wrapped(f"No documentation found. {advice}", width))
    _, signatures, docstring = answer
    text = _REFERENCE.sub(r"\1", _with_joined_lines(docstring)).replace("``", "`") or "It has no docstring."
    words = [Content("\n".join(wrapped(part, max(20, width)))) for part in (signatures, text)]
    return Content("\n\n").join([words[0].stylize("bold"), words[1]] if signatures else words[1:])


_FULL_LINE = 55
"""Least letters of a docstring's line that may continue in the next line; a shorter line ends where it should."""
_OWN_LINE = re.compile(r"\s*([-*•|]|\d+\.|\.\.|:\w+:|\*{0,2}\w+ ?\(.*|\w+: |$)")
"""Start of a line that continues no sentence: a list, a directive, an argument."""
_DRAWN = re.compile(r">>>|^\s*[-=+|]{3}", re.MULTILINE)


def _with_joined_lines(docstring: str) -> str:
    """Join the lines of each paragraph, but not those of code, tables and lists."""
    blocks = [""]
    for block in re.split(r"\n[ \t]*\n", docstring):
        lines = block.split("\n")
        is_code = re.search(r"^(?!\s*\.\.).*::$", blocks[-1].rpartition("\n")[2])
        if not is_code and not _DRAWN.search(block):
            joined = lines[:1]
            for before, line in pairwise(lines):
                if len(before) < _FULL_LINE or _OWN_LINE.match(line):
                    joined.append(line)
                else:
                    joined[-1] += f" {line.strip()}"
            lines = joined
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks[1:])


def _keys(command: Command) -> str:
    return "  ".join(dict.fromkeys(key_name(key) for key in (*command.letters, *command.keys)))


def help_line(keys: str, help_: str, width: int) -> Content:
    """Return the keys in their column and the words next to them. Keys that are too long get a line of their own."""
    first, *rest = textwrap.wrap(help_, max(16, width - _KEYS_WIDTH - 3)) or [""]
    indent = " " * (_KEYS_WIDTH + 3)
    if len(keys) > _KEYS_WIDTH:
        shown = Content.assemble((f"  {keys}\n", "bold"), f"{indent}{first}\n")
    else:
        shown = Content.assemble((f"  {keys:<{_KEYS_WIDTH}}", "bold"), f" {first}\n")
    return Content.assemble(shown, *(f"{indent}{line}\n" for line in rest))
