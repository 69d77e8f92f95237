"""When a mark will be reached, as far as is known by now; nothing is decided by looking. Imports no torch.

Other processes want to know when this one will be ready. To play the streams up to there would settle what runs beside
work that the host has still to launch: so they are played, and put back as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from gpututor.devices.virtual.clock.timeline import Mark, Task, Timeline


def foreseen(timelines: Sequence[Timeline], timeline: Timeline, mark: Mark) -> int:
    """When `mark`, which is in a stream of `timeline`, will be reached if nothing more is launched.

    `timelines` are those of all GPUs of the machine.
    """
    if mark.time >= 0:
        return mark.time
    before = [_Kept(one) for one in timelines]
    try:
        return timeline.reached(mark)
    finally:
        for kept in before:
            kept.put_back()


class _Kept:
    """A timeline as it is now."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._state = timeline.state()
        self._streams = [
            (stream, stream.queue.copy(), stream.free_at, stream.pending) for stream in timeline.streams.values()
        ]

    def put_back(self) -> None:
        self._timeline.go_back_to(self._state)
        for stream, queue, free_at, pending in self._streams:
            for one in islice(queue, len(queue) - len(stream.queue)):
                if type(one) is Task:
                    one.start = one.end = -1
                elif type(one) is Mark:
                    one.time = -1
            stream.queue, stream.free_at, stream.pending = queue, free_at, pending
