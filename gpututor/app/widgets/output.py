"""Long text in a pane: output of a run, and files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeVar

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from gpututor.app.commands import screen_bindings
from gpututor.app.widgets.base import PlainText
from gpututor.grading.report_text import line_of, mark, outcome_line, remarks
from gpututor.text import escape_control_chars, lines_of

if TYPE_CHECKING:
    from gpututor.grading.report import Report, RunSummary, Verdict

SHOWN_LINES = 200
"""Lines of printed text in the results pane."""
SHOWN_WIDTH = 1000
"""Characters of a line of printed text."""
DETAIL_LINES = 12
DETAIL_CHARACTERS = 700
"""Size of a detail of a check."""


class OutputSection(NamedTuple):
    """A part of a long text."""

    heading: str
    text: str


def bounded(text: str, most_lines: int, most_characters: int) -> str:
    """Return the text, or its beginning and the amount that is left out."""
    lines = text.splitlines()
    shown = "\n".join(lines[:most_lines])
    if len(shown) > most_characters:
        rest = len(text) - most_characters
        return f"{shown[:most_characters]}… {rest:,} more characters: v shows all"
    if len(lines) > most_lines:
        return f"{shown}\n… {len(lines) - most_lines:,} more lines: v shows all"
    return text


def output_blocks(report: Report) -> list[Widget]:
    """Return the widgets that follow the checks: remarks, tracebacks and printed texts."""
    blocks: list[Widget] = [PlainText(text, classes="reason") for text in remarks(report)]
    for heading, text in _outputs(report, most_lines=SHOWN_LINES):
        blocks.append(PlainText(heading, classes="heading"))
        blocks.append(PlainText(text, classes="output"))
    return blocks


def everything(report: Report, source: str = "") -> list[OutputSection]:
    """Return a section for each check in the order of the verdicts, then tracebacks and printed texts.

    `source`: the graded text; empty if it is not known.
    """
    lines = lines_of(source)
    first = "\n".join(remarks(report))
    several = len({verdict.scenario for verdict in report.verdicts}) > 1
    checks = [_check(verdict, several, lines) for verdict in report.verdicts]
    return [OutputSection(outcome_line(report), first), *checks, *_outputs(report, most_lines=None)]


def as_text(sections: Sequence[OutputSection]) -> str:
    """Return sections as one text, without control characters, for the clipboard."""
    return escape_control_chars("\n\n".join("\n".join(filter(None, section)) for section in sections))


def details_of(verdict: Verdict, source_lines: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return (label, text) of a check's details. `source_lines`: lines of the graded text, if it is known."""
    line = "" if verdict.line is None else f"{verdict.line}  {line_of(verdict, source_lines)}".rstrip()
    details = [
        ("Expected", verdict.expected),
        ("Got", verdict.got),
        ("Line", line),
        ("Why", verdict.why),
        ("Try", verdict.advice),
    ]
    return [(label, text) for label, text in details if text] if verdict.status.is_finding else []


def _check(verdict: Verdict, several: bool, lines: Sequence[str]) -> OutputSection:
    where = f" ({verdict.scenario})" if several else ""
    texts = [("Figures", verdict.measured)] if verdict.measured else []
    parts = [f"{label}\n{_indented(text)}" for label, text in texts + details_of(verdict, lines)]
    return OutputSection(f"{mark(verdict.status)}  {verdict.sentence}{where}", "\n".join(parts))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _outputs(report: Report, most_lines: int | None) -> Iterator[OutputSection]:
    for run in report.runs:
        where = f" ({run.scenario})" if len(report.runs) > 1 else ""
        if run.traceback:
            yield OutputSection(f"Where it stopped{where}", run.traceback.rstrip())
        if run.output:
            yield OutputSection(f"What your file printed{where}", printed(run, most_lines))


def printed(run: RunSummary, most_lines: int | None = SHOWN_LINES) -> str:
    """Return the printed text; with `most_lines`, cut to a length for scrolling."""
    lines = run.output.splitlines()
    shown = [line.expandtabs(4) for line in lines[:most_lines]]
    if most_lines is not None:
        shown = [line if len(line) <= SHOWN_WIDTH else f"{line[:SHOWN_WIDTH]}… v shows all" for line in shown]
        if len(lines) > most_lines:
            shown.append(f"… {len(lines) - most_lines:,} more lines: v shows all")
    if run.output_dropped_bytes:
        shown.append(f"… {run.output_dropped_bytes:,} more bytes were not stored")
    return "\n".join(shown)


Shown = TypeVar("Shown")


class ScrollableText(VerticalScroll, Generic[Shown], can_focus=True):
    """A text to scroll, drawn again for each width."""

    BINDINGS = screen_bindings("scrolling")
    KEYS = "scrolling"

    def __init__(self, lines: Callable[[Shown, int], Iterable[Content]], *, id: str | None = None) -> None:
        """`lines` draws a subject at the given width, in columns."""
        super().__init__(id=id)
        self._lines = lines
        self._text = Static("")
        self._shown: Shown | None = None

    def compose(self) -> ComposeResult:
        yield self._text

    def show(self, shown: Shown) -> None:
        self._shown = shown
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        width = self.scrollable_content_region.width
        if self._shown is not None and width:
            self._text.update(Content("\n").join(self._lines(self._shown, width)))


class LongText(ScrollView, can_focus=True):
    """Sections with wrapped lines, to scroll."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"long-text--heading"}
    BINDINGS = screen_bindings("long_text")

    def __init__(self, sections: Sequence[OutputSection], first: int = 0, *, id: str | None = None) -> None:
        """`first`: index of the section to start at."""
        super().__init__(id=id)
        self._sections = sections
        self._first: int | None = first
        self._lines: list[tuple[str, bool]] = []
        """Text, and True for a heading."""
        self._width = 0

    def on_resize(self, event: events.Resize) -> None:
        width = self.scrollable_content_region.width
        if width == self._width or width <= 0:
            return
        self._width = width
        starts: list[int] = []
        self._lines = []
        for section in self._sections:
            starts.append(len(self._lines))
            self._lines += [(text, True) for text in wrapped(section.heading, width)]
            if section.text:
                self._lines += [(text, False) for text in wrapped(section.text, width)]
            self._lines.append(("", False))
        self.virtual_size = Size(width, len(self._lines))
        if self._first is not None and starts:
            self.call_after_refresh(self.scroll_to, y=starts[self._first], animate=False)
        self._first = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        row = self.scroll_offset.y + y
        style = self.rich_style
        if row >= len(self._lines):
            return Strip.blank(self._width, style)
        text, is_heading = self._lines[row]
        if is_heading:
            style += self.get_component_rich_style("long-text--heading", partial=True)
        return Strip([Segment(text, style)], cell_len(text)).adjust_cell_length(self._width, self.rich_style)

    def action_by(self, down: int) -> None:
        self.scroll_relative(y=down, animate=False)

    def action_page(self, by: int) -> None:
        self.scroll_relative(y=by * (self.size.height - 1), animate=False)

    def action_end(self, which: str) -> None:
        (self.scroll_home if which == "home" else self.scroll_end)(animate=False)


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the lines, at most `width` cells wide, broken between words and with the same indentation."""
    for line in escape_control_chars(text).split("\n"):
        line = line.expandtabs(4)
        if len(line) <= width and (line.isascii() or cell_len(line) <= width):
            yield line
            continue
        yield from _broken(line, width)


def _broken(line: str, width: int) -> Iterator[str]:
    indent = line[: len(line) - len(line.lstrip(" "))][: width // 2]
    part = ""
    for word in line[len(indent) :].split(" "):
        if cell_len(indent) + cell_len(part) + cell_len(word) + (1 if part else 0) <= width:
            part = f"{part} {word}" if part else word
            continue
        if part:
            yield indent + part
        *whole, part = chop_cells(word, width - len(indent)) or [""]
        yield from (indent + piece for piece in whole)
    yield indent + part


_STEP = 8


class SubmissionText(ScrollView, can_focus=True):
    """A submission with line numbers, and marks at the lines that checks point at."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"submission-text--{name}" for name in ("number", "marked", "line")}
    BINDINGS = screen_bindings("submission_text")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[str] = []
        self._marked: frozenset[int] = frozenset()
        self._line = 0

    def show(self, text: str, marked: Collection[int]) -> None:
        """Show a text; `marked`: lines, from 1, that checks point at."""
        self._lines = [escape_control_chars(line).expandtabs(4) for line in lines_of(text)]
        self._marked, self._line = frozenset(marked), 0
        width = max(map(cell_len, self._lines), default=0) + self._gutter
        self.virtual_size = Size(width, len(self._lines))
        self.scroll_to(0, 0, animate=False)
        self.refresh()

    def go_to(self, line: int) -> None:
        self._line = max(1, min(line, len(self._lines)))
        self.scroll_to(0, max(0, self._line - 1 - self.size.height // 3), animate=False)
        self.refresh()

    @property
    def _gutter(self) -> int:
        return len(str(len(self._lines))) + 3

    def render_line(self, y: int) -> Strip:
        left, width, base = self.scroll_offset.x, self.scrollable_content_region.width, self.rich_style
        at = self.scroll_offset.y + y
        if at >= len(self._lines):
            return Strip.blank(width, base)
        number = at + 1
        sign = "▸" if number == self._line else "✗" if number in self._marked else " "
        style = base
        if number == self._line:
            style += self.get_component_rich_style("submission-text--line", partial=True)
        name = "marked" if sign != " " else "number"
        gutter = f"{number:>{self._gutter - 3}} {sign} "
        head = Strip([Segment(gutter, style + self.get_component_rich_style(f"submission-text--{name}", partial=True))])
        text = self._lines[at]
        shown = Strip([Segment(text, style)]).crop(left, left + max(0, width - self._gutter))
        strip = Strip([*head, *shown]).adjust_cell_length(width, style)
        if cell_len(text) - left > width - self._gutter:
            strip = Strip([*strip.crop(0, width - 1), Segment("…", style)])
        return strip

    def action_by(self, down: int) -> None:
        self.scroll_relative(y=down, animate=False)

    def action_page(self, by: int) -> None:
        self.scroll_relative(y=by * max(1, self.size.height - 1), animate=False)

    def action_right(self, by: int) -> None:
        self.scroll_relative(x=by * _STEP, animate=False)

    def action_end(self, which: str) -> None:
        (self.scroll_home if which == "home" else self.scroll_end)(animate=False)
