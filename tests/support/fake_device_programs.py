"""A program on the device that only the tests move."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gpututor.devices.real import observe
from gpututor.devices.recorder import Recorder
from gpututor.trace.events import Event, Kind
from tests.support.fake_devices import Clock, Device, Working


class Watched:
    """A program on the device, and its recorded events."""

    def __init__(self, file: str, **options: Any) -> None:
        """Record the events of the learner's `file`."""
        self.clock = Clock()
        self.device = Device(self.clock)
        self.recorder = Recorder([file])
        self.working = Working(self.device)
        self.options = options

    @contextmanager
    def on(self) -> Iterator[None]:
        with self.working, observe(self.recorder, backends={"meta": self.device}, clock_ns=self.clock, **self.options):
            yield

    def events(self, *kinds: Kind) -> list[Event]:
        return [event for event in self.recorder.trace if not kinds or event.kind in kinds]


def row() -> torch.Tensor:
    return torch.ones(4, device="meta")


@contextmanager
def observing(file: str, **options: Any) -> Iterator[Recorder]:
    """Record the work of this machine's devices, with the lines of `file`."""
    recorder = Recorder([file])
    with observe(recorder, **options):
        yield recorder
