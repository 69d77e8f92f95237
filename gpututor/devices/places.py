"""Which line of whose file is running: what an event is put down to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from types import CodeType, FrameType

Place = tuple[str, int | None]
"""A file, and a line of it; `NOWHERE` for none."""
NOWHERE: Place = ("", None)


class Places:
    """Finds the learner's line that runs. Safe from any thread, at any time."""

    def __init__(self, files: Collection[str], is_learners: Callable[[str], bool] | None = None) -> None:
        """`files` are names of files as code objects have them; `is_learners` decides about any other name."""
        self._wanted = frozenset(files)
        self._decides = is_learners
        # By the code object's id: to hash one reads all of its code. The objects are kept, so that no id is used twice.
        self._files: dict[int, str] = {}
        self._codes: list[CodeType] = []

    def find(self, skip: int = 0, frame: FrameType | None = None) -> Place:
        """The file and line of the nearest frame that runs a learner's code; `NOWHERE` when there is none.

        `skip` callers are not looked at: the caller knows that they are not a learner's. `frame` is where another
        thread is, to look there instead.
        """
        known = self._files
        frame = frame or sys._getframe(1 + skip)
        while frame is not None:
            file = known.get(id(frame.f_code))
            if file is None:
                file = self._meet(frame.f_code)
            if file:
                return file, frame.f_lineno
            frame = frame.f_back
        return NOWHERE

    def _meet(self, code: CodeType) -> str:
        """The file of that code, which was not seen before; empty when no learner wrote it."""
        self._codes.append(code)
        name = code.co_filename
        learners = name in self._wanted or (self._decides is not None and self._decides(name))
        file = self._files[id(code)] = name if learners else ""
        return file
