"""Processes that are started on a virtual machine are on one of the same kind, each with GPUs of its own.

Two ways lead there. A child that `multiprocessing` spawns (`torch.multiprocessing.spawn`, pools, DataLoader workers)
unpickles an `Entrance` before it imports the script. Any other Python process (`torchrun`'s workers, `subprocess`)
finds the folder `startup` on its PYTHONPATH and the machine in an environment variable; it enters as soon as torch is
imported, so that a process without torch pays nothing. No torch is imported here before that.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
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


class _Process:
    """What this process passes on, and what it inherited."""

    settings: MachineSettings | None = None
    inherited: ExitStack | None = None


@contextmanager
def passed_on(settings: MachineSettings) -> Iterator[None]:
    """Children that are started in the block get a machine like this one; the environment is put back afterwards."""
    before = {name: os.environ.get(name) for name in (VARIABLE, "PYTHONPATH")}
    settings_before = _Process.settings
    _Process.settings = settings
    os.environ[VARIABLE] = settings.to_json()
    path = (before["PYTHONPATH"] or "").split(os.pathsep) if before["PYTHONPATH"] else []
    os.environ["PYTHONPATH"] = os.pathsep.join([str(STARTUP), *(one for one in path if one != str(STARTUP))])
    try:
        yield
    finally:
        _Process.settings = settings_before
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def enter(settings: MachineSettings) -> None:
    """Be on a machine like the parent's until the process ends; nothing where a virtual GPU is on already."""
    import torch  # noqa: F401 # first: where the start-up folder is in use, this enters

    from gpututor.devices import reports
    from gpututor.devices.virtual.machine import is_on
    from gpututor.devices.virtual.session import virtual_gpu

    if is_on():
        return
    report = reports.wished()
    stack = ExitStack()
    machine = stack.enter_context(
        virtual_gpu(
            settings.count,
            settings.model,
            memory_bytes=settings.memory_bytes,
            backends=settings.backends,
            obey_environment=settings.obey_environment,
            virtual_time=settings.virtual_time,
            values=settings.values,
            recorder=None if report is None else report.recorder,
        )
    )
    _Process.inherited = stack
    # Before the interpreter is taken apart: torch would call modes whose modules are gone.
    atexit.register(leave)
    if report is not None:
        report.begin("virtual", settings.model, machine)


def leave() -> None:
    """Leave the inherited machine, where there is one: what a program asks for itself comes first."""
    stack, _Process.inherited = _Process.inherited, None
    if stack is not None:
        atexit.unregister(leave)
        stack.close()


def enter_when_torch_is_imported() -> None:
    """Called as Python starts, where the environment names a machine."""
    text = os.environ.get(VARIABLE)
    if text and not any(type(one) is _TorchFinder for one in sys.meta_path):
        sys.meta_path.insert(0, _TorchFinder(MachineSettings.from_json(text)))


class _TorchFinder(MetaPathFinder):
    """Finds torch where it always is, and has the machine entered after it."""

    def __init__(self, settings: MachineSettings) -> None:
        self._settings = settings

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenEnter(spec.loader, self._settings)
        return spec


class _ThenEnter(Loader):
    def __init__(self, real: Loader, settings: MachineSettings) -> None:
        self._real = real
        self._settings = settings

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        # A program that imports the virtual GPU before torch says itself which one it wants, and is half-way there.
        if not any(_is_being_imported(sys.modules[name]) for name in list(sys.modules) if name.startswith("gpututor.")):
            enter(self._settings)


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


class Entrance:
    """Where it is unpickled, the machine is entered."""

    def __init__(self, settings: MachineSettings) -> None:
        self._settings = settings

    def __reduce__(self) -> tuple[Callable[[MachineSettings], None], tuple[MachineSettings]]:
        return enter, (self._settings,)


def preparation_data(real: Callable[[str], dict[str, Any]], name: str) -> dict[str, Any]:
    """What `multiprocessing` sends to a child before its work, and an entrance."""
    found = real(name)
    settings = _Process.settings
    return found if settings is None else {**found, "gpututor": Entrance(settings)}
