"""`pytest --virtual-gpus N`: tests of CUDA code on machines without a GPU. Imports torch only when it is asked to.

Without the option, the ini value, the marker or the fixture nothing is changed.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpututor import __version__
from gpututor.devices.virtual import options as versions
from gpututor.devices.virtual.options import DEFAULT_MODEL, MAX_GPUS, bytes_in, count_in
from gpututor.errors import TutorError
from gpututor.hardware.gpus import GpuSpec, gpu_spec

if TYPE_CHECKING:
    from types import TracebackType

    from gpututor.devices.virtual import VirtualMachine

_VIRTUAL = Path(versions.__file__).parent
_KEYS = ("count", "model", "memory")
_MARKER = (
    "virtual_gpu(count=1, model='T4', memory=None): this test runs on a machine with that many virtual GPUs of that "
    "model, each with that memory, such as '512MiB' (gpututor)"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A machine that tests asked for."""

    count: int
    model: GpuSpec
    memory_bytes: int | None

    def switched_on(self) -> AbstractContextManager[VirtualMachine]:
        """The machine, for a block; in place of the session's, where that is on. Imports torch."""
        with versions.lookups_in_words():
            from gpututor.devices.virtual import session

        return session.virtual_gpu_or_another(self.count, self.model.name, memory_bytes=self.memory_bytes)


class _Refused(Exception):
    """Words for a person about one value; says which of the three it was."""

    def __init__(self, what: str, words: str) -> None:
        super().__init__(words)
        self.what = what


_RUNNING = pytest.StashKey[Wanted]()
_OF_THIS_TEST = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("virtual GPU", "virtual GPUs (gpututor)")
    for name, metavar, words in (
        ("virtual-gpus", "N", f"run the tests on a machine with N virtual GPUs, 0 to {MAX_GPUS}"),
        ("virtual-gpu-model", "MODEL", f"which GPU they are, such as H100 (default: {DEFAULT_MODEL})"),
        ("virtual-gpu-memory", "SIZE", "the memory of each, such as 512MiB (default: the model's own)"),
    ):
        group.addoption(f"--{name}", metavar=metavar, default=None, help=words)
        parser.addini(name.replace("-", "_"), words, default="")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # So early that the first conftest.py sees the GPUs.
    _switch_on(early_config, early_config.known_args_namespace)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    # Where the plugin was loaded too late for the hook above, as by `pytest_plugins`.
    _switch_on(config, config.option)


def pytest_report_header(config: pytest.Config) -> list[str]:
    if _RUNNING not in config.stash:
        return []
    import torch

    wanted, visible = config.stash[_RUNNING], torch.cuda.device_count()
    shown = "" if visible == wanted.count else f", {visible} of them visible by CUDA_VISIBLE_DEVICES"
    return [f"virtual GPU: {wanted.count} x {wanted.model.reported_name} (modelled by gpututor {__version__}){shown}"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("virtual_gpu")
    if marker is not None:
        stack = item.stash[_OF_THIS_TEST] = ExitStack()
        stack.enter_context(_from_marker(marker).switched_on())
    elif _RUNNING in item.config.stash and item.config.stash[_RUNNING].count:
        _as_in_a_fresh_process()


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
    """A failure ends at the line that a person wrote, as on a real GPU; `--full-trace` shows the rest."""
    if call.excinfo is None or item.config.getoption("fulltrace", False):
        return
    error: BaseException | None = call.excinfo.value
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _without_ours(error.__traceback__)
        error = error.__cause__ or error.__context__
    call.excinfo = pytest.ExceptionInfo.from_exception(call.excinfo.value)


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """The lines but the virtual GPU's own, and torch's between and below them: on a real GPU these are C++."""
    lines, at = [], traceback
    below_ours = False
    while at is not None:
        path = Path(at.tb_frame.f_code.co_filename)
        below_ours = path.is_relative_to(_VIRTUAL) or (below_ours and "torch" in path.parts)
        if not below_ours and path.parts[-2:] != ("torch", "overrides.py"):
            lines.append(at)
        at = at.tb_next
    if not lines:
        return traceback
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        line.tb_next = following
    return lines[0]


@pytest.fixture
def virtual_gpu(request: pytest.FixtureRequest) -> Iterator[VirtualMachine]:
    """The machine with virtual GPUs that this test runs on: the marker's, else the session's, else one T4's."""
    from gpututor.devices.virtual import machine

    if machine.is_on():
        yield machine.active_machine()
        return
    with Wanted(1, gpu_spec(DEFAULT_MODEL), None).switched_on() as made:
        yield made


def _switch_on(config: pytest.Config, options: Namespace) -> None:
    """The machine of the whole session, if one is wanted and not on yet; it goes off at the session's end."""
    if _RUNNING in config.stash:
        return
    wanted = _from_options(config, options)
    if wanted is None:
        return
    stack = ExitStack()
    try:
        stack.enter_context(wanted.switched_on())
    except (ImportError, TutorError) as error:
        raise pytest.UsageError(f"--virtual-gpus: {error}") from error
    config.stash[_RUNNING] = wanted
    config.add_cleanup(stack.close)


def _from_options(config: pytest.Config, options: Namespace) -> Wanted | None:
    """What the command line asks for, else the ini file; None when nobody wants a machine."""
    names = dict(zip(_KEYS, ("virtual_gpus", "virtual_gpu_model", "virtual_gpu_memory"), strict=True))
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
                raise pytest.UsageError(f"{origin[key]} needs {needed} beside it.")
        return None
    try:
        return _wanted(**given)
    except _Refused as error:
        raise pytest.UsageError(f"{origin[error.what]}: {error}") from error


def _from_marker(marker: pytest.Mark) -> Wanted:
    keys = f"its keys are {', '.join(_KEYS)}"
    words = ""
    if unknown := [name for name in marker.kwargs if name not in _KEYS]:
        words = f"it has no key {unknown[0]!r}; {keys}"
    elif len(marker.args) > len(_KEYS) or set(_KEYS[: len(marker.args)]) & set(marker.kwargs):
        words = f"it has too many values; {keys}"
    else:
        try:
            return _wanted(**{**dict(zip(_KEYS, marker.args, strict=False)), **marker.kwargs})
        except _Refused as error:
            words = f"{error.what}: {error}"
    pytest.fail(f"@pytest.mark.virtual_gpu: {words}", pytrace=False)


def _wanted(count: object = 1, model: object = None, memory: object = None) -> Wanted:
    """Raises `_Refused` for a number, a model or a size that cannot be. A marker may give the size in bytes, as an int.

    Only a text can come from the command line.
    """
    try:
        number = count_in(count)
    except ValueError as error:
        raise _Refused("count", str(error)) from error
    try:
        chosen = gpu_spec(DEFAULT_MODEL if model is None else str(model))
    except TutorError as error:
        raise _Refused("model", str(error).replace("\n", " ")) from error
    try:
        size = None if memory is None else bytes_in(f"{memory}B" if type(memory) is int else memory)
    except ValueError as error:
        raise _Refused("memory", str(error)) from error
    return Wanted(number, chosen, size)


def _as_in_a_fresh_process() -> None:
    """What one test must not get from another: the state of the GPUs' generators, kept memory, peaks.

    Tensors that still live, the current device and the default device stay, as on a real GPU.
    """
    import torch

    from gpututor.devices.virtual.machine import CUDA_DEFAULT_SEED, active_machine

    torch.cuda.manual_seed_all(CUDA_DEFAULT_SEED)
    torch.cuda.empty_cache()
    for gpu in active_machine().gpus:
        gpu.memory.reset_peaks()
