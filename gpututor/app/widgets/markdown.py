"""Markdown of the course: code lines are folded, and links can be chosen with keys."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.errors import NoWidget
from textual.geometry import Offset, Size
from textual.style import Style
from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownBlock, MarkdownFence

from gpututor.app.textual_private import code_of, content_of, set_code
from gpututor.app.widgets.folding import fold


@dataclass(frozen=True)
class Link:
    """A link in a text that is shown."""

    block: MarkdownBlock
    start: int
    end: int
    """First character within the block's text, and the character after the last."""
    target: str


def folded(code: Content, width: int) -> list[Content]:
    """Return the lines of `code`, each at most `width` columns wide."""
    lines: list[Content] = []
    for line in code.split("\n", allow_blank=True):
        start = 0
        for ahead, part in fold(line.plain, width):
            lines.append(Content.assemble((ahead, "$text-muted"), line[start : start + len(part)]).rstrip())
            start += len(part)
    return lines


def _is_python(code: str) -> bool:
    """Return True if the code is Python, or the head of a function without its colon."""
    for text in (code, f"{code.rstrip()}:\n    pass"):
        with contextlib.suppress(SyntaxError):
            ast.parse(text)
            return True
    return False


class FoldedFence(MarkdownFence):
    """Code block that folds long lines. Textual's own scrolls sideways, which no key does."""

    DEFAULT_CSS = "FoldedFence { overflow: hidden hidden; }"

    def compose(self) -> ComposeResult:
        return iter(())

    def set_content(self, content: Content) -> None:
        if set_code(self, content):
            self.refresh(layout=True)

    @classmethod
    @lru_cache(maxsize=256)
    def highlight(cls, code: str, language: str, ansi: bool = False, dark: bool = False) -> Content:
        """Highlight code; a block that names no language is Python or plain text, such as a diagram.

        Textual would guess the language, with 500 imports.
        """
        return super().highlight(code, language or ("python" if _is_python(code) else "text"), ansi, dark)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(folded(code_of(self), width))

    def render(self) -> Content:
        return Content("\n").join(folded(code_of(self), self.content_size.width))


def _without_own_styles(block: type[MarkdownBlock]) -> type[MarkdownBlock]:
    """Return a block whose words get their styles from the whole text.

    Textual gives each block its own styles for bold, italic and other words: five times the work to mount a lesson.
    """
    none: frozenset[str] = frozenset()
    return type(block.__name__, (block,), {"_get_component_classes": classmethod(lambda cls: none)})


_BLOCKS: dict[str, type[MarkdownBlock]] = {**Markdown.BLOCKS, "fence": FoldedFence, "code_block": FoldedFence}


class CourseText(Markdown):
    """A text of the course."""

    BLOCKS = {name: _without_own_styles(block) for name, block in _BLOCKS.items()}  # noqa: RUF012 - as Textual has it
    COMPONENT_CLASSES: ClassVar[set[str]] = set(MarkdownBlock.COMPONENT_CLASSES)
    DEFAULT_CSS = """
    CourseText {
        &:dark > .code_inline { background: $warning 10%; color: $text-warning 95%; }
        &:light > .code_inline { background: $error 5%; color: $text-error 95%; }
        &:ansi > .code_inline { background: ansi_default !important; }
        & > .em { text-style: italic; }
        & > .strong { text-style: bold; }
        & > .s { text-style: strike; }
    }
    """

    def __init__(self, text: str) -> None:
        super().__init__(text, open_links=False)
        self._chosen: Link | None = None

    @property
    def links(self) -> list[Link]:
        return [link for block in self.query(MarkdownBlock) for link in _links_of(block)]

    @property
    def chosen(self) -> Link | None:
        """The link chosen with keys, if any."""
        return self._chosen if self._chosen is not None and self._chosen.block.is_attached else None

    def choose(self, link: Link | None) -> None:
        """Mark a link, or none."""
        if (before := self.chosen) is not None:
            before.block.update(content_of(before.block))
        if link is not None:
            link.block.update(content_of(link.block).stylize("reverse bold", link.start, link.end))
        self._chosen = link

    def block_at(self, line: int) -> MarkdownBlock | None:
        """Return the smallest block with a line of the text, from 0; else the last block before it."""
        result: MarkdownBlock | None = None
        for block in self.query(MarkdownBlock):
            start, end = block.source_range
            if start <= line < end or (start <= line and (result is None or line >= result.source_range[1])):
                result = block  # a block comes before the blocks inside it
        return result

    def visible_links(self) -> list[tuple[Link, Offset]]:
        """Return the links whose start is in sight, and its position on the screen."""
        result: list[tuple[Link, Offset]] = []
        for block in self.query(MarkdownBlock):
            links = list(_links_of(block))
            if not links:
                continue
            try:
                visible = self.screen.find_widget(block).visible_region
            except NoWidget:
                continue
            origin = block.content_region.offset
            for link, offset in zip(links, _link_starts(block), strict=False):
                if visible.contains_point(origin + offset):
                    result.append((link, origin + offset))
        return result


def _link_starts(block: MarkdownBlock) -> Iterator[Offset]:
    """Yield the start of each link of a block, as it is wrapped now, relative to the block."""
    before = ""
    for row in range(block.content_size.height):
        segments = list(block.render_line(row))
        while segments and not segments[-1].text.strip():
            segments.pop()
        column = 0
        for segment in segments:
            target = _target(segment.style.meta.get("@click")) if segment.style else ""
            if target and target != before:
                yield Offset(column, row)
            before = target
            column += segment.cell_length


def _links_of(block: MarkdownBlock) -> Iterator[Link]:
    for span in content_of(block).spans:
        if isinstance(span.style, Style) and (target := _target(span.style.meta.get("@click"))):
            yield Link(block, span.start, span.end, target)


def _target(action: object) -> str:
    """Return the target in the action that Textual gives a link: `link('lesson.md')`."""
    if not isinstance(action, str) or not action.startswith("link("):
        return ""
    return str(ast.literal_eval(action.removeprefix("link")))
