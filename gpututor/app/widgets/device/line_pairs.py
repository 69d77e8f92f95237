"""The lines of two attempts beside each other, by their text, with what each cost. No Textual and no NumPy here."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from gpututor.grading.recording import LineCost
from gpututor.trace.units import same_time

_COUNTED = (("kernels", "kernel", "kernels"), ("copies", "copy", "copies"), ("waits", "wait", "waits"))


@dataclass(frozen=True)
class LinePair:
    """A line of the left file, of the right file, or the same line of both."""

    text: str
    """Without its indent."""
    left: LineCost | None
    right: LineCost | None
    left_line: int | None
    """Where it stands, from 1; None where it does not stand there."""
    right_line: int | None

    @property
    def change_ns(self) -> int:
        """By how much more the left one costs; 0 where nobody would tell both apart."""
        left, right = cost_ns(self.left), cost_ns(self.right)
        return 0 if same_time(left, right) else left - right

    @property
    def words(self) -> str:
        """`10 copies fewer, 3 waits fewer`, of the left against the right one; whether only one of them has it."""
        parts = []
        for name, one, many in _COUNTED:
            number = getattr(self.left, name, 0) - getattr(self.right, name, 0)
            if number:
                told = one if abs(number) == 1 else many
                parts.append(f"{abs(number):,} {told} {'more' if number > 0 else 'fewer'}")
        return ", ".join(parts)


def cost_ns(cost: LineCost | None) -> int:
    """Work on devices, or waits beyond it; 0 for none."""
    return max(cost.kernel_ns + cost.copy_ns, cost.wait_ns) if cost is not None else 0


def line_pairs(
    left: Sequence[str], left_costs: Sequence[LineCost], right: Sequence[str], right_costs: Sequence[LineCost]
) -> list[LinePair]:
    """The lines that cost anything in either, those first whose cost differs most. Lines are paired by their text."""
    ours, theirs = {one.line: one for one in left_costs}, {one.line: one for one in right_costs}
    pairs: list[tuple[int | None, int | None]] = []
    matcher = difflib.SequenceMatcher(None, [one.strip() for one in left], [one.strip() for one in right], False)
    for tag, left_from, left_to, right_from, right_to in matcher.get_opcodes():
        if tag == "equal":
            for step in range(left_to - left_from):
                pairs.append((left_from + step + 1, right_from + step + 1))
            continue
        pairs += [(number + 1, None) for number in range(left_from, left_to)]
        pairs += [(None, number + 1) for number in range(right_from, right_to)]
    found = []
    for our_line, their_line in pairs:
        text = (left[our_line - 1] if our_line else right[(their_line or 1) - 1]).strip()
        pair = LinePair(text, ours.get(our_line or 0), theirs.get(their_line or 0), our_line, their_line)
        if pair.left is not None or pair.right is not None:
            found.append(pair)
    return sorted(found, key=lambda one: (-abs(one.change_ns), -max(cost_ns(one.left), cost_ns(one.right))))
