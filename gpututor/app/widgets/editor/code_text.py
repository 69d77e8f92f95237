"""The editor's text: lines that end where Python ends them, and a sign in one cell for what has no look of its own."""

from __future__ import annotations

import re
import unicodedata

from rich.cells import cell_len
from textual.geometry import Offset, Size
from textual.widgets.text_area import Document, EditResult, Location, WrappedDocument

from gpututor.plain_text import lines_of

_UNSEEN = re.compile(
    "["
    "\x00-\x08\x0a-\x1f\x7f-\x9f"  # controls, but for tab
    "\xa0\u1680\u2000-\u200a\u202f\u205f"  # spaces that Python takes for none
    "\xad\u180e\u200b-\u200d\u2060-\u2064\ufeff\U000e0000-\U000e0fff"  # no width, at least on some terminals
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f\ufff9-\ufffb"  # marks that turn the direction of writing
    "\u2028\u2029"  # separators that terminals disagree on
    "\ud800-\udfff"  # halves of surrogate pairs, which cannot be encoded
    "]"
)
_DELETE, _SPACE, _OTHER = "␡", "␣", "␦"


def unseen_columns(line: str) -> list[int]:
    """Where in a line the characters stand that have no look of their own."""
    return [match.start() for match in _UNSEEN.finditer(line)]


def with_signs(line: str) -> str:
    """The line as it is drawn: a sign in place of each character without a look, such as `␛`. Tabs stay tabs."""
    return _UNSEEN.sub(_sign, line)


def sign_words(letter: str) -> str:
    """What a sign stands for, in words; empty for a character that looks like itself."""
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
    """Textual's ends lines also at form feeds and at others, and would write newlines in their place."""

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


class CodeLines(WrappedDocument):
    """Says which cell a column is in, where signs are drawn. Never wraps."""

    def get_sections(self, line_index: int) -> list[str]:
        return [with_signs(self.document[line_index])]

    def offset_to_location(self, offset: Offset) -> Location:
        row = min(max(0, offset.y), self.document.line_count - 1)
        return row, self.get_target_document_column(row, max(0, offset.x), -1)
