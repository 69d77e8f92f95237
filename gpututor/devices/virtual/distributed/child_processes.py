"""Child processes that inherit the virtual GPU.

Two ways lead there. A child that `multiprocessing` spawns (`torch.multiprocessing.spawn`, pools, DataLoader workers)
unpickles a `MachineImportHook` before it imports the script. Any other Python process (`torchrun`'s workers,
`subprocess`) finds the folder `startup` on its PYTHONPATH and the machine in an environment variable; it enters as soon
as torch is imported, so that a process without torch pays nothing. No torch is imported here before that.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import multiprocessing.spawn
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

VARIABLE = "GPUTUTOR_VIRTUAL_GPU"
"""The environment variable that holds the machine, as JSON, while it is on."""
STARTUP = Path(__file__).parent / "startup"
"""On the PYTHONPATH of children."""


@dataclass(frozen=True)
class MachineSettings:
    """What a virtual machine was asked to be: the arguments of `virtual_gpu`."""

    count: int
    model: str
    memory_bytes: int | None
    backends: tuple[str, ...]
    obey_environment: bool = True
    virtual_time: bool = True
    values: bool = True

    @classmethod
    def from_json(cls, text: str) -> MachineSettings:
        """Read what `to_json` wrote. Raises `ValueError` for anything else."""
        found = json.loads(text)
        if not isinstance(found, dict) or set(found) != set(cls.__dataclass_fields__):
            raise ValueError(f"{VARIABLE} does not describe a virtual machine: {text}")
        return cls(**{**found, "backends": tuple(found["backends"])})

    def to_json(self) -> str:
        return json.dumps(asdict(self))


Enter = Callable[[MachineSettings], None]
"""Enters a machine for the rest of the process. The session has it, which no module here imports."""


class _Process:
    """The state of this process: the hook that its children get, and the machine that it inherited."""

    hook: MachineImportHook | None = None
    inherited: ExitStack | None = None


@contextmanager
def inherited_settings(settings: MachineSettings, enter: Enter) -> Iterator[None]:
    """Children that are started in the block get a machine like this one; the environment is put back afterwards."""
    before = {name: os.environ.get(name) for name in (VARIABLE, "PYTHONPATH")}
    inherited_before = _Process.hook
    _Process.hook = MachineImportHook(settings, enter)
    os.environ[VARIABLE] = settings.to_json()
    path = (before["PYTHONPATH"] or "").split(os.pathsep) if before["PYTHONPATH"] else []
    os.environ["PYTHONPATH"] = os.pathsep.join([str(STARTUP), *(one for one in path if one != str(STARTUP))])
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
    """Keep the inherited machine on until `leave`, at the end of the process at the latest."""
    _Process.inherited = stack
    # Before the interpreter is taken apart: torch would call modes whose modules are gone.
    atexit.register(leave)


def leave() -> None:
    """Leave the inherited machine, where there is one: what a program asks for itself comes first."""
    stack, _Process.inherited = _Process.inherited, None
    if stack is not None:
        atexit.unregister(leave)
        stack.close()


def enter_when_torch_is_imported(enter: Enter) -> None:
    """Call `enter` after the first import of torch, where the environment names a machine; run as Python starts."""
    text = os.environ.get(VARIABLE)
    if text and not any(type(one) is _TorchFinder for one in sys.meta_path):
        sys.meta_path.insert(0, _TorchFinder(MachineSettings.from_json(text), enter))


class _TorchFinder(MetaPathFinder):
    """Finds torch where it always is, and has the machine entered after it."""

    def __init__(self, settings: MachineSettings, enter: Enter) -> None:
        self._settings = settings
        self._enter = enter

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenEnter(spec.loader, self._settings, self._enter)
        return spec


class _ThenEnter(Loader):
    def __init__(self, real: Loader, settings: MachineSettings, enter: Enter) -> None:
        self._real = real
        self._settings = settings
        self._enter = enter

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        # A program that imports the virtual GPU before torch says itself which one it wants, and is half-way there.
        if not any(_is_being_imported(sys.modules[name]) for name in list(sys.modules) if name.startswith("gpututor.")):
            self._enter(self._settings)


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


class MachineImportHook:
    """An object that enters the machine in the process where it is unpickled."""

    def __init__(self, settings: MachineSettings, enter: Enter) -> None:
        self._settings = settings
        self._enter = enter

    def __reduce__(self) -> tuple[Enter, tuple[MachineSettings]]:
        return self._enter, (self._settings,)


def preparation_data(real: Callable[[str], dict[str, Any]], name: str) -> dict[str, Any]:
    """Return what `multiprocessing` sends to a child before its work, and the hook that enters the machine there."""
    data = real(name)
    return data if _Process.hook is None else {**data, "gpututor": _Process.hook}


_real_preparation_data: Any = multiprocessing.spawn.get_preparation_data


def get_preparation_data(name: str) -> dict[str, Any]:
    """Stands in for `multiprocessing.spawn.get_preparation_data`."""
    return preparation_data(_real_preparation_data, name)
