"""Words for times, folders and devices, and the first place in a file to write at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len

from gpututor.course.model import Exercise

if TYPE_CHECKING:
    from gpututor.hardware.inventory import Inventory


def planned_device(
    exercise: Exercise, inventory: Inventory | None, device: str = "auto", gpu: str | None = None
) -> str:
    """Describe the device that a `GradeRequest` with `device` and `gpu` for `exercise` will run on.

    `auto` is the first real device that the exercise declares, else the virtual GPU.
    """
    if reason_against(exercise, inventory, device):
        return f"{device}: not gradable here"
    kind = device.partition(":")[0]
    for real in inventory.accelerators if inventory else ():
        if real.kind in exercise.devices and (kind == "auto" or device in (real.kind, real.name)):
            return f"{real.name}, {real.description}"
    return f"virtual {gpu or exercise.scenarios[0].gpu} (modelled)" if kind in ("auto", "virtual") else device


def reason_against(exercise: Exercise, inventory: Inventory | None, device: str) -> str:
    """Explain why `exercise` cannot be graded on `device`, as far as the inventory says; return "" if it can."""
    kind, _, number = device.partition(":")
    if kind == "auto":
        return ""
    if kind not in exercise.devices:
        return f"It cannot be graded on {kind}, only on {', '.join(exercise.devices)}."
    if kind in ("virtual", "cpu") or inventory is None or inventory.error:
        return ""
    here = sum(real.kind == kind for real in inventory.accelerators)
    return "" if int(number or 0) < here else f"This machine has no device {device}."


def sentence(text: str) -> str:
    """Return the text with a full stop, unless it ends in a mark already, as a title may."""
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


def short_path(path: Path) -> str:
    """Return the path, starting at `~` if it is in the home folder."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def path_shortened(text: str, width: int) -> str:
    """Return the text without the start of its longest path, as far as needed for `width` columns."""
    path = max((word for word in text.split() if "/" in word and "://" not in word), key=len, default="")
    start = cell_len(text) - width + 1
    return text.replace(path, f"…{path[start:]}", 1) if 1 < start < len(path) - 1 else text


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def moment(written: str, now: datetime) -> str:
    """Describe an ISO time: `5 min ago`, `today 14:05`, `12 Nov 14:05`, `12 Nov 2025`; return other texts unchanged."""
    try:
        then = datetime.fromisoformat(written)
        ago_s = (now - then).total_seconds()
        local, today = then.astimezone(now.tzinfo), now.date()
    except (ValueError, TypeError, OverflowError):  # a newer gpututor may write times in another form
        return written
    if 0 <= ago_s < 60:
        return "just now"
    if 0 <= ago_s < 3600:
        return f"{int(ago_s // 60)} min ago"
    clock = f"{local.hour:02}:{local.minute:02}"
    match (today - local.date()).days:
        case 0:
            return f"today {clock}"
        case 1:
            return f"yesterday {clock}"
    day = f"{local.day} {_MONTHS[local.month - 1]}"
    return f"{day} {clock}" if local.year == today.year else f"{day} {local.year}"


_LINK = re.compile(r"\[([^\]\n]+)\]\([^)\n]*\)")
_EMPHASIS = re.compile(r"(\*\*?)(?=\S)([^*\n]+?)\1")


def reflowed(markdown: str) -> str:
    """Return Markdown as plain text with a line for each paragraph, to show until Markdown can be drawn."""
    blocks = []
    for block in markdown.split("\n\n"):
        if block.startswith("    "):
            blocks.append(block.replace("\n    ", "\n ").removeprefix("   "))  # one column, as it will be drawn
            continue
        if block.startswith(("```", "|")):
            blocks.append(block)
            continue
        lines = re.sub(r"\n +(?=\S)", " ", block)
        if not re.match(r"([-*]|\d+\.) ", lines):
            lines = lines.replace("\n", " ")
        lines = re.sub(r"^#+ ", "", re.sub(r"^[-*] ", "• ", lines, flags=re.MULTILINE))
        blocks.append(_EMPHASIS.sub(r"\2", _LINK.sub(r"\1", lines)).replace("`", ""))
    return "\n\n".join(blocks)


_TO_WRITE = re.compile(r"#\s*TODO\b|raise NotImplementedError\b")


def initial_cursor(lines: Sequence[str]) -> tuple[int, int]:
    """Return the row and column, from 0, of the first line to write; the start of the file if there is none."""
    for row, line in enumerate(lines):
        if _TO_WRITE.search(line):
            return row, len(line) - len(line.lstrip())
    return 0, 0
