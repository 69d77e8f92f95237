"""Which part of the time is seen: zooming, panning, and round ticks for the axis. No Textual here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000), ("ns", 1))
_ROUND = (1, 2, 5)
_BETWEEN_LABELS = 3
"""Columns from one label to the next, at least."""


@dataclass(frozen=True)
class Window:
    """A part of the time from `least` to `most`, in nanoseconds; each column shows at least one."""

    least: int
    most: int
    columns: int
    begin: int
    end: int

    @classmethod
    def whole(cls, least: int, most: int, columns: int) -> Window:
        """Everything there is."""
        columns = max(columns, 1)
        most = max(most, least + columns)
        return cls(least, most, columns, least, most)

    @property
    def span(self) -> int:
        return self.end - self.begin

    @property
    def middle(self) -> int:
        return (self.begin + self.end) // 2

    @property
    def is_whole(self) -> bool:
        return self.begin == self.least and self.end == self.most

    def resized(self, columns: int) -> Window:
        """The same time in another number of columns."""
        whole = Window.whole(self.least, self.most, columns)
        return whole if self.is_whole else replace(whole, begin=self.begin, end=self.end)._at(self.begin, self.span)

    def zoomed(self, factor: float, around: int) -> Window:
        """`factor` times as much time; `around` stays in its column."""
        span = self._possible(round(self.span * factor))
        share = (around - self.begin) / self.span
        return self._at(round(around - share * span), span)

    def panned(self, share: float) -> Window:
        """Moved by a share of what is seen; to the right with a positive one."""
        return self._at(self.begin + round(self.span * share), self.span)

    def showing(self, start: int, end: int) -> Window:
        """As it is where any of this time is seen; else moved, so that its start is in the first third."""
        if start < self.end and max(end, start + 1) > self.begin:
            return self
        return self._at(start - self.span // 3, self.span)

    def around(self, start: int, end: int) -> Window:
        """Zoomed so that this time takes a third."""
        span = self._possible(3 * max(end - start, 1))
        return self._at((start + end - span) // 2, span)

    def column(self, moment: int) -> int:
        """The column of a moment, which may lie outside."""
        return (moment - self.begin) * self.columns // self.span

    def moment(self, column: int) -> int:
        """The middle of a column."""
        return self.begin + (2 * column + 1) * self.span // (2 * self.columns)

    def _possible(self, span: int) -> int:
        return min(max(span, self.columns), self.most - self.least)

    def _at(self, begin: int, span: int) -> Window:
        span = self._possible(span)
        begin = min(max(begin, self.least), self.most - span)
        return replace(self, begin=begin, end=begin + span)


@dataclass(frozen=True)
class Tick:
    """A moment with a round number."""

    column: int
    label: str


def ticks(window: Window) -> list[Tick]:
    """Round times, counted from `window.least`, as close to each other as their labels allow."""
    begin, end = window.begin - window.least, window.end - window.least
    unit, worth = next(((unit, worth) for unit, worth in _UNITS if end >= worth), _UNITS[-1])
    for power in count():
        for round_ in _ROUND:
            step = round_ * 10**power
            longest = max(len(_label(begin // step * step, step, unit, worth)), len(_label(end, step, unit, worth)))
            if step * window.columns >= (longest + _BETWEEN_LABELS) * window.span:
                first = -(-begin // step) * step
                moments = range(first, end, step)
                return [
                    Tick(window.column(moment + window.least), _label(moment, step, unit, worth)) for moment in moments
                ]
    raise AssertionError("some step is long enough")


def _label(moment: int, step: int, unit: str, worth: int) -> str:
    """`1.25 ms`, with as many digits as the step needs."""
    if moment == 0:
        return "0"
    digits = max(len(str(worth)) - len(str(step)), 0)
    return f"{moment / worth:,.{digits}f} {unit}"
