"""What must hold in a worker from the moment a machine was entered until it is left: its code, and its observers."""

from __future__ import annotations

import functools
import sys
from dataclasses import fields
from typing import Any

from gpututor.worker.integrity import MOST_NAMED, Seal, seal_of_code, seal_of_machine
from gpututor.worker.line import Line
from gpututor.worker.machines import EnteredMachine


@functools.cache
def code_of_worker() -> Seal:
    """One for the worker's life: it is made before a submission is there, and holds over all its scenarios."""
    return seal_of_code()


@functools.cache
def code_of_machine(*, virtual: bool) -> Seal:
    """As a machine of that kind has it: made in the first one, and renewed in every later one."""
    return seal_of_machine(_replaced() if virtual else [])


class Sealed:
    """One scenario's seal, made in the machine before the submission is loaded."""

    def __init__(self, machine: EnteredMachine, line: Line | None = None) -> None:
        """`line`: the worker's end of the conversation, where there is one."""
        self._recorder, self._trace = machine.recorder, machine.recorder.trace
        self._seals = (code_of_worker(), code_of_machine(virtual=machine.virtual is not None).renewed())
        self._held = _held(machine)
        self._held += [_Held("the line", line, "_stream", "sizes")] if line is not None else []
        self._switched_off = self._recorder.switched_off
        self._noticed: dict[str, None] = {}
        self._machine = machine.virtual

    def recorded(self, limit: int) -> None:
        """To be called where the recorder is on, when the call of the learner's function is over."""
        off = self._recorder.switched_off
        # A real device's recorder is off while the observer itself uses the device.
        if self._recorder.enabled is not True or (self._machine is not None and off != self._switched_off):
            self._noticed["recorder.enabled"] = None
        self._switched_off = off + 1  # the worker does so next
        if self._recorder.trace is not self._trace:
            self._noticed["recorder.trace"] = None
        if self._trace.limit != limit:
            self._noticed["recorder.trace.limit"] = None

    def changed(self) -> list[str]:
        """All that was replaced so far, by name; what was put back again before anybody looked is not known."""
        for seal in self._seals:
            self._noticed |= dict.fromkeys(seal.changed())
        self._noticed |= {words: None for held in self._held for words in held.changed()}
        if sys.gettrace() is not None:
            self._noticed["sys.settrace"] = None
        if self._machine is not None and not _is_active(self._machine):
            self._noticed["the virtual GPU"] = None
        return list(self._noticed)[:MOST_NAMED]


class _Held:
    """One object: its class, that nothing hides its methods, and that these attributes stay the same objects."""

    def __init__(self, words: str, held: object, *attributes: str) -> None:
        self._words, self._object, self._class = words, held, type(held)
        self._attributes = tuple((name, getattr(held, name)) for name in attributes)

    def changed(self) -> list[str]:
        found = [] if type(self._object) is self._class else [self._words]
        methods = _methods(self._class)  # type: ignore[arg-type]
        hidden = methods.intersection(getattr(self._object, "__dict__", ()))
        found += [f"{self._words}.{name}" for name in sorted(hidden)]
        for name, value in self._attributes:
            if getattr(self._object, name, None) is not value:
                found.append(f"{self._words}.{name}")
        return found


@functools.cache
def _methods(of: type) -> frozenset[str]:
    return frozenset(name for name in dir(of) if callable(getattr(of, name, None)))


def _held(machine: EnteredMachine) -> list[_Held]:
    recorder = machine.recorder
    found = [
        _Held("recorder", recorder, "trace", "finish", "place", "unseen"),
        _Held("recorder.trace", recorder.trace, "names", "devices", "files"),
        _Held("the gauge", machine.gauge),
    ]
    virtual = machine.virtual
    if virtual is None:
        return found
    found += [
        _Held("the machine", virtual, "gpus", "clock", "recorder", "per_thread", "backends", "values"),
        _Held("the clock", virtual.clock, "host", "gpus", "order"),
        _Held("the host's clock", virtual.clock.host),
    ]
    for gpu, timeline in zip(virtual.gpus, virtual.clock.gpus, strict=True):
        found += [
            _Held(gpu.name, gpu, "memory", "spec", "launch_ns", "view_ns", "device"),
            _Held(f"the memory of {gpu.name}", gpu.memory, "watch", "statistics", "total"),
            _Held(f"the timeline of {gpu.name}", timeline, "played", "peers", "index"),
            _Held(f"the figures of {gpu.name}", gpu.spec, *(field.name for field in fields(gpu.spec))),
        ]
    return found


def _replaced() -> list[tuple[object, str]]:
    """What the virtual GPU stands in for."""
    from gpututor.devices.virtual.patch_table import CUDA_BUILD, PATCHES, TIME

    return [(patch.owner_object(), patch.name) for patch in (*PATCHES, *CUDA_BUILD, *TIME)]


def _is_active(machine: Any) -> bool:
    from gpututor.devices.virtual.clock.reading import virtual_host
    from gpututor.devices.virtual.machine import active, is_on

    return is_on() and active() is machine and virtual_host() is machine.clock.host
