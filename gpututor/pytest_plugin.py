"""`pytest --virtual-gpus N`: tests of CUDA code on machines without a GPU.

Without the option, the ini value, the marker or the fixture nothing changes, and torch is not imported.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from gpututor import __version__
from gpututor.devices.virtual import options as versions
from gpututor.devices.virtual.options import DEFAULT_MODEL, MAX_GPUS, parse_count, parse_size
from gpututor.errors import TutorError
from gpututor.hardware.gpus import GpuSpec, gpu_spec

if TYPE_CHECKING:
    from gpututor.devices.virtual import VirtualMachine

_KEYS = ("count", "model", "memory")
_MARKER = (
    "virtual_gpu(count=1, model='T4', memory=None): this test runs on a machine with that many virtual GPUs of that "
    "model, each with that memory, such as '512MiB' (gpututor)"
)


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """Options of a machine for tests."""

    count: int
    model: GpuSpec
    memory_bytes: int | None

    def machine(self) -> AbstractContextManager[VirtualMachine]:
        """Enter the machine for a block, instead of the session's machine if there is one. Imports torch."""
        with versions.explain_missing_names():
            from gpututor.devices.virtual import session

        return session.replaceable_virtual_gpu(self.count, self.model.name, memory_bytes=self.memory_bytes)


class _InvalidOption(Exception):
    """An invalid value: its key, one of `_KEYS`, and the mistake."""


_RUNNING = pytest.StashKey[MachineOptions]()
_OF_THIS_TEST = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("virtual GPU", "virtual GPUs (gpututor)")
    for name, metavar, text in (
        ("virtual-gpus", "N", f"run the tests on a machine with N virtual GPUs, 0 to {MAX_GPUS}"),
        ("virtual-gpu-model", "MODEL", f"which GPU they are, such as H100 (default: {DEFAULT_MODEL})"),
        ("virtual-gpu-memory", "SIZE", "the memory of each, such as 512MiB (default: the model's own)"),
    ):
        group.addoption(f"--{name}", metavar=metavar, default=None, help=text)
        parser.addini(name.replace("-", "_"), text, default="")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # So early that the first conftest.py sees the GPUs.
    _enter_machine(early_config, early_config.known_args_namespace)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    # If the plugin was loaded too late for the hook above, as by `pytest_plugins`.
    _enter_machine(config, config.option)


def pytest_report_header(config: pytest.Config) -> list[str]:
    if _RUNNING not in config.stash:
        return []
    import torch

    options, visible = config.stash[_RUNNING], torch.cuda.device_count()
    shown = "" if visible == options.count else f", {visible} of them visible by CUDA_VISIBLE_DEVICES"
    return [f"virtual GPU: {options.count} x {options.model.reported_name} (modelled by gpututor {__version__}){shown}"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("virtual_gpu")
    if marker is not None:
        stack = item.stash[_OF_THIS_TEST] = ExitStack()
        stack.enter_context(_from_marker(marker).machine())
    elif _RUNNING in item.config.stash and item.config.stash[_RUNNING].count:
        _reset_machine()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    try:
        return (yield)
    finally:
        if _OF_THIS_TEST in item.stash:
            item.stash[_OF_THIS_TEST].close()
            del item.stash[_OF_THIS_TEST]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Cut tracebacks at the user's last line, as on a real GPU, unless `--full-trace` is given."""
    if call.excinfo is None or item.config.getoption("fulltrace", False):
        return
    from gpututor.devices.programs import program_frames  # looks for torch

    error: BaseException | None = call.excinfo.value
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = program_frames(error.__traceback__) or error.__traceback__
        error = error.__cause__ or error.__context__
    call.excinfo = pytest.ExceptionInfo.from_exception(call.excinfo.value)


@pytest.fixture
def virtual_gpu(request: pytest.FixtureRequest) -> Iterator[VirtualMachine]:
    """The test's machine with virtual GPUs: the marker's, else the session's, else a machine with a T4."""
    from gpututor.devices.virtual import machine

    if machine.is_on():
        yield machine.active_machine()
        return
    with MachineOptions(1, gpu_spec(DEFAULT_MODEL), None).machine() as entered:
        yield entered


def _enter_machine(config: pytest.Config, namespace: Namespace) -> None:
    """Enter the machine of the options, if any, for the whole session."""
    if _RUNNING in config.stash or (options := _from_options(config, namespace)) is None:
        return
    stack = ExitStack()
    try:
        stack.enter_context(options.machine())
    except (ImportError, TutorError) as error:
        raise pytest.UsageError(f"--virtual-gpus: {error}") from error
    config.stash[_RUNNING] = options
    config.add_cleanup(stack.close)


def _from_options(config: pytest.Config, options: Namespace) -> MachineOptions | None:
    """Return the options of the command line, else of the ini file; None without any."""
    names = {"count": "virtual_gpus", "model": "virtual_gpu_model", "memory": "virtual_gpu_memory"}
    overridden = {word.partition("=")[0].strip() for word in getattr(options, "override_ini", None) or ()}
    given = {}
    origin = {}
    for key, name in names.items():
        value = getattr(options, name, None)
        given[key] = value if value is not None else (config.getini(name) or None)
        if value is not None:
            origin[key] = "--" + name.replace("_", "-")
        else:
            origin[key] = name if name in overridden or config.inipath is None else f"{name} in {config.inipath}"
    if given["count"] is None:
        for key in ("model", "memory"):
            if given[key] is not None:
                needed = "--virtual-gpus N" if origin[key].startswith("--") else "virtual_gpus"
                raise pytest.UsageError(f"{origin[key]} needs {needed}.")
        return None
    try:
        return _options(**given)
    except _InvalidOption as error:
        key, mistake = error.args
        raise pytest.UsageError(f"{origin[key]}: {mistake}") from error


def _from_marker(marker: pytest.Mark) -> MachineOptions:
    keys = f"its keys are {', '.join(_KEYS)}"
    if unknown := [name for name in marker.kwargs if name not in _KEYS]:
        message = f"it has no key {unknown[0]!r}; {keys}"
    elif len(marker.args) > len(_KEYS) or set(_KEYS[: len(marker.args)]) & set(marker.kwargs):
        message = f"it has too many values; {keys}"
    else:
        try:
            return _options(**{**dict(zip(_KEYS, marker.args, strict=False)), **marker.kwargs})
        except _InvalidOption as error:
            message = ": ".join(error.args)
    pytest.fail(f"@pytest.mark.virtual_gpu: {message}", pytrace=False)


def _options(count: object = 1, model: object = None, memory: object = None) -> MachineOptions:
    """Parse texts of the command line, or a marker's values (`memory` may be a number). Raises `_InvalidOption`."""
    key = "count"
    try:
        number = parse_count(count)
        key = "model"
        chosen = gpu_spec(DEFAULT_MODEL if model is None else str(model))
        key = "memory"
        size = None if memory is None else parse_size(f"{memory}B" if type(memory) is int else memory)
    except (ValueError, TutorError) as error:
        raise _InvalidOption(key, str(error).replace("\n", " ")) from error
    return MachineOptions(number, chosen, size)


def _reset_machine() -> None:
    """Reset state that must not leak into the next test: a failed assertion, generators, cached memory, peaks.

    Live tensors, the current device and the default device stay, as on a real GPU.
    """
    import torch

    from gpututor.devices.virtual.machine import CUDA_DEFAULT_SEED, active_machine

    active_machine().recover()
    torch.cuda.manual_seed_all(CUDA_DEFAULT_SEED)
    torch.cuda.empty_cache()
    for gpu in active_machine().gpus:
        gpu.memory.reset_peaks()
