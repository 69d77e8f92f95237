"""The app's own wordings; those for verdicts and outcomes are in `gpututor.grading.words`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpututor.course.exercise import Exercise

if TYPE_CHECKING:
    from gpututor.grading.inventory import Inventory


def planned_device(exercise: Exercise, inventory: Inventory | None) -> str:
    """Where a run of `exercise` will happen: the first real device that it declares, else the virtual GPU."""
    for device in inventory.accelerators if inventory else ():
        if device.kind in exercise.devices:
            return f"{device.name}, {device.description}"
    return f"virtual {exercise.scenarios[0].gpu} (modelled)"


def sentence(text: str) -> str:
    """The text with a full stop, unless it ends a sentence by itself, as a title may."""
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


def short_path(path: Path) -> str:
    """The path as people write it, from `~` where it is below the home folder."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
