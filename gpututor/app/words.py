"""The app's own wordings; those for verdicts and outcomes are in `gpututor.grading.words`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpututor.course.exercise import Exercise

if TYPE_CHECKING:
    from gpututor.grading.inventory import Inventory


def planned_device(
    exercise: Exercise, inventory: Inventory | None, device: str = "auto", gpu: str | None = None
) -> str:
    """Where a run of `exercise` will happen, as `device` and `gpu` of a `GradeRequest` ask for it.

    `auto` is the first real device that the exercise declares, else the virtual GPU.
    """
    if reason_against(exercise, inventory, device):
        return f"{device}: not gradable here"
    wanted = device.partition(":")[0]
    for found in inventory.accelerators if inventory else ():
        if found.kind in exercise.devices and (wanted == "auto" or device in (found.kind, found.name)):
            return f"{found.name}, {found.description}"
    return f"virtual {gpu or exercise.scenarios[0].gpu} (modelled)" if wanted in ("auto", "virtual") else device


def reason_against(exercise: Exercise, inventory: Inventory | None, device: str) -> str:
    """Why `exercise` cannot be graded on `device`, as far as is known without asking; empty when it can."""
    kind, _, number = device.partition(":")
    if kind == "auto":
        return ""
    if kind not in exercise.devices:
        return f"On {kind} it cannot show what it is about; it is graded on {', '.join(exercise.devices)}."
    if kind in ("virtual", "cpu") or inventory is None or inventory.error:
        return ""
    here = sum(found.kind == kind for found in inventory.accelerators)
    return "" if int(number or 0) < here else f"This machine has no device {device}."


def sentence(text: str) -> str:
    """The text with a full stop, unless it ends a sentence by itself, as a title may."""
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


def short_path(path: Path) -> str:
    """The path as people write it, from `~` where it is below the home folder."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
