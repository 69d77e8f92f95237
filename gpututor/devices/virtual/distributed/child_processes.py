"""Child processes that inherit the virtual GPU, in two ways.

A child that `multiprocessing` spawns (`torch.multiprocessing.spawn`, pools, DataLoader workers) unpickles a
`MachineImportHook` before it imports the script. Other Python processes (workers of `torchrun`, `subprocess`) find the
folder `startup` on their PYTHONPATH and the machine in an environment variable. They enter the machine when torch is
imported, so that processes without torch pay nothing. This module imports no torch.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing.spawn
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from gpututor.devices.virtual.after_import import AfterImport

VARIABLE = "GPUTUTOR_VIRTUAL_GPU"
"""Environment variable that describes the active machine as JSON."""
STARTUP = Path(__file__).parent / "startup"
"""Folder on the PYTHONPATH of children."""


@dataclass(frozen=True)
class MachineSettings:
    """Arguments of `virtual_gpu`."""

    count: int
    model: str
    memory_bytes: int | None
    backends: tuple[str, ...]
    obey_environment: bool = True
    virtual_time: bool = True
    values: bool = True

    @classmethod
    def from_json(cls, text: str) -> MachineSettings:
        """Parse the output of `to_json`; raise `ValueError` for anything else."""
        fields = json.loads(text)
        if not isinstance(fields, dict) or set(fields) != set(cls.__dataclass_fields__):
            raise ValueError(f"{VARIABLE} does not describe a virtual machine: {text}")
        return cls(**{**fields, "backends": tuple(fields["backends"])})

    def to_json(self) -> str:
        return json.dumps(asdict(self))


Enter = Callable[[MachineSettings], None]
"""Function that enters a machine for the rest of the process."""


class _Process:
    """State of this process: the hook for its children, and the machine that it inherited."""

    hook: MachineImportHook | None = None
    inherited: ExitStack | None = None


@contextmanager
def inherited_settings(settings: MachineSettings, enter: Enter) -> Iterator[None]:
    """Give children started inside the block a machine like this one; restore the environment afterwards."""
    before = {name: os.environ.get(name) for name in (VARIABLE, "PYTHONPATH")}
    inherited_before = _Process.hook
    _Process.hook = MachineImportHook(settings, enter)
    os.environ[VARIABLE] = settings.to_json()
    folders = before["PYTHONPATH"].split(os.pathsep) if before["PYTHONPATH"] else []
    os.environ["PYTHONPATH"] = os.pathsep.join([str(STARTUP), *(path for path in folders if path != str(STARTUP))])
    try:
        yield
    finally:
        _Process.hook = inherited_before
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def keep_open(stack: ExitStack) -> None:
    """Keep the inherited machine on until `leave` or the end of the process."""
    _Process.inherited = stack
    # Leave before the interpreter shuts down: torch would call modes whose modules are already unloaded.
    atexit.register(leave)


def leave() -> None:
    """Leave the inherited machine, if any, for example because the program creates a machine itself."""
    stack, _Process.inherited = _Process.inherited, None
    if stack is not None:
        atexit.unregister(leave)
        stack.close()


def enter_when_torch_is_imported(enter: Enter) -> None:
    """Call `enter` after the first import of torch if the environment describes a machine; runs as Python starts."""
    text = os.environ.get(VARIABLE)
    if not text or any(type(finder) is AfterImport for finder in sys.meta_path):
        return
    settings = MachineSettings.from_json(text)

    def enter_unless_imported(_: ModuleType) -> None:
        # A program that imports the virtual GPU before torch creates its own machine, and is being imported now.
        if not any(_is_being_imported(sys.modules[name]) for name in list(sys.modules) if name.startswith("gpututor.")):
            enter(settings)

    AfterImport("torch", enter_unless_imported).install()


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


class MachineImportHook:
    """Object that enters the machine in the process that unpickles it."""

    def __init__(self, settings: MachineSettings, enter: Enter) -> None:
        self._settings = settings
        self._enter = enter

    def __reduce__(self) -> tuple[Enter, tuple[MachineSettings]]:
        return self._enter, (self._settings,)


_real_preparation_data: Any = multiprocessing.spawn.get_preparation_data


def get_preparation_data(name: str) -> dict[str, Any]:
    """Replace `multiprocessing.spawn.get_preparation_data`: add the hook that enters the machine in the child."""
    data: dict[str, Any] = _real_preparation_data(name)
    return data if _Process.hook is None else {**data, "gpututor": _Process.hook}
