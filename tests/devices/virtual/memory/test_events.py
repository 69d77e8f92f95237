"""Memory that is allocated, freed and refused: the host's time, and errors before host memory is allocated."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, storage_key, virtual_gpu
from gpututor.devices.virtual.memory import events
from gpututor.devices.virtual.memory.events import allocation_ns, free_ns
from gpututor.hardware.gpus import gpu_spec
from gpututor.trace.events import Kind

MIB = 1 << 20


def test_a_new_segment_takes_extra_host_time_but_cached_memory_does_not() -> None:
    with virtual_gpu(1, "A100", values=False) as machine:
        host, view = machine.clock.host, machine.gpus[0].view_ns

        def spent(action: Callable[[], object]) -> int:
            before = host.now
            action()
            return host.now - before

        assert spent(lambda: torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda")) == view + allocation_ns(
            1024 * MIB
        )
        assert spent(lambda: torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda")) == view
        kept = torch.empty(4, device="cuda")
        assert spent(lambda: torch.empty_like(kept)) == view
        assert spent(lambda: kept.new_empty(3)) == view
    assert 30_000 <= allocation_ns(2 * MIB) < allocation_ns(1024 * MIB) < 1_000_000


def test_emptying_the_cache_waits_for_the_gpu_and_pays_each_segment() -> None:
    with virtual_gpu(1, "T4", recorder=Recorder(), values=False) as machine:
        kept = torch.zeros(4096, 4096, device="cuda")
        for _ in range(4):
            kept @ kept
        before = machine.clock.host.now
        torch.cuda.empty_cache()
        after = machine.clock.host.now
        torch.cuda.empty_cache()
        assert machine.clock.host.now == after
        (wait,) = [event for event in machine.recorder.complete() if event.kind is Kind.SYNCHRONISE]
        last = max(event.end for event in machine.recorder.complete() if event.kind is Kind.KERNEL)
        assert (wait.name, wait.start, wait.end) == ("cudaFree", before, last)
        assert after == wait.end + free_ns(1, 64 * MIB)


def test_freeing_the_cache_when_memory_is_short_synchronizes() -> None:
    with virtual_gpu(1, "T4", recorder=Recorder(), values=False, memory_bytes=1024 * MIB) as machine:
        torch.zeros(600 * MIB, dtype=torch.uint8, device="cuda")
        torch.zeros(700 * MIB, dtype=torch.uint8, device="cuda")
    assert [event.name for event in machine.recorder.complete() if event.kind is Kind.SYNCHRONISE] == ["cudaFree"]


def test_total_memory_is_what_real_boards_report() -> None:
    """Totals are from error messages of real boards; in-band ECC takes a sixteenth."""
    reported = {"T4": 14.56, "A10G": 22.07, "L4": 22.03, "L40S": 44.39, "A100 40": 39.39, "H100": 79.1, "B200": 178.35}
    for name, gib in reported.items():
        assert gpu_spec(name).memory_bytes == int(gib * 2**30)


# Each would make about 4 GiB of a few MiB.
TOO_LARGE: dict[str, Callable[[], object]] = {
    "broadcast": lambda: torch.ones(2**15, 1, device="cuda") * torch.ones(1, 2**15, device="cuda"),
    "comparison": lambda: torch.ones(2**16, 1, device="cuda") < torch.ones(1, 2**16, device="cuda"),
    "where": lambda: torch.where(torch.ones(2**15, 1, device="cuda") > 0, torch.ones(1, 2**15, device="cuda"), 0.0),
    "mm": lambda: torch.ones(2**15, 2, device="cuda") @ torch.ones(2, 2**15, device="cuda"),
    "bmm": lambda: torch.ones(4, 2**14, 1, device="cuda") @ torch.ones(4, 1, 2**14, device="cuda"),
    "linear": lambda: F.linear(torch.ones(2**15, 4, device="cuda"), torch.ones(2**15, 4, device="cuda")),
    "outer": lambda: torch.outer(torch.ones(2**15, device="cuda"), torch.ones(2**15, device="cuda")),
    "cdist": lambda: torch.cdist(torch.ones(2**15, 2, device="cuda"), torch.ones(2**15, 2, device="cuda")),
    "repeat": lambda: torch.ones(2**10, device="cuda").repeat(2**20),
    "repeat_interleave": lambda: torch.ones(2**10, device="cuda").repeat_interleave(2**20),
    "contiguous": lambda: torch.ones(1, device="cuda").expand(2**30).contiguous(),
    "expanded sum of kinds": lambda: torch.ones(1, device="cuda").expand(2**30) + 1,
    "pad": lambda: F.pad(torch.ones(4, 4, device="cuda"), (2**14, 2**14, 2**14, 2**14)),
    "interpolate": lambda: F.interpolate(torch.ones(1, 1, 8, 8, device="cuda"), scale_factor=4096),
    "unfold": lambda: F.unfold(torch.ones(1, 64, 256, 256, device="cuda"), 65),
    "conv2d": lambda: F.conv2d(torch.ones(1, 1, 600, 600, device="cuda"), torch.ones(4096, 1, 3, 3, device="cuda")),
    "conv_transpose": lambda: F.conv_transpose2d(
        torch.ones(1, 1, 64, 64, device="cuda"), torch.ones(1, 1024, 2, 2, device="cuda"), stride=16
    ),
    "embedding": lambda: F.embedding(
        torch.zeros(2**20, dtype=torch.long, device="cuda"), torch.ones(4, 1024, device="cuda")
    ),
    "index": lambda: torch.ones(4, 1024, device="cuda")[torch.zeros(2**20, dtype=torch.long, device="cuda")],
    "one_hot": lambda: F.one_hot(torch.zeros(2**10, dtype=torch.long, device="cuda"), 2**19),
    "diag": lambda: torch.diag(torch.ones(2**15, device="cuda")),
    "cat": lambda: torch.cat([torch.ones(1, device="cuda").expand(2**29)] * 2),
    "stack": lambda: torch.stack([torch.ones(2**20, device="cuda")] * 1024),
    "kron": lambda: torch.kron(torch.ones(2**8, 2**7, device="cuda"), torch.ones(2**8, 2**7, device="cuda")),
    "einsum": lambda: torch.einsum("i,j->ij", torch.ones(2**15, device="cuda"), torch.ones(2**15, device="cuda")),
    "combinations": lambda: torch.combinations(torch.ones(2**15, device="cuda")),
    "randn": lambda: torch.randn(2**15, 2**15, device="cuda"),
    "full": lambda: torch.full((2**15, 2**15), 1.0, device="cuda"),
    "arange": lambda: torch.arange(2**29, device="cuda"),
    "linspace": lambda: torch.linspace(0, 1, 2**30, device="cuda"),
    "eye": lambda: torch.eye(2**15, device="cuda"),
    "new_zeros": lambda: torch.ones(1, device="cuda").new_zeros(2**30),
    "randperm": lambda: torch.randperm(2**29, device="cuda"),
    "tril_indices": lambda: torch.tril_indices(2**15, 2**15, device="cuda"),
    "fft": lambda: torch.fft.fft(torch.ones(8, device="cuda"), n=2**29),
    "bincount": lambda: torch.bincount(torch.ones(8, dtype=torch.long, device="cuda"), minlength=2**29),
    "repeats": lambda: torch.repeat_interleave(torch.full((4,), 2**27, device="cuda")),
    "resize_": lambda: torch.ones(1, device="cuda").resize_(2**30),
    "to double": lambda: torch.ones(1, device="cuda").expand(2**29).to(torch.float64),
    "from the host": lambda: torch.ones(1).expand(2**30).to("cuda"),
}


def _peak(*, anew: bool = False) -> int:
    """Return the peak resident size of this process in bytes; Linux can reset the peak."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if anew:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_large_result_is_out_of_memory_before_host_allocation(name: str) -> None:
    with virtual_gpu(memory_bytes=512 * MIB):
        torch.ones(1, device="cuda") + 1
        before = _peak(anew=True)
        with pytest.raises(torch.OutOfMemoryError, match=r"^CUDA out of memory\. Tried to allocate"):
            TOO_LARGE[name]()
        assert _peak() - before < 700 * MIB


def test_a_tensor_larger_than_host_memory_raises(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = tmp_path / "meminfo"
    said.write_text("MemTotal: 8000000 kB\nMemAvailable: 1000000 kB\n", encoding="ascii")
    monkeypatch.setattr(events, "_MEMINFO", said)
    with virtual_gpu(model="H100"):
        with pytest.raises(MemoryError, match=r"only 976\.56 MiB of memory left, but a tensor needs 8\.00 GiB"):
            torch.zeros(2**31, device="cuda")
        assert torch.cuda.memory_allocated() == 0
        torch.zeros(1000, device="cuda")
    said.unlink()
    assert events.available() is None


def test_reserved_memory_is_kept_until_the_cache_is_emptied(two_gpus: VirtualMachine) -> None:
    x = torch.zeros(10_000_000, device="cuda")
    del x
    assert torch.cuda.memory_reserved() >= 40_000_000
    assert torch.cuda.mem_get_info()[0] < torch.cuda.mem_get_info()[1] == int(14.56 * 2**30)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0
    assert torch.cuda.mem_get_info() == (int(14.56 * 2**30),) * 2


def test_a_training_step_leaves_nothing_behind_without_the_garbage_collector(two_gpus: VirtualMachine) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(50, 50), torch.nn.ReLU(), torch.nn.Linear(50, 1)).cuda()
    kept = torch.cuda.memory_allocated()
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            model(torch.randn(4, 50, device="cuda")).sum().backward()
            model.zero_grad()
        assert torch.cuda.memory_allocated() == kept
    finally:
        gc.enable()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["zeros", "view", "add", "add_", "drop", "clone", "move"]), st.integers(0, 5)),
        max_size=25,
    )
)
def test_allocated_is_the_sum_of_the_live_storages(steps: list[tuple[str, int]]) -> None:
    with virtual_gpu(1):
        live: list[torch.Tensor] = []
        for step, choice in steps:
            if step == "zeros" or not live:
                live.append(torch.zeros(choice * 100, device="cuda"))
                continue
            x = live[choice % len(live)]
            if step == "drop":
                live.pop(choice % len(live))
            elif step == "add_":
                x.add_(1)
            else:
                made: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
                    "view": lambda x: x[1:],
                    "add": lambda x: x + 1,
                    "clone": torch.clone,
                    "move": lambda x: x.cpu().cuda(),
                }
                live.append(made[step](x))
            del x
            sizes = {storage_key(tensor): -(-tensor.untyped_storage().nbytes() // 512) * 512 for tensor in live}
            assert torch.cuda.memory_allocated() == sum(sizes.values())


def test_a_search_for_elements_takes_memory_while_it_runs(two_gpus: VirtualMachine) -> None:
    x = torch.arange(10, device="cuda")
    peaks = []
    searches: list[Callable[[], object]] = [x.nonzero, lambda: x[x > 4], lambda: torch.masked_select(x, x > 4)]
    for search in searches:
        torch.cuda.reset_peak_memory_stats()
        search()
        peaks.append(torch.cuda.max_memory_allocated())
    assert peaks == [2560, 3072, 3072]
    many = torch.ones(1_000_000, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    many[many > 0]
    assert torch.cuda.max_memory_allocated() > (4 + 1 + 8 + 4) * 1_000_000
