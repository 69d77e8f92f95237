"""The editor's document, with Python's line ends and signs for invisible characters, and how it is drawn."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Offset, Size
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import Document, DocumentNavigator, EditResult, Location, WrappedDocument

from gpututor.app.editor.find import Match
from gpututor.app.editor.line_costs import LineCosts, cost_in_words, short_forms
from gpututor.app.editor.python_text import KINDS, Brackets, Span, find_brackets, python_spans
from gpututor.app.textual_private import forget_lines, is_cursor_drawn, wrap_lines
from gpututor.text import lines_of

if TYPE_CHECKING:
    from gpututor.grading.recording import LineCost as Cost


_UNSEEN = re.compile(
    "["
    "\x00-\x08\x0a-\x1f\x7f-\x9f"  # controls, but for tab
    "\xa0\u1680\u2000-\u200a\u202f\u205f"  # spaces that Python does not accept
    "\xad\u180e\u200b-\u200d\u2060-\u2064\ufeff\U000e0000-\U000e0fff"  # no width, at least on some terminals
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f\ufff9-\ufffb"  # marks that turn the direction of writing
    "\u2028\u2029"  # separators that terminals disagree on
    "\ud800-\udfff"  # halves of surrogate pairs, which cannot be encoded
    "]"
)
_DELETE, _SPACE, _OTHER = "␡", "␣", "␦"


def with_signs(line: str) -> str:
    """Return the line with a sign, such as `␛`, for each invisible character. Tabs stay tabs."""
    return _UNSEEN.sub(_sign, line)


def sign_words(letter: str) -> str:
    """Describe a character that is drawn as a sign; return "" for others."""
    if not _UNSEEN.match(letter):
        return ""
    name = unicodedata.name(letter, "").lower() or "a control character"
    return f"{with_signs(letter)} stands for U+{ord(letter):04X}, {name}."


def _sign(match: re.Match[str]) -> str:
    letter = match[0]
    if letter == "\x7f":
        return _DELETE
    if letter < " ":
        return chr(0x2400 + ord(letter))
    return _SPACE if unicodedata.category(letter) == "Zs" else _OTHER


class CodeDocument(Document):
    """Document with Python's line ends. Textual's also ends lines at form feeds, and would replace them by newlines."""

    def __init__(self, text: str) -> None:
        super().__init__("")
        self._lines = lines_of(text)

    def get_size(self, tab_width: int) -> Size:
        return Size(max(cell_len(with_signs(line).expandtabs(tab_width)) for line in self._lines), len(self._lines))

    def replace_range(self, start: Location, end: Location, text: str) -> EditResult:
        (top, left), (bottom, right) = sorted((start, end))
        replaced = self.get_text_range((top, left), (bottom, right))
        last = self._lines[bottom] if bottom < self.line_count else ""
        first = self._lines[top] if top < self.line_count else ""
        lines = lines_of(text)
        lines[0] = first[:left] + lines[0]
        column = len(lines[-1])
        lines[-1] += last[right:]
        self._lines[top : bottom + 1] = lines
        return EditResult((top + len(lines) - 1, column), replaced)


class RowSection(NamedTuple):
    """The part of a row that is drawn on one line: the whole row, unless it wraps."""

    row: int
    start: int
    """The first column."""
    end: int
    """The column after the last."""
    is_last: bool
    """True if the row ends here."""


class CodeLines(WrappedDocument):
    """Lines with the width of their signs, which wrap if the editor does."""

    _wraps = False

    def wrap(self, width: int, tab_width: int | None = None) -> None:
        self._wraps = width > 0
        super().wrap(width, tab_width)

    def get_sections(self, line_index: int) -> list[str]:
        line = with_signs(self.document[line_index])
        cuts = [0, *(self.get_offsets(line_index) if self._wraps else ()), len(line)]
        return [line[start:end] for start, end in pairwise(cuts)]

    def section_at(self, y: int) -> RowSection | None:
        """Return what is drawn on a line of the wrapped text, from 0; None below it."""
        if not self._wraps:
            return RowSection(y, 0, len(self.document[y]), True) if y < self.document.line_count else None
        if y >= self.height:
            return None
        row, start = self.offset_to_location(Offset(0, y))
        end = next((offset for offset in self.get_offsets(row) if offset > start), None)
        return RowSection(row, start, len(self.document[row]) if end is None else end, end is None)

    def offset_to_location(self, offset: Offset) -> Location:
        if self._wraps:
            return super().offset_to_location(offset)
        row = min(max(0, offset.y), self.document.line_count - 1)
        return row, self.get_target_document_column(row, max(0, offset.x), -1)


LEFT, RIGHT = "‹", "›"
"""Signs at the edge of a line that continues beyond it."""
_LEAST_CODE = 40
"""Columns of code that costs must not cover, unless even the shortest costs need more space."""
_PARTS = ("marked", "match", "current-match", "bracket", "unmatched", "unseen", "cut", "cost", "stale-cost")


class CodeArea(TextArea):
    """Text area that draws one text as Python."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"code--{part}" for part in (*KINDS, *_PARTS)}

    def __init__(self, *, id: str | None = None) -> None:
        self._part_styles: dict[str, Style] = {}
        super().__init__(
            id=id, soft_wrap=False, tab_behavior="indent", show_line_numbers=True, max_checkpoints=200, compact=True
        )
        self.match_cursor_bracket = False  # Textual's also counts brackets in strings
        self._colors_on = False
        self._seen_lines: list[str] = []
        self._spans: list[tuple[Span, ...]] = []
        self._brackets = Brackets()
        self._pair: tuple[Location, ...] = ()
        """The bracket at the cursor, and its partner."""
        self._marked_line: int | None = None
        self._matches: dict[int, list[tuple[int, int, bool]]] = {}
        """(first column, column after the last, True if current) by row."""
        self._costs: LineCosts | None = None
        self._costs_on = True

    def turn_colors_on(self) -> None:
        """Draw colors from now on. They cost an import, so they come after the first paint."""
        self._colors_on = True
        self._seen_lines = []
        self.redraw()

    def redraw(self) -> None:
        forget_lines(self)
        self.refresh()

    # Matches of a search

    def show_matches(self, matches: Sequence[Match], current: Match | None) -> None:
        """Mark matches; a match over several lines is marked on each of them."""
        self._matches = {}
        for match in matches:
            (first, start), (last, end) = match
            for row in range(first, last + 1):
                columns = (start if row == first else 0, end if row == last else len(self.document[row]) + 1)
                self._matches.setdefault(row, []).append((*columns, match == current))
        self.redraw()

    # Costs

    @property
    def costs_on(self) -> bool:
        """True to draw costs, if there are any."""
        return self._costs_on

    @costs_on.setter
    def costs_on(self, on: bool) -> None:
        self._costs_on = on
        self.redraw()

    @property
    def has_costs(self) -> bool:
        return self._costs is not None

    def show_costs(self, costs: Mapping[int, Cost], times: str = "", calls: int = 1, *, of: str | None = None) -> None:
        """Show the costs of lines, by line from 1, in a run of `calls` calls.

        `times`: modelled, measured or empty. `of`: the text that ran, by default the shown one.
        """
        lines = self.document.lines if of is None else lines_of(of)
        self._costs = LineCosts(costs, lines, times, calls) if costs else None
        self.redraw()

    def words_at_cursor(self) -> str:
        """Describe the sign at the cursor, else the costs of the line if they are shown."""
        row, column = self.cursor_location
        if words := sign_words(self.document[row][column : column + 1]):
            return words
        cost, stale = self._cost_of(row)
        if cost is None or self._costs is None:
            return ""
        return cost_in_words(cost, self._costs.times, calls=self._costs.calls, stale=stale)

    def _cost_of(self, row: int) -> tuple[Cost | None, bool]:
        """Return the cost to show at a row, and True if the text was edited since."""
        if self._costs is None or not self._costs_on:
            return None, False
        lines = self.document.lines
        return self._costs.by_row(lines).get(row), self._costs.stale(lines)

    # Drawing

    def _set_document(self, text: str, language: str | None) -> None:
        super()._set_document("", language)
        self.document = CodeDocument(text)
        self.wrapped_document = CodeLines(self.document, tab_width=self.indent_width)
        self.navigator = DocumentNavigator(self.wrapped_document)
        wrap_lines(self)

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Scroll to the cursor, unless it is past the end, where an undo leaves it for a moment."""
        if self.cursor_location[0] >= self.document.line_count:
            return Offset(0, 0)
        return super().scroll_cursor_visible(center, animate)

    def get_line(self, line_index: int) -> Text:
        line = Text(with_signs(self.document[line_index]), end="", no_wrap=True)
        self._update_marks()
        if self._colors_on:
            for start, end, kind in self._spans[line_index]:
                line.stylize(self._part(kind), start, end)
        for match in _UNSEEN.finditer(self.document[line_index]):
            line.stylize(self._part("unseen"), *match.span())
        if line_index == self._marked_line:
            line.stylize(self._part("marked"))
        return line

    def marks_of(self, row: int) -> list[tuple[int, int, str]]:
        """Return (first column, column after the last, part) of what is marked in a row, matches before brackets."""
        self._update_marks()
        matches = self._matches.get(row, ())
        marks = [(start, end, "current-match" if current else "match") for start, end, current in matches]
        marks += [(column, column + 1, "unmatched") for column in self._unmatched(row)]
        return marks + [(column, column + 1, "bracket") for at, column in self._pair if at == row]

    def _render_line(self, y: int) -> Strip:
        strip = super()._render_line(y)
        section = self._section_at(y)
        if section is None:
            return strip
        # Here and not in `get_line`: the background of the cursor's line would cover them.
        for start, end, part in self.marks_of(section.row):
            if (section.row, start) == self.cursor_location and is_cursor_drawn(self):
                start += 1
            strip = self._styled(strip, section, start, end, self._part(part))
        return strip

    def _section_at(self, y: int) -> RowSection | None:
        """Return what is drawn on a line of the view, from 0; None below the text."""
        assert isinstance(self.wrapped_document, CodeLines)
        return self.wrapped_document.section_at(y + self.scroll_offset.y)

    def y_of(self, row: int) -> int:
        """Return the line of the wrapped text, from 0, on which a row begins."""
        return self.wrapped_document.location_to_offset((row, 0)).y

    def _left(self, section: RowSection) -> int:
        """Return the column of the view for the start of a section's row."""
        return self.gutter_width - self.scroll_offset.x - self._cells(self.document[section.row][: section.start])

    def _styled(self, strip: Strip, section: RowSection, start: int, end: int, style: Style) -> Strip:
        """Return the strip with some columns of the row in another style, as far as they are in sight."""
        line, left = self.document[section.row], self._left(section)
        start, end = max(start, section.start), end if section.is_last else min(end, section.end)
        first = max(self.gutter_width, left + self._cells(line[:start]))
        last = max(first, left + self._cells(line[:end]) + max(0, end - len(line)))
        if start >= end or first == last:
            return strip
        before, here, after = Segment.divide(strip, (first, last, max(last, strip.cell_length)))
        return Strip([*before, *Segment.apply_style(here, post_style=style), *after], strip.cell_length)

    def _part(self, name: str) -> Style:
        if name not in self._part_styles:
            self._part_styles[name] = self.get_component_rich_style(f"code--{name}", partial=True)
        return self._part_styles[name]

    def notify_style_update(self) -> None:
        self._part_styles.clear()
        super().notify_style_update()

    def _update_marks(self) -> None:
        """Update colors and brackets if the text has changed; comparing 200 lines costs 3 µs."""
        lines = self.document.lines
        if lines == self._seen_lines:
            return
        self._seen_lines = list(lines)
        self._spans = python_spans(self._seen_lines) if self._colors_on else [()] * len(lines)
        self._brackets = find_brackets(lines, self._spans) if self._colors_on else Brackets()

    def _unmatched(self, row: int) -> list[int]:
        """Return the columns of brackets without a partner, on the cursor's row only of closing ones."""
        columns = [column for at, column in self._brackets.unopened if at == row]
        if row != self.cursor_location[0]:
            columns += [column for at, column in self._brackets.unclosed if at == row]
        return columns

    def mark_brackets(self) -> None:
        """Mark the bracket under the cursor, else the bracket before it, and its partner."""
        self._update_marks()
        row, column = self.cursor_location
        partners = self._brackets.partners if self.selection.is_empty else {}
        pairs = ((at, partners[at]) for at in ((row, column), (row, column - 1)) if at in partners)
        pair: tuple[Location, ...] = next(pairs, ())
        if pair != self._pair:
            self._pair = pair
            self.redraw()

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        section = self._section_at(y)
        if section is None:
            return strip
        line = self.document[section.row]
        width = self.scrollable_content_region.width
        gutter, left = self.gutter_width, self._left(section)
        text_end = max(
            gutter, left + (section.end if line.isascii() and "\t" not in line else self._cells(line[: section.end]))
        )
        if self.scroll_offset.x and line:
            strip = self._over(strip, gutter - 1, LEFT, "cut", width)
        note, style = "", ""
        if section.is_last:
            room = width - max(text_end, self._cursor_end(section, left))
            note, style = self._note(section.row, room, is_cut=text_end > width)
        if note:
            strip = self._over(strip, width - len(note), note, style, width)
        end = width - len(note) - (2 if note else 0)
        if text_end > end:
            strip = self._over(strip, end - (0 if note else 1), RIGHT + " " * bool(note), "cut", width)
        return strip

    def get_column_width(self, row: int, column: int) -> int:
        return self._cells(self.document[row][:column])

    def _cells(self, line: str) -> int:
        return cell_len(with_signs(line).expandtabs(self.indent_width))

    def _cursor_end(self, section: RowSection, left: int) -> int:
        """Return the column after the cursor, if it is in the last section of a row."""
        row, column = self.cursor_location
        is_here = row == section.row and column >= section.start
        return left + self._cells(self.document[row][:column]) + 1 if is_here else 0

    def _note(self, row: int, room: int, *, is_cut: bool) -> tuple[str, str]:
        """Return the text and the part of a row's costs. They cover only code that `is_cut` anyway."""
        cost, stale = self._cost_of(row)
        if cost is None:
            return "", ""
        forms = short_forms(cost, stale=stale)
        fitting = next((form for form in forms if len(form) + 2 <= room), "")
        if not fitting and is_cut and row != self.cursor_location[0]:
            most = self.scrollable_content_region.width - self.gutter_width - _LEAST_CODE
            fitting = next((form for form in forms[-2:] if len(form) + 2 <= most), forms[-1])
        return fitting, "stale-cost" if stale else "cost"

    def _over(self, strip: Strip, column: int, text: str, part: str, width: int) -> Strip:
        """Return the strip with a text from a column on, on the same background."""
        end = column + len(text)
        if column < 0 or not strip.cell_length:
            return strip  # a terminal of few columns has no space for the editor's text
        before, below, after = Segment.divide(strip, (column, end, max(width, end)))
        background = next((segment.style.bgcolor for segment in below if segment.style), None)
        style = Style(bgcolor=background) + self._part(part)
        return Strip([*before, Segment(text, style), *after], max(width, end))
