"""Pages of the comparison of two attempts: figures and lines."""

from __future__ import annotations

from collections.abc import Iterator

from textual import events, on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from gpututor.app.widgets.device.beside import Pair
from gpututor.app.widgets.device.beside_checks import checks_differ, outcomes
from gpututor.app.widgets.device.line_pairs import LinePair, cost_ns, line_pairs
from gpututor.app.widgets.device.list_page import ListPage
from gpututor.app.widgets.device.places import code
from gpututor.app.widgets.device.sheet import Sheet
from gpututor.app.widgets.device.times import stacked
from gpututor.app.widgets.plain import PlainText
from gpututor.grading.recording import LineCost
from gpututor.plain_text import visible
from gpututor.trace.comparison import Difference, in_one_sentence, ratio_words
from gpututor.trace.units import duration

_PALE = "$foreground-muted"
_FIGURE, _NAME = 11, 18


class FiguresPage(Sheet[Pair]):
    """Amounts in columns, with the differences in words."""

    def lines(self, shown: Pair, width: int) -> Iterator[Content]:
        return _figures(shown, width)


def _figures(pair: Pair, width: int) -> Iterator[Content]:
    left, right, ours, theirs = pair.left, pair.right, f"attempt {pair.left.attempt}", pair.other.short
    told = in_one_sentence(pair.differences) if pair.differences else "neither did anything on a device in this call"
    yield Content(f"{told[:1].upper()}{told[1:]}.").stylize("bold")
    yield from outcomes(pair, width)
    if not pair.same_inputs:
        yield Content("Their inputs differ in shape: each grading draws its own.").stylize("$text-warning")
    if not pair.differences:
        if not checks_differ(pair) and not pair.other.is_baseline:
            yield Content("The checks said the same of both.")
        if len(left.cases) > 1:
            yield Content("c goes on to another call.").stylize(_PALE)
        return
    yield Content("")
    yield Content(f"{'this call':<{_NAME}}{ours:>{_FIGURE}}  {theirs:>{_FIGURE}}").stylize(_PALE)
    yield from map(_row, pair.differences)
    if left.run.times and right.run.times and left.run.elapsed_ns and right.run.elapsed_ns and len(left.cases) > 1:
        times = (left.run.elapsed_ns, right.run.elapsed_ns)
        words = f"{duration(times[0]):>{_FIGURE}}  {duration(times[1]):>{_FIGURE}}  {ratio_words(*times)}"
        yield Content(f"{'all calls':<{_NAME}}{words}")
    yield Content("")
    yield from _shares(pair, width)


def _row(one: Difference) -> Content:
    colour = {1: "$text-success", -1: "$text-warning"}.get(one.better, _PALE)
    return Content.assemble(f"{one.name:<{_NAME}}{one.left:>{_FIGURE}}  {one.right:>{_FIGURE}}  ", (one.words, colour))


def _shares(pair: Pair, width: int) -> Iterator[Content]:
    """What the time of both was spent on, on one scale."""
    sides = (f"attempt {pair.left.attempt}", pair.left), (pair.other.short, pair.right)
    rows = [
        (name, visible(f"{one.name} {shares.device}").strip(), shares)
        for name, view in sides
        if view.loaded is not None
        for one in view.loaded.figures
        if one.timed
        for shares in one.shares
    ]
    if not rows:
        return
    longest = max(1, *(shares.whole for _, _, shares in rows))
    devices = len({device for _, device, _ in rows}) > 1
    yield Content("What the time was spent on, on one scale").stylize("bold")
    labels = [f"{name} {device}" if devices else name for name, device, _ in rows]
    room = width - max(map(len, labels)) - 2
    for label, (_, _, shares) in zip(labels, rows, strict=True):
        yield from stacked(f"{label:<{max(map(len, labels))}}  ", shares, max(4, room * shares.whole // longest))
    for name, view in sides:
        if view.loaded is not None and not view.loaded.used_a_device:
            yield Content(f"{name}: no device did anything in this call.")


class PairLinesPage(ListPage):
    """The lines of both files that cost anything, those first whose cost differs most."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._head = PlainText("")
        self._words = PlainText("", classes="words")
        self._pair: Pair | None = None
        self._lines: list[LinePair] = []

    def compose(self) -> ComposeResult:
        yield self._head
        yield self.list
        yield self._words

    def show(self, pair: Pair) -> None:
        self._pair = pair
        left, right = pair.left, pair.right
        known = left.source is not None and right.source is not None and not pair.other.is_baseline
        self._lines = (
            line_pairs(left.source_lines, left.run.lines, right.source_lines, right.run.lines) if known else []
        )
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        pair, width = self._pair, self.list.scrollable_content_region.width or self.size.width
        if pair is None or not width:
            return
        at = self.list.highlighted
        if pair.other.is_baseline:
            self._head.update(f"The lines of {pair.other.short} are the author's, and are not shown.")
        elif not self._lines:
            self._head.update("No line of either file did anything on a device, or the texts were not kept.")
        else:
            numbers = (pair.left.attempt, pair.right.attempt)
            heads = "".join(f"{f'line of {number}':>10}{'time':>9} " for number in numbers)
            self._head.update(Content(f"{heads}   all calls of the run together").stylize(_PALE))
        self.list.set_options(Option(self._row(one, width), id=str(number)) for number, one in enumerate(self._lines))
        self.list.highlighted = min(at or 0, len(self._lines) - 1) if self._lines else None
        self._tell()

    def _row(self, one: LinePair, width: int) -> Content:
        head = "".join(
            f"{line or '-':>10}{self._time(cost):>9} "
            for line, cost in ((one.left_line, one.left), (one.right_line, one.right))
        )
        mark = "=" if not one.change_ns else "+" if one.change_ns > 0 else "−"
        colour = {"=": _PALE, "+": "$text-warning", "−": "$text-success"}[mark]
        text = Content(code(one.text)).truncate(max(8, width - len(head) - 2), ellipsis=True)
        return Content.assemble(head, (f"{mark} ", colour), text)

    @staticmethod
    def _time(cost: LineCost | None) -> str:
        return duration(cost_ns(cost)) if cost_ns(cost) else ""

    @on(OptionList.OptionHighlighted)
    def _tell(self) -> None:
        at, pair = self.list.highlighted, self._pair
        if at is None or pair is None or not self._lines:
            self._words.update("")
            return
        one = self._lines[at]
        if one.right_line is None:
            where = f"Only attempt {pair.left.attempt} has this line"
        elif one.left_line is None:
            where = f"Only attempt {pair.right.attempt} has this line"
        else:
            where = "Both have this line"
        change = one.change_ns
        words = [f"{duration(abs(change))} {'more' if change > 0 else 'less'}"] if change else []
        told = ", ".join([*words, *([one.words] if one.words else [])]) or "no difference"
        self._words.update(f"{where}: in attempt {pair.left.attempt}, {told}.")

    def line_at(self, position: int) -> int | None:
        """The line of the left file, which is in the editor."""
        return self._lines[position].left_line
