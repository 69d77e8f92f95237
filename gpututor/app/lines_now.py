"""Where the lines of an older text stand in a newer one."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from gpututor.plain_text import lines_of


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


def line_now(then: str, now: str, line: int) -> tuple[int, bool]:
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
