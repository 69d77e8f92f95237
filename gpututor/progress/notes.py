"""What is noted of a learner's way between the attempts: where they are, what they opened, what they begin again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpututor.progress.store import ProgressStore


class Kind(StrEnum):
    """What a note is of."""

    CURRENT_EXERCISE = "current exercise"
    PLACE = "place"
    HINTS = "hints"
    SOLUTION_OPENED = "solution opened"
    BEGUN_AGAIN = "begun again"


@dataclass(frozen=True)
class Note:
    """One thing to be noted. It may be written twice: that changes nothing."""

    kind: Kind
    value: str
    """An exercise's key, or a place."""
    number: int = 0
    """How many hints are open."""

    @property
    def name(self) -> str:
        """Of two notes with one name only the newer one counts."""
        return str(self.kind) if self.kind in (Kind.CURRENT_EXERCISE, Kind.PLACE) else f"{self.kind} {self.value}"

    def write(self, progress: ProgressStore) -> None:
        """Put it into the progress file. Raises `ProgressError`."""
        from gpututor.progress.history import note_begun_again, note_solution_opened

        match self.kind:
            case Kind.CURRENT_EXERCISE:
                progress.set_current_exercise(self.value)
            case Kind.PLACE:
                progress.keep_place(self.value)
            case Kind.HINTS:
                progress.open_hints(self.value, self.number)
            case Kind.SOLUTION_OPENED:
                note_solution_opened(progress, self.value)
            case Kind.BEGUN_AGAIN:
                note_begun_again(progress, self.value)

    def to_json(self) -> dict[str, Any]:
        return {"kind": str(self.kind), "value": self.value, "number": self.number}

    @classmethod
    def from_json(cls, content: Any) -> Note:
        """Raises `ValueError`, `KeyError` or `TypeError` for what is no note that is known here."""
        return cls(Kind(content["kind"]), str(content["value"]), int(content["number"]))
