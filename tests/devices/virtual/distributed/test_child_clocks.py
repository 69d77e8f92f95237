"""Clocks of child processes: DataLoader workers, subprocesses, and the option `--real-time`."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from gpututor.devices.virtual import virtual_gpu
from tests.support.virtual_gpus import printed

S = 1_000_000_000


class Slow(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(100)
        return torch.tensor(float(index))


@pytest.mark.parametrize("pin_memory", [False, True])
@pytest.mark.parametrize(("workers", "slept"), [(0, 800), (2, 0)])
def test_data_loader_workers_cost_no_virtual_time(workers: int, slept: int, pin_memory: bool) -> None:
    with virtual_gpu() as machine:
        loader = DataLoader(Slow(), batch_size=4, num_workers=workers, pin_memory=pin_memory)
        batches = list(loader)
        assert [batch.is_pinned() for batch in batches] == [pin_memory] * 2
        assert [batch.to("cuda", non_blocking=True).cpu().tolist() for batch in batches] == [
            [0.0, 1.0, 2.0, 3.0],
            [4.0, 5.0, 6.0, 7.0],
        ]
        assert machine.clock.host.now // S == slept


def _tell(connection: Any) -> None:
    before = time.perf_counter_ns()
    time.sleep(100)
    connection.send(time.perf_counter_ns() - before)


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_child_has_a_clock_of_its_own(way: str) -> None:
    context: Any = multiprocessing.get_context(way)
    with virtual_gpu(0) as machine:
        ours, theirs = context.Pipe()
        child = context.Process(target=_tell, args=(theirs,))
        child.start()
        assert ours.recv() == 100 * S + 50
        child.join()
        assert machine.clock.host.now == 0


_PROGRAM = """
import subprocess, sys, time
import torch
before = time.perf_counter_ns()
time.sleep(0.001)
virtual = time.perf_counter_ns() - before == 1_000_050
child = len(sys.argv) < 2 and subprocess.run([sys.executable, __file__, "child"]).returncode
print("virtual" if virtual else "real", flush=True)
"""


@pytest.mark.long
@pytest.mark.parametrize(("options", "said"), [([], "virtual"), (["--real-time"], "real")])
def test_real_time_applies_to_children(tmp_path: Path, options: list[str], said: str) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    assert printed("-m", "gpututor.devices.virtual", *options, "program.py", cwd=tmp_path).split() == [said, said]
