"""Costs of lines at the editor's edge, and lines that moved since a run."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpututor.text import lines_of
from gpututor.trace.formatting import duration, size

if TYPE_CHECKING:
    from gpututor.grading.recording import LineCost as Cost


def rows_now(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Where each line of `old` stands in `new`, by rows from 0; changed lines are missing."""
    most = min(len(old), len(new))
    head = next((row for row in range(most) if old[row] != new[row]), most)
    tail = next((back for back in range(most - head) if old[-1 - back] != new[-1 - back]), most - head)
    rows = {row: row for row in range(head)}
    rows.update((len(old) - 1 - back, len(new) - 1 - back) for back in range(tail))
    # What is left lies between the first and the last edit: few lines, or few edits.
    middle = (
        [line.strip() for line in old[head : len(old) - tail]],
        [line.strip() for line in new[head : len(new) - tail]],
    )
    for block in difflib.SequenceMatcher(None, *middle, autojunk=False).get_matching_blocks():
        rows.update((head + block.a + step, head + block.b + step) for step in range(block.size))
    return rows


def map_line(then: str, now: str, line: int) -> tuple[int, bool]:
    """Where a line of an older text stands now, both from 1, and whether it still does.

    For a line that was changed or taken away: where it stood, seen from the lines around it.
    """
    rows, row = rows_now(lines_of(then), lines_of(now)), line - 1
    if row in rows:
        return rows[row] + 1, True
    before = max((one for one in rows if one < row), default=-1)
    after = min((one for one in rows if one > row), default=None)
    last = rows[after] + 1 if after is not None else len(lines_of(now))
    return max(1, min(rows.get(before, -1) + row - before + 1, last)), False


COPIES, WAITS, KERNELS, HAZARD, STALE = "⇄", "‖", "▸", "!", "~"
LEGEND = f"{COPIES} copies  {WAITS} waits  {KERNELS} kernels  {HAZARD} hazard  {STALE} before edits"


class LineCosts:
    """The costs of the lines of one text. They stay with their lines while the text is edited."""

    def __init__(self, costs: Mapping[int, Cost], lines: Sequence[str], times: str = "", calls: int = 1) -> None:
        """`costs` by line from 1, of the text `lines`, of so many calls; `times`: modelled, measured or empty."""
        self.times = times
        self.calls = calls
        self._costs = {line - 1: cost for line, cost in costs.items()}
        self._lines = list(lines)
        self._seen = self._lines
        self._rows = dict(self._costs)

    def by_row(self, lines: Sequence[str]) -> dict[int, Cost]:
        """The costs by row, from 0, of a text that was edited since; a changed line has none any more."""
        if lines != self._seen:
            self._seen = list(lines)
            rows = rows_now(self._lines, self._seen)
            self._rows = {rows[row]: cost for row, cost in self._costs.items() if row in rows}
        return self._rows

    def stale(self, lines: Sequence[str]) -> bool:
        """Whether the text was edited since."""
        return lines != self._lines


def short_forms(cost: Cost, *, stale: bool) -> tuple[str, ...]:
    """What stands at the edge: the longest form first, each one shorter than the one before; each has a figure."""
    hazard = [HAZARD] if cost.hazards else []
    done = [(glyph, number) for glyph, number in ((COPIES, cost.copies), (WAITS, cost.waits)) if number]
    kernels = [(KERNELS, cost.kernels)] if cost.kernels else []
    time_ns = cost.kernel_ns + cost.copy_ns
    marks = hazard + [f"{glyph} {number}" for glyph, number in done + ([] if time_ns else kernels)]
    time = [f"{duration(time_ns):>7}"] if time_ns else []
    amount = cost.copied_bytes or cost.allocated_bytes
    room = [f"{size(amount):>8}"] if amount else []
    before = f"{STALE} " if stale else ""
    forms = (
        before + "  ".join([*marks, *room, *time]),
        before + "  ".join([*marks, *time]),
        before + " ".join([*hazard, *(f"{glyph}{number}" for glyph, number in done or kernels)]),
        before.strip() + "".join([*hazard, _weightiest(cost) or "".join([*room, *time][:1]).strip() or KERNELS]),
    )
    kept: list[str] = []
    for form in forms:
        if form.strip(f"{STALE} ") and (not kept or len(form) <= len(kept[-1])) and form not in kept:
            kept.append(form)
    return tuple(kept)


def _weightiest(cost: Cost) -> str:
    """What takes most of the line's time, and how often it is done: `‖8`, `▸12k`; empty where nothing is."""
    each = (
        (cost.copy_ns, COPIES, cost.copies),
        (cost.wait_ns, WAITS, cost.waits),
        (cost.kernel_ns, KERNELS, cost.kernels),
    )
    done = [one for one in each if one[2]]
    if not done:
        return ""
    _, glyph, number = max(done, key=lambda one: one[0])
    thousands = 0
    while number >= 1000:
        number, thousands = number // 1000, thousands + 1
    return f"{glyph}{number}{'kMGTPE'[thousands - 1 : thousands]}"


def cost_in_words(cost: Cost, times: str = "", *, calls: int = 1, stale: bool = False) -> str:
    """`Line 7, all 3 calls: 3 copies (12.0 MiB, 1.20 ms), 1 wait (0.80 ms), 4 kernels (0.30 ms); modelled.`"""
    parts = []
    if cost.copies:
        parts.append(_counted(cost.copies, "copy", "copies", size(cost.copied_bytes), _time(cost.copy_ns)))
    if cost.waits:
        parts.append(_counted(cost.waits, "wait", "waits", _time(cost.wait_ns)))
    if cost.kernels:
        parts.append(_counted(cost.kernels, "kernel", "kernels", _time(cost.kernel_ns)))
    if cost.allocated_bytes:
        parts.append(f"{size(cost.allocated_bytes)} allocated")
    where = f"Line {cost.line}{', as it ran' if stale else ''}{f', {all_calls(calls)}' if calls > 1 else ''}"
    words = f"{where}: {', '.join(parts) or 'nothing on the device'}"
    words += f"; {times}." if times else "."
    return " ".join([words, *(f"{HAZARD} {hazard}." for hazard in cost.hazards)])


def all_calls(calls: int) -> str:
    """What is summed: `all 3 calls`."""
    return f"{'both' if calls == 2 else f'all {calls}'} calls"


def _time(nanoseconds: int) -> str:
    return duration(nanoseconds) if nanoseconds else ""


def _counted(number: int, one: str, many: str, *figures: str) -> str:
    told = ", ".join(figure for figure in figures if figure)
    return f"{number} {one if number == 1 else many}" + (f" ({told})" if told else "")
