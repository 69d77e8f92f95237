"""`pytest --virtual-gpus N`: tests of CUDA code on machines without a GPU. Imports torch only when it is asked to.

Without the option, the ini value, the marker or the fixture nothing is changed.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from gpututor import __version__
from gpututor.devices.virtual import versions
from gpututor.devices.virtual.specs import GpuSpec, spec
from gpututor.errors import TutorError

if TYPE_CHECKING:
    from gpututor.devices.virtual import VirtualMachine

MAX_GPUS = 8
DEFAULT_MODEL = "T4"
_BYTES = {"": 1, "B": 1, "KB": 10**3, "KIB": 2**10, "MB": 10**6, "MIB": 2**20, "GB": 10**9, "GIB": 2**30}
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


@pytest.fixture
def virtual_gpu(request: pytest.FixtureRequest) -> Iterator[VirtualMachine]:
    """The machine with virtual GPUs that this test runs on: the marker's, else the session's, else one T4's."""
    from gpututor.devices.virtual import machine

    if machine.is_on():
        yield machine.active()
        return
    with Wanted(1, spec(DEFAULT_MODEL), None).switched_on() as made:
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
    given = {}
    origin = {}
    for name in ("virtual_gpus", "virtual_gpu_model", "virtual_gpu_memory"):
        value = getattr(options, name, None)
        option = "--" + name.replace("_", "-")
        given[name] = value if value is not None else (config.getini(name) or None)
        origin[name] = option if value is not None else f"{name} in {config.inipath}"
        if value is not None and name != "virtual_gpus" and given["virtual_gpus"] is None:
            raise pytest.UsageError(f"{option} needs --virtual-gpus N beside it.")
    if given["virtual_gpus"] is None:
        return None
    try:
        return _wanted(given["virtual_gpus"], given["virtual_gpu_model"], given["virtual_gpu_memory"])
    except _Refused as error:
        name = {"count": "virtual_gpus", "model": "virtual_gpu_model", "memory": "virtual_gpu_memory"}[error.what]
        raise pytest.UsageError(f"{origin[name]}: {error}") from error


def _from_marker(marker: pytest.Mark) -> Wanted:
    try:
        return _marked(*marker.args, **marker.kwargs)
    except (TypeError, _Refused) as error:
        words = f"{error.what}: {error}" if isinstance(error, _Refused) else str(error).replace("_marked()", "it")
        pytest.fail(f"@pytest.mark.virtual_gpu: {words}", pytrace=False)


def _marked(count: int = 1, model: str = DEFAULT_MODEL, memory: str | int | None = None) -> Wanted:
    return _wanted(count, model, memory)


def _wanted(count: object, model: object, memory: object) -> Wanted:
    """Raises `_Refused` for a number, a model or a size that cannot be."""
    number = str(count).strip()
    if not (number.isascii() and number.isdigit() and int(number) <= MAX_GPUS):
        raise _Refused("count", f"a machine has 0 to {MAX_GPUS} virtual GPUs, not {count}")
    try:
        chosen = spec(DEFAULT_MODEL if model is None else str(model))
    except TutorError as error:
        raise _Refused("model", str(error).replace("\n", " ")) from error
    return Wanted(int(number), chosen, None if memory is None else bytes_in(memory))


def bytes_in(size: object) -> int:
    """The bytes of `512MiB`, `16 GB` or a plain number; raises `_Refused` for anything else."""
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", str(size).strip())
    unit = parts.group(2).upper() if parts else ""
    if parts is None or unit not in _BYTES or float(parts.group(1)) == 0:
        raise _Refused("memory", f"{size!r} is no size of memory: write it like 512MiB or 16GiB")
    return int(float(parts.group(1)) * _BYTES[unit])


def _as_in_a_fresh_process() -> None:
    """What one test must not get from another: the state of the GPUs' generators, kept memory, peaks.

    Tensors that still live, the current device and the default device stay, as on a real GPU.
    """
    import torch

    from gpututor.devices.virtual.machine import CUDA_DEFAULT_SEED, active

    torch.cuda.manual_seed_all(CUDA_DEFAULT_SEED)
    torch.cuda.empty_cache()
    for gpu in active().gpus:
        gpu.memory.reset_peaks()
