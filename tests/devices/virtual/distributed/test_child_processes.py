"""Child processes enter a virtual machine like their parent's, each with a clock of its own."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.distributed.child_processes import VARIABLE, MachineSettings
from tests.support import child_programs
from tests.support.virtual_gpus import printed

LIMIT_S = 120
MEMORY = 3 << 30


@pytest.fixture
def machine() -> Any:
    with virtual_gpu(2, "H100", memory_bytes=MEMORY) as result:
        yield result


ISOLATED = """
import torch
import torch.multiprocessing as mp
from gpututor.devices.virtual import virtual_gpu

def work(rank):
    print(torch.cuda.device_count(), torch.ones(1, device="cuda:1").device, flush=True)

if __name__ == "__main__":
    with virtual_gpu(2):
        mp.spawn(work, nprocs=1)
"""

REPORT = {
    "gpus": 2,
    "at import": 2,
    "name": "NVIDIA H100 80GB HBM3",
    "memory": MEMORY,
    "tensor": "tensor([1.], device='cuda:1')",
}


@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.long)])
def test_a_process_sees_the_machine_already_as_it_imports_its_program(machine: Any, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    answers = context.Queue()
    child = context.Process(target=child_programs.put_report, args=(1, answers))
    child.start()
    assert answers.get(timeout=LIMIT_S) == REPORT
    child.join(LIMIT_S)
    assert child.exitcode == 0


@pytest.mark.long
def test_pools_of_processes_see_the_machine(machine: Any) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool, context.Pool(1) as older_pool:
        assert pool.submit(child_programs.report, 1).result(timeout=LIMIT_S) == REPORT
        assert older_pool.apply_async(child_programs.report, (1,)).get(timeout=LIMIT_S) == REPORT


@pytest.mark.long
def test_spawned_workers_of_a_data_loader_compute_on_the_device(machine: Any) -> None:
    loader = DataLoader(
        child_programs.OnDevice(), batch_size=2, num_workers=1, multiprocessing_context="spawn", timeout=LIMIT_S
    )
    assert [batch.tolist() for batch in loader] == [[[0.0, 0.0], [1.0, 1.0]], [[2.0, 2.0], [3.0, 3.0]]]


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_of_a_data_loader_put_batches_together_on_the_device(machine: Any, method: str) -> None:
    loader = DataLoader(
        child_programs.StayingOnDevice(), batch_size=2, num_workers=1, multiprocessing_context=method, timeout=LIMIT_S
    )
    # The parent's GPUs have not started: as on CUDA, a forked worker may use them then.
    batches = iter(loader)
    first, second = list(batches)
    assert (str(first[0].device), first[0].tolist()) == ("cuda:1", [[0.0, 0.0], [1.0, 1.0]])
    assert (second[0] + 1).tolist() == [[3.0, 3.0], [4.0, 4.0]]
    assert second[1].tolist() == [2, 3]
    assert torch.cuda.memory_allocated(1) == 2 * 512


def test_forked_workers_cannot_use_gpus_that_their_parent_has_started(machine: Any) -> None:
    torch.ones(1, device="cuda")
    loader = DataLoader(
        child_programs.StayingOnDevice(), num_workers=1, multiprocessing_context="fork", timeout=LIMIT_S
    )
    with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
        next(iter(loader))


def test_a_device_tensor_in_a_queue_shares_memory_with_both_sides(machine: Any) -> None:
    context: Any = torch.multiprocessing.get_context("spawn")
    questions, answers = context.Queue(), context.Queue()
    child = context.Process(target=child_programs.double_in_place, args=(questions, answers))
    child.start()
    tensor = torch.ones(2, device="cuda:1")
    questions.put(tensor)
    assert answers.get(timeout=LIMIT_S) == ("tensor([2., 2.], device='cuda:1')", False, "Tensor")
    assert tensor.tolist() == [2.0, 2.0]
    assert str(answers.get(timeout=LIMIT_S)) == "tensor([3., 3.], device='cuda:1')"
    questions.put(None)
    child.join(LIMIT_S)
    assert child.exitcode == 0


def test_a_tensor_with_a_graph_cannot_be_queued(machine: Any) -> None:
    from multiprocessing.reduction import ForkingPickler

    tensor = torch.ones(2, device="cuda", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        ForkingPickler.dumps(tensor)


def test_a_plain_subprocess_enters_the_machine_when_it_imports_torch(machine: Any) -> None:
    assert printed("-c", "import torch; print(torch.ones(1, device='cuda:1'))") == "tensor([1.], device='cuda:1')\n"


@pytest.mark.long
def test_a_child_sees_the_gpus_that_its_own_environment_names(machine: Any) -> None:
    program = "import torch; print(torch.cuda.device_count())"
    assert printed("-c", program, environment={"CUDA_VISIBLE_DEVICES": "1"}) == "1\n"


def test_a_subprocess_without_torch_does_not_load_the_machine(machine: Any) -> None:
    assert printed("-c", "import sys; print('torch' in sys.modules, 'startup' in str(sys.path))") == "False False\n"


def test_a_subprocess_may_ask_for_another_machine(machine: Any) -> None:
    program = (
        "import torch\nfrom gpututor.devices.virtual import virtual_gpu\n"
        "with virtual_gpu(3):\n    print(torch.cuda.device_count())\nprint(torch.cuda.is_available())"
    )
    first, *rest = printed("-c", program).split()
    assert first == "3"
    assert rest == ["False"] or torch.version.cuda is not None


@pytest.mark.long
def test_a_subprocess_that_imports_the_virtual_gpu_before_torch_asks_for_itself(machine: Any) -> None:
    program = "from gpututor.devices.virtual import virtual_gpu\nwith virtual_gpu(3) as m:\n    print(len(m.gpus))"
    assert printed("-c", program) == "3\n"


@pytest.mark.long
def test_a_sitecustomize_of_the_installation_is_imported_too(machine: Any, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")
    path = os.pathsep.join((os.environ["PYTHONPATH"], str(tmp_path)))
    program = "import sitecustomize, torch; print(torch.cuda.device_count())"
    assert printed("-c", program, environment={"PYTHONPATH": path}) == "theirs\n2\n"


@pytest.mark.long
def test_a_child_of_an_isolated_python_sees_the_graders_machine(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(ISOLATED)
    assert printed("-I", str(script)) == "2 cuda:1\n"


def test_the_environment_is_restored() -> None:
    before = dict(os.environ)
    with virtual_gpu(2):
        assert MachineSettings.from_json(os.environ[VARIABLE]) == MachineSettings(2, "T4", None, ("cuda",))
    assert dict(os.environ) == before


@pytest.mark.parametrize("text", ["[]", "{}", '{"count": 1}'])
def test_an_environment_that_describes_no_machine_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="does not describe a virtual machine"):
        MachineSettings.from_json(text)


TRAINING = """
import os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(2, 1, bias=False).cuda(), device_ids=[rank])
model(torch.full((1, 2), rank + 1.0)).sum().backward()
print(f"rank {rank}: {model.module.weight.grad}\\n", end="", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("attempt", [0, *(pytest.param(again, marks=pytest.mark.long) for again in range(1, 20))])
@pytest.mark.long
def test_torchruns_workers_train_on_virtual_gpus(tmp_path: Path, attempt: int) -> None:
    """Repeated in long runs, because gloo's threads may still be busy at exit."""
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "gpu")
    output = printed("-m", "gpututor.devices.virtual", "--gpus", "2", *torchrun, str(script))
    assert sorted(output.splitlines()) == [
        f"rank {rank}: tensor([[1.5000, 1.5000]], device='cuda:{rank}')" for rank in (0, 1)
    ]


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


CLOCKS = """
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
    (tmp_path / "program.py").write_text(CLOCKS)
    assert printed("-m", "gpututor.devices.virtual", *options, "program.py", cwd=tmp_path).split() == [said, said]
