"""Programs that run in several processes, by default two, each on a virtual machine that it inherits from the test."""

from __future__ import annotations

import contextlib
import importlib
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.machine import active_machine

RANKS = 2
LIMIT_S = 250.0
Program = Callable[[int, str], Any]


def program_table() -> tuple[dict[str, Program], Callable[[Program], Program]]:
    """Return an empty table of programs by name, and a decorator that puts a function into it."""
    programs: dict[str, Program] = {}

    def program(function: Program) -> Program:
        programs[function.__name__] = function
        return function

    return programs, program


@contextlib.contextmanager
def recorded(*files: str) -> Iterator[Recorder]:
    """Record what a rank's program does within, with the lines of these files."""
    machine, recorder = active_machine(), Recorder(files)
    before = machine.recorder
    machine.record_with(recorder)
    yield recorder
    machine.record_with(before)


@contextlib.contextmanager
def single_process_group(backend: str) -> Iterator[None]:
    """Create a process group of this single process for the block."""
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        dist.destroy_process_group()


def _portable(value: Any) -> Any:
    """Return the value with (device, values) in place of device tensors, to be pickled for the test."""
    if isinstance(value, torch.Tensor):
        return str(value.device), value.tolist()
    if isinstance(value, list | tuple):
        return [_portable(item) for item in value]
    return {name: _portable(item) for name, item in value.items()} if isinstance(value, dict) else value


def _work(rank: int, folder: Path, module: str, table: str, backend: str | None, ranks: int, bound: bool) -> None:
    torch.cuda.set_device(rank)
    torch.manual_seed(0)
    device = torch.device("cuda", rank)
    dist.init_process_group(
        backend,
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=ranks,
        device_id=device if bound or backend is None else None,
    )
    programs: dict[str, Program] = getattr(importlib.import_module(module), table)
    results: dict[str, Any] = {}
    for name, program in programs.items():
        try:
            results[name] = _portable(program(rank, str(device)))
        except (RuntimeError, ValueError, TypeError) as error:
            results[name] = f"{type(error).__name__}: {error}"
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(results))
    dist.destroy_process_group()


def run_ranks(
    folder: Path,
    module: str,
    table: str = "PROGRAMS",
    backend: str | None = "nccl",
    model: str = "A100",
    ranks: int = RANKS,
    bound: bool = False,
) -> list[dict[str, Any]]:
    """Run the programs of `module.table` in every rank; return each result or error, by rank and name.

    With `bound`, the process group is bound to each rank's device, as it is without a backend.

    Raises `TimeoutError` when they are not done in time, after ending them.
    """
    # Ranks that hang are ended after a real time.
    with virtual_gpu(ranks, model, virtual_time=False):
        arguments = (folder, module, table, backend, ranks, bound)
        context: Any = mp.spawn(_work, arguments, nprocs=ranks, join=False)  # type: ignore[attr-defined,no-untyped-call]
        with _ended(context):
            deadline = time.monotonic() + LIMIT_S
            while not context.join(timeout=1.0):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the ranks were not done after {LIMIT_S} s")
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(ranks)]


def results_of(*arguments: Any, **options: Any) -> Any:
    """Return a fixture with the results of `run_ranks`, which are made once for a file of tests."""

    @pytest.fixture(scope="module")
    def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
        return run_ranks(tmp_path_factory.mktemp("ranks"), *arguments, **options)

    return results


@contextlib.contextmanager
def _ended(context: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for process in context.processes:
            if process.is_alive():
                process.kill()
            process.join()
