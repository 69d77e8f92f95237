"""Real devices are shared among all gradings of a machine: who times has one for itself, the others share it.

Locks are files in a folder of the machine: whoever grades (the app, a class, Ray) keeps to them, and a lock goes with
the process that holds it. Each device has two: the lock, and the turn, which whoever wants the lock holds until it has
it, so that one who wants it alone does not wait for ever while others come and go.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gpututor import paths
from gpututor.grading.choosing import ACCELERATORS
from gpututor.wire.messages import MachineSpec

_LOOK_EVERY_S = 0.02
_FIRST_TOLD_S, _TOLD_EVERY_S = 1.0, 30.0

Tell = Callable[[str], None]
"""Called with the device's name when it is waited for longer than a moment, and again now and then."""


class DeviceLocks:
    """Of some devices. `names`: for people, each with what its files are called."""

    def __init__(self, names: dict[str, str], tell: Tell, folder: Path | None = None) -> None:
        # Always in the same order: two who want the same devices never wait for each other.
        self._names = sorted(names.items(), key=lambda pair: pair[1])
        self._tell = tell
        self._folder = folder or paths.device_locks_folder()
        self._held = contextlib.ExitStack()

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Beside others that share them."""
        self._held = self._take(fcntl.LOCK_SH)
        try:
            yield
        finally:
            self._let_go()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Inside `shared`: for a while without anybody else."""
        self._let_go()
        self._held = self._take(fcntl.LOCK_EX)
        try:
            yield
        finally:
            self._let_go()
            self._held = self._take(fcntl.LOCK_SH)

    def _take(self, how: int) -> contextlib.ExitStack:
        with contextlib.ExitStack() as taken:
            for device, file in self._names:
                with contextlib.ExitStack() as turn:
                    self._lock(turn, device, f"{file}.turn", fcntl.LOCK_EX)
                    self._lock(taken, device, f"{file}.lock", how)
            return taken.pop_all()

    def _let_go(self) -> None:
        self._held.close()

    def _lock(self, held: contextlib.ExitStack, device: str, file: str, how: int) -> None:
        descriptor = _opened(self._folder, file)
        if descriptor is None:
            return  # nothing can be locked on this machine: better a noisy time than no grading
        held.callback(os.close, descriptor)
        to_tell = time.monotonic() + _FIRST_TOLD_S
        while True:
            try:
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= to_tell:
                    self._tell(device)
                    to_tell = time.monotonic() + _TOLD_EVERY_S
                time.sleep(_LOOK_EVERY_S)
            except OSError:
                return
            else:
                return


def locks_for(
    machines: Sequence[MachineSpec],
    available: Sequence[Mapping[str, object]],
    tell: Tell,
    folder: Path | None = None,
) -> DeviceLocks:
    """Of the real accelerators that these machines use. `available`: the devices, as the worker found them."""
    names = {
        f"{machine.kind}:{index}"
        for machine in machines
        if machine.kind in ACCELERATORS
        for index in range(machine.index, machine.index + max(1, machine.gpus))
    }
    known = {str(device["name"]): device for device in available}
    return DeviceLocks({name: _file_of(name, known.get(name, {})) for name in names}, tell, folder)


def _file_of(name: str, device: Mapping[str, object]) -> str:
    """A device has other numbers in a process that does not see all; what it is called by its maker stays."""
    return re.sub(r"[^A-Za-z0-9-]", "-", f"{name.partition(':')[0]}-{device.get('uuid') or name.partition(':')[2]}")


def _opened(folder: Path, file: str) -> int | None:
    """Anybody may hold a lock on a file that they can read; nothing is ever written to it."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    with contextlib.suppress(OSError):
        if not folder.is_dir():
            folder.mkdir()
            folder.chmod(0o1777)
    with contextlib.suppress(OSError):
        return os.open(folder / file, flags)
    with contextlib.suppress(OSError):
        before = os.umask(0o022)
        try:
            return os.open(folder / file, flags | os.O_CREAT, 0o644)
        finally:
            os.umask(before)
    return None
