"""How much the judge takes in one answer: told to the worker with the file, so that honest code is refused in words.

What is over these sizes all the same was not written by the worker.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gpututor.wire.frames import Bounds

TICKET = "ticket"
"""The key of what each request reveals and its answer has to repeat."""
EVENTS = 500_000
"""Of one call: they take the judge 1.4 s to read."""
_EVENT_BYTES = 96
"""Of an event's numbers in JSON; 39 are usual."""
_EVENT_PARTS = 16
_VALUES_BYTES = 48 << 20
"""Of everything else in a header: 200,000 values, 4 Mi characters escaped, and the facts of the arguments."""
_VALUES_PARTS = 4 << 20
FILES_BYTES = 64 << 20
"""Of all files that a call wrote and that are brought back."""
KEPT_BYTES = 1 << 30
"""Of all answers to the calls of one run together: the judge keeps them until it has decided."""
MOST_NAMES = 50
"""Of what lies in a scratch folder."""
LONGEST_NAME = 120
"""Characters of each."""

SMALL = Bounds(header_bytes=1 << 20, parts=1 << 17, buffers=0, buffer_bytes=0, total_bytes=0)
"""Of answers without values: the longest is a failure."""


@dataclass(frozen=True)
class Sizes:
    """What one answer to a call may take."""

    result_bytes: int = 64 << 20
    """Of all tensors of a result together."""
    events: int = EVENTS
    """Of its trace."""

    @property
    def bounds(self) -> Bounds:
        """Of the frame."""
        return Bounds(
            header_bytes=_VALUES_BYTES + _EVENT_BYTES * self.events,
            parts=_VALUES_PARTS + _EVENT_PARTS * self.events,
            buffers=4096 + 256,
            buffer_bytes=max(self.result_bytes, FILES_BYTES),
            total_bytes=self.result_bytes + FILES_BYTES,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Sizes:
        return cls(**data)
