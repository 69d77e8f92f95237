"""DataParallel and `torch.cuda.comm` on several virtual GPUs of one process."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.cuda import comm, nccl

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from tests.support.virtual_gpus import gradient


@pytest.fixture
def four_gpus() -> Any:
    with virtual_gpu(4) as machine:
        yield machine


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.last = nn.Linear(16, 3)
        self.seen: list[str] = []

    def forward(self, values: torch.Tensor, *, scale: float = 1.0) -> dict[str, torch.Tensor]:
        self.seen.append(str(values.device))
        assert self.first.weight.device == values.device == self.norm.running_mean.device  # type: ignore[union-attr]
        return {"out": self.last(self.norm(self.first(values)).relu()) * scale}


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("from_host", [True, False])
def test_outputs_and_gradients_are_those_of_one_gpu(four_gpus: VirtualMachine, count: int, from_host: bool) -> None:
    alone = Net().cuda().eval()
    model = copy.deepcopy(alone)
    values = torch.randn(10, 8, device="cpu" if from_host else "cuda")
    parallel = nn.DataParallel(model, device_ids=list(range(count)))
    out, expected = parallel(values, scale=2.0)["out"], alone(values.cuda(), scale=2.0)["out"]
    out.square().sum().backward()
    expected.square().sum().backward()
    assert out.device == torch.device("cuda", 0)
    torch.testing.assert_close(out, expected)
    for parameter, two in zip(model.parameters(), alone.parameters(), strict=True):
        assert gradient(parameter).device == torch.device("cuda", 0)
        torch.testing.assert_close(parameter.grad, two.grad, rtol=1e-4, atol=1e-4)
    assert sorted(model.seen) == [f"cuda:{index}" for index in range(count)]


def test_outputs_batch_statistics_and_frozen_modules_are_as_on_cuda(four_gpus: VirtualMachine) -> None:
    parallel = nn.DataParallel(nn.Linear(2, 2).cuda(), device_ids=[0, 1], output_device=3)
    assert parallel(torch.ones(4, 2)).device == torch.device("cuda", 3)
    model = Net().cuda()
    nn.DataParallel(model)(torch.randn(8, 8))
    assert model.norm.num_batches_tracked == 1
    frozen = nn.Linear(2, 2).cuda().requires_grad_(False)
    assert not nn.DataParallel(frozen)(torch.ones(4, 2)).requires_grad


def test_errors_of_modules_and_replicas_are_torchs(two_gpus: VirtualMachine) -> None:
    message = (
        r"module must have its parameters and buffers on device cuda:0 \(device_ids\[0\]\) "
        "but found one of them on device: cuda:1"
    )
    with pytest.raises(RuntimeError, match=message):
        nn.DataParallel(nn.Linear(2, 2).to("cuda:1"), device_ids=[0, 1])(torch.ones(4, 2))
    with pytest.raises(RuntimeError, match=r"Caught RuntimeError in replica 0 on device 0\."):
        nn.DataParallel(nn.Linear(2, 2).cuda())(torch.ones(4, 3))


def test_copies_between_gpus_are_transfers_of_the_trace(recorder: Recorder) -> None:
    parallel = nn.DataParallel(nn.Linear(2, 2).cuda())
    values = torch.ones(4, 2, device="cuda")
    before = len(recorder.trace)
    parallel(values).sum().backward()
    moved = [
        (event.source, event.target, event.size_bytes)
        for event in recorder.trace.since(before)
        if event.between_devices
    ]
    # Half of the batch and all parameters (24 bytes) go out; half of the output and all gradients come back.
    assert sorted(moved) == [
        ("cuda:0", "cuda:1", 16),
        ("cuda:0", "cuda:1", 16),
        ("cuda:0", "cuda:1", 24),
        ("cuda:1", "cuda:0", 16),
        ("cuda:1", "cuda:0", 24),
    ]


def test_comm_functions_write_to_out_and_to_the_chosen_gpu(two_gpus: VirtualMachine) -> None:
    values = torch.arange(6.0).reshape(3, 2)
    outputs = [torch.empty(3, 2, device="cuda:0"), torch.empty(3, 2, device="cuda:1")]
    assert all(tensor is two for tensor, two in zip(comm.broadcast(values, out=outputs), outputs, strict=True))
    assert all(tensor.cpu().equal(values) for tensor in outputs)
    chunks = [torch.empty(1, 2, device="cuda:1"), torch.empty(2, 2, device="cuda:0")]
    comm.scatter(values, out=chunks)
    assert chunks[1].tolist() == [[2.0, 3.0], [4.0, 5.0]]
    joined = torch.empty(3, 2)
    comm.gather(chunks, out=joined)
    assert joined.equal(values)
    assert comm.gather(chunks, destination="cpu").equal(values)
    assert [len(chunk) for chunk in comm.scatter(values, [0, 1], chunk_sizes=[1, 2])] == [1, 2]
    inputs = [torch.full((2,), 1.0 + index, device=f"cuda:{index}") for index in range(2)]
    assert str(comm.reduce_add(inputs, 1)) == "tensor([3., 3.], device='cuda:1')"
    (total,) = comm.reduce_add_coalesced([[tensor] for tensor in inputs], 0)
    assert str(total) == "tensor([3., 3.], device='cuda:0')"
    assert nccl.version() >= (2, 27)


def _on_host(position: int) -> list[torch.Tensor]:
    results = [torch.ones(2, 2, device="cuda:0"), torch.ones(2, 2, device="cuda:1")]
    results[position] = results[position].cpu()
    return results


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: comm.broadcast(torch.ones(2, 2), out=_on_host(1)),
            "Expected all output tensors to be CUDA tensors, but output tensor at index 1 has device 'cpu'",
        ),
        (
            lambda: comm.broadcast(torch.ones(3, device="cuda"), out=[torch.ones(2, 2, device="cuda:1")]),
            r"Expected all output tensors to have same shape as the source tensor \[3\], but output tensor at index 0 "
            r"has shape \[2, 2\]",
        ),
        (
            lambda: comm.gather(_on_host(1)),
            "Expected all input tensors to be CUDA tensors, but tensor at index 1 has device cpu",
        ),
        (
            lambda: comm.gather([torch.ones(2, 2, device="cuda"), torch.ones(2, 3, device="cuda:1")]),
            r"Input tensor at index 1 has invalid shape \[2, 3\], but expected \[2, 2\]",
        ),
        (lambda: comm.scatter(torch.ones(2), []), "Expected at least one device to scatter to"),
        (
            lambda: comm.scatter(torch.ones(2), [0, 1], chunk_sizes=[2]),
            r"Expected devices and chunk_sizes to be of same length, but got len\(devices\) = 2 and "
            r"len\(chunk_sizes\) = 1",
        ),
        (
            lambda: comm.scatter(torch.ones(3), out=[torch.ones(2, device="cuda")]),
            "Total size for output tensors along scatter dim 0 does not match the source tensor size at dim 0. "
            "Expected 3, but got total size 2",
        ),
        (
            lambda: comm.broadcast_coalesced([torch.ones(1, device="cuda:1")], [0, 1]),
            r"All tensors must be on devices\[0\]: 0",
        ),
    ],
)
def test_wrong_sizes_raise_cudas_errors(two_gpus: VirtualMachine, call: Callable[[], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


EPS = 1e-5


@pytest.mark.parametrize("counted", [True, False], ids=["counts", "count"])
def test_statistics_of_parts_add_up_to_those_of_the_whole(two_gpus: VirtualMachine, counted: bool) -> None:
    values = torch.randn(4, 3, 5, device="cuda")
    means, inverse_stds = zip(*(torch.batch_norm_stats(part, EPS) for part in values.chunk(2)), strict=True)
    running_mean, running_var = torch.zeros(3, device="cuda"), torch.ones(3, device="cuda")
    parts = (values, torch.stack(means), torch.stack(inverse_stds), running_mean, running_var, 0.1, EPS)
    if counted:
        mean, inverse_std = torch.batch_norm_gather_stats_with_counts(*parts, torch.full((2,), 10.0, device="cuda"))
    else:
        mean, inverse_std = torch.batch_norm_gather_stats(*parts, 10)
    assert mean.device == torch.device("cuda:0")
    variance, expected = torch.var_mean(values, (0, 2), correction=0)
    torch.testing.assert_close(mean, expected)
    torch.testing.assert_close(inverse_std, torch.rsqrt(variance + EPS))
    torch.testing.assert_close(running_mean, 0.1 * expected)
    torch.testing.assert_close(running_var, 0.9 + 0.1 * values.var((0, 2)))


def test_converted_sync_batch_norm_works_in_a_single_process(two_gpus: VirtualMachine) -> None:
    plain: Any = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)).cuda()
    x = torch.randn(2, 1, 3, 3, device="cuda")
    synchronized: Any = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
    assert type(synchronized[1]) is nn.SyncBatchNorm
    for training in (True, False):
        plain.train(training)
        synchronized.train(training)
        torch.testing.assert_close(synchronized(x), plain(x))
    mean: Any = synchronized[1].running_mean
    assert mean.device == torch.device("cuda:0")
