"""What each line cost in a recorded run: the short form for the editor's edge, and a sentence. No Textual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpututor.app.lines_now import rows_now
from gpututor.trace.units import duration, size

if TYPE_CHECKING:
    from gpututor.grading.recording import LineCost as Cost

COPIES, WAITS, KERNELS, HAZARD, STALE = "⇄", "‖", "▸", "!", "~"
LEGEND = f"{COPIES} copies  {WAITS} waits  {KERNELS} kernels  {HAZARD} hazard  {STALE} before your edits"


class LineCosts:
    """The costs of the lines of one text. They stay with their lines while the text is edited."""

    def __init__(self, costs: Mapping[int, Cost], lines: Sequence[str], times: str = "") -> None:
        """`costs` by line from 1, of the text `lines`; `times`: modelled, measured or empty."""
        self.times = times
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
    """What stands at the edge: the longest form first, each one shorter than the one before."""
    marks = [HAZARD] if cost.hazards else []
    marks += [f"{glyph} {number}" for glyph, number in ((COPIES, cost.copies), (WAITS, cost.waits)) if number]
    time_ns = cost.kernel_ns + cost.copy_ns
    if cost.kernels and not time_ns:
        marks.append(f"{KERNELS} {cost.kernels}")
    time = [f"{duration(time_ns):>7}"] if time_ns else []
    amount = cost.copied_bytes or cost.allocated_bytes
    room = [f"{size(amount):>8}"] if amount else []
    glyphs = "".join(mark[0] for mark in marks) or KERNELS
    before = f"{STALE} " if stale else ""
    forms = (
        before + "  ".join([*marks, *room, *time]),
        before + "  ".join([*marks, *time]),
        before + " ".join(mark.replace(" ", "") for mark in marks),
        before.strip() + glyphs,
    )
    return tuple(form for form in dict.fromkeys(forms) if form.strip(f"{STALE} "))


def cost_in_words(cost: Cost, times: str = "", *, stale: bool = False) -> str:
    """`Line 7: 3 copies (12.0 MiB, 1.20 ms), 1 wait (0.80 ms), 4 kernels (0.30 ms); modelled.`"""
    parts = []
    if cost.copies:
        parts.append(_counted(cost.copies, "copy", "copies", size(cost.copied_bytes), _time(cost.copy_ns)))
    if cost.waits:
        parts.append(_counted(cost.waits, "wait", "waits", _time(cost.wait_ns)))
    if cost.kernels:
        parts.append(_counted(cost.kernels, "kernel", "kernels", _time(cost.kernel_ns)))
    if cost.allocated_bytes:
        parts.append(f"{size(cost.allocated_bytes)} allocated")
    words = f"Line {cost.line}{', as it ran' if stale else ''}: {', '.join(parts) or 'nothing on the device'}"
    words += f"; {times}." if times else "."
    return " ".join([words, *(f"{HAZARD} {hazard}." for hazard in cost.hazards)])


def _time(nanoseconds: int) -> str:
    return duration(nanoseconds) if nanoseconds else ""


def _counted(number: int, one: str, many: str, *figures: str) -> str:
    told = ", ".join(figure for figure in figures if figure)
    return f"{number} {one if number == 1 else many}" + (f" ({told})" if told else "")
