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
    """Map rows of `old`, from 0, to rows of `new`, except for changed lines."""
    most = min(len(old), len(new))
    head = next((row for row in range(most) if old[row] != new[row]), most)
    tail = next((back for back in range(most - head) if old[-1 - back] != new[-1 - back]), most - head)
    rows = {row: row for row in range(head)}
    rows.update((len(old) - 1 - back, len(new) - 1 - back) for back in range(tail))
    # The rest, from the first to the last edit, has few lines or few edits.
    before, after = [[line.strip() for line in lines[head : len(lines) - tail]] for lines in (old, new)]
    for block in difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        rows.update((head + block.a + step, head + block.b + step) for step in range(block.size))
    return rows


def map_line(then: str, now: str, line: int) -> tuple[int, bool]:
    """Return a line's number in the text now and True, or where it was and False; lines count from 1."""
    rows, row = rows_now(lines_of(then), lines_of(now)), line - 1
    if row in rows:
        return rows[row] + 1, True
    before = max((known for known in rows if known < row), default=-1)
    after = min((known for known in rows if known > row), default=None)
    last = rows[after] + 1 if after is not None else len(lines_of(now))
    return max(1, min(rows.get(before, -1) + row - before + 1, last)), False


COPIES, WAITS, KERNELS, HAZARD, STALE = "⇄", "‖", "▸", "!", "~"
LEGEND = f"{COPIES} copies  {WAITS} waits  {KERNELS} kernels  {HAZARD} hazard  {STALE} before edits"


class LineCosts:
    """Costs of the lines of a text, which move with their lines while the text is edited."""

    def __init__(self, costs: Mapping[int, Cost], lines: Sequence[str], times: str = "", calls: int = 1) -> None:
        """`costs`: by line from 1, of the text `lines` and of `calls` calls. `times`: modelled, measured or empty."""
        self.times = times
        self.calls = calls
        self._costs = {line - 1: cost for line, cost in costs.items()}
        self._lines = list(lines)
        self._seen = self._lines
        self._rows = dict(self._costs)

    def by_row(self, lines: Sequence[str]) -> dict[int, Cost]:
        """Return the costs by row, from 0, of a text that was edited since, except for changed lines."""
        if lines != self._seen:
            self._seen = list(lines)
            rows = rows_now(self._lines, self._seen)
            self._rows = {rows[row]: cost for row, cost in self._costs.items() if row in rows}
        return self._rows

    def stale(self, lines: Sequence[str]) -> bool:
        return lines != self._lines


def short_forms(cost: Cost, *, stale: bool) -> tuple[str, ...]:
    """Return texts for the editor's edge, the longest first; each has a figure."""
    hazard = [HAZARD] if cost.hazards else []
    done = [(glyph, number) for glyph, number in ((COPIES, cost.copies), (WAITS, cost.waits)) if number]
    kernels = [(KERNELS, cost.kernels)] if cost.kernels else []
    time_ns = cost.kernel_ns + cost.copy_ns
    marks = hazard + [f"{glyph} {number}" for glyph, number in done + ([] if time_ns else kernels)]
    time = [f"{duration(time_ns):>7}"] if time_ns else []
    amount = cost.copied_bytes or cost.allocated_bytes
    memory = [f"{size(amount):>8}"] if amount else []
    before = f"{STALE} " if stale else ""
    forms = (
        before + "  ".join([*marks, *memory, *time]),
        before + "  ".join([*marks, *time]),
        before + " ".join([*hazard, *(f"{glyph}{number}" for glyph, number in done or kernels)]),
        before.strip() + "".join([*hazard, _most_expensive(cost) or "".join([*memory, *time][:1]).strip() or KERNELS]),
    )
    shorter: list[str] = []
    for form in forms:
        if form.strip(f"{STALE} ") and (not shorter or len(form) <= len(shorter[-1])) and form not in shorter:
            shorter.append(form)
    return tuple(shorter)


def _most_expensive(cost: Cost) -> str:
    """Return the kind of work with most of the line's time, and its number: `‖8`, `▸12k`; empty if there is none."""
    kinds = (
        (cost.copy_ns, COPIES, cost.copies),
        (cost.wait_ns, WAITS, cost.waits),
        (cost.kernel_ns, KERNELS, cost.kernels),
    )
    done = [kind for kind in kinds if kind[2]]
    if not done:
        return ""
    _, glyph, number = max(done, key=lambda kind: kind[0])
    thousands = 0
    while number >= 1000:
        number, thousands = number // 1000, thousands + 1
    return f"{glyph}{number}{'kMGTPE'[thousands - 1 : thousands]}"


def cost_in_words(cost: Cost, times: str = "", *, calls: int = 1, stale: bool = False) -> str:
    """Describe costs: `Line 7, all 3 calls: 3 copies (12.0 MiB, 1.20 ms), 4 kernels (0.30 ms); modelled.`"""
    works = (
        (cost.copies, "copy", "copies", size(cost.copied_bytes), _time(cost.copy_ns)),
        (cost.waits, "wait", "waits", _time(cost.wait_ns)),
        (cost.kernels, "kernel", "kernels", _time(cost.kernel_ns)),
    )
    parts = [_counted(*work) for work in works if work[0]]
    if cost.allocated_bytes:
        parts.append(f"{size(cost.allocated_bytes)} allocated")
    where = f"Line {cost.line}{' as run' if stale else ''}{f', {all_calls(calls)}' if calls > 1 else ''}"
    words = f"{where}: {', '.join(parts) or 'nothing on the device'}"
    words += f"; {times}." if times else "."
    return " ".join([words, *(f"{HAZARD} {hazard}." for hazard in cost.hazards)])


def all_calls(calls: int) -> str:
    """Name the calls of a sum: `all 3 calls`."""
    return f"{'both' if calls == 2 else f'all {calls}'} calls"


def _time(nanoseconds: int) -> str:
    return duration(nanoseconds) if nanoseconds else ""


def _counted(number: int, singular: str, plural: str, *figures: str) -> str:
    details = ", ".join(filter(None, figures))
    return f"{number} {singular if number == 1 else plural}" + (f" ({details})" if details else "")
