"""Writes down what happens to a GPU's memory: what is allocated, freed, or does not fit."""

from __future__ import annotations

from typing import NamedTuple

from gpututor.devices.recorder import Place, Recorder
from gpututor.devices.virtual.clock.host import HostClocks


class Moment(NamedTuple):
    """When and where something was freed, which is counted later."""

    time: int
    place: Place


class MemoryWatch:
    """What one GPU's memory tells the trace. All sizes are bytes, times nanoseconds."""

    __slots__ = ("_device", "_host", "_recorder")

    def __init__(self, device: str, host: HostClocks, recorder: Recorder) -> None:
        self._device = device
        self._host = host
        self._recorder = recorder

    def moment(self) -> Moment | None:
        """Now and here, for what is freed; None while nothing is recorded. Takes no lock: destructors call it."""
        recorder = self._recorder
        return Moment(self._host.now, recorder.place()) if recorder.enabled else None

    def taken(self, size: int, allocated: int) -> None:
        """A storage was allocated; `allocated` is what all of them take now."""
        recorder = self._recorder
        if recorder.enabled:
            recorder.allocate(self._device, size, allocated, launched=self._host.now)

    def left(self, size: int, allocated: int, moment: Moment) -> None:
        """A storage was freed at that moment."""
        self._recorder.free(self._device, size, allocated, launched=moment.time, place=moment.place)

    def short(self, size: int, allocated: int) -> None:
        """A storage did not fit."""
        recorder = self._recorder
        if recorder.enabled:
            recorder.out_of_memory(self._device, size, allocated, launched=self._host.now)
