"""History of a GPU's memory, as `torch.cuda.memory._record_memory_history` records it.

Entries and frames have the form of `torch.cuda.memory._snapshot`, so that PyTorch's memory visualizer reads them.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

_OURS = str(Path(__file__).parents[1])
Frame = dict[str, Any]
ACTIONS = (
    *("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap"),
    *("oom", "snapshot"),
)


def python_stack() -> list[Frame]:
    """Return the caller's Python frames, the innermost first, without those of the virtual GPU."""
    frames: list[Frame] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            frames.append({"name": code.co_name, "filename": code.co_filename, "line": frame.f_lineno})
        frame = frame.f_back
    return frames


class MemoryHistory:
    """The last events of one GPU's allocator, and the stack that allocated each live block."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._entries: deque[dict[str, Any]] = deque(maxlen=0)
        self._contexts: Collection[str] = ()
        """Actions whose events get a stack."""
        self._stacks_of_blocks = False
        """True if live blocks get the stack that allocated them."""
        self._skipped: Collection[str] = ()
        self._stacks: dict[int, list[Frame]] = {}

    def configure(
        self,
        *,
        most_entries: int,
        with_entries: bool,
        contexts: Collection[str],
        stacks_of_blocks: bool,
        skipped: Iterable[str],
    ) -> None:
        """Set what is recorded from now on. Events and stacks so far stay, up to `most_entries` events."""
        self._entries = deque(self._entries, maxlen=min(most_entries, sys.maxsize) if with_entries else 0)
        self._contexts, self._skipped = contexts, frozenset(skipped)
        self._stacks_of_blocks = stacks_of_blocks

    def add(self, action: str, address: int, size: int, stream: int = 0) -> None:
        """Record an event. Takes no lock: destructors call it.

        `action` is one of `ACTIONS`; `size` is in bytes, and `address` is the free memory of the device for `oom`.
        """
        frames = python_stack() if action in self._contexts else []
        if action == "alloc" and self._stacks_of_blocks:
            self._stacks[address] = frames or python_stack()
        elif action == "free_completed":
            self._stacks.pop(address, None)
        if action not in self._skipped:
            key = "device_free" if action == "oom" else "addr"
            time_us = self._now_ns() // 1000
            entry = {"action": action, key: address, "size": size, "stream": stream, "time_us": time_us}
            self._entries.append({**entry, "frames": frames})

    def entries(self) -> list[dict[str, Any]]:
        """Return the events, the oldest first."""
        return list(self._entries)

    def frames_of(self, address: int) -> list[Frame]:
        """Return the stack that allocated the live block at an address; empty if it was not recorded."""
        return self._stacks.get(address, [])
