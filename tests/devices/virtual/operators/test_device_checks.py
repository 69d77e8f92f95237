"""Tensors on two devices and indices out of range: accepted and refused as by CUDA, with its messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.operator_facts import device_checks
from gpututor.devices.virtual.operator_registry import describe
from gpututor.devices.virtual.operators.operands import device_mismatch_error

Call = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def _assigned(target: torch.Tensor, place: Any, value: torch.Tensor) -> torch.Tensor:
    target[place] = value
    return target


# g is a matrix on the GPU, c a matrix on the CPU, s a CPU tensor without dimensions.
# fmt: off
_ALLOWED: dict[str, Call] = {
    "the other way round": lambda g, c, s: s - g,
    "with alpha": lambda g, c, s: torch.add(g, s, alpha=2),
    "compare": lambda g, c, s: (g > s).float(),
    "power": lambda g, c, s: s ** g,
    "maximum": lambda g, c, s: torch.maximum(g, s),
    "clamp": lambda g, c, s: g.clamp(min=s, max=s + 1),
    "where": lambda g, c, s: torch.where(g > 0, g, s),
    "where of numbers": lambda g, c, s: torch.where(g > 0, 1.0, g),
    "lerp": lambda g, c, s: torch.lerp(g, g + 1, s),
    "fill_": lambda g, c, s: g.fill_(s),
    "index_fill": lambda g, c, s: g.index_fill(0, torch.zeros(1, dtype=torch.int64, device="cuda"), s),
    "assign at a CPU mask": lambda g, c, s: g.index_put_((c > 0,), s),
    "assign a CPU scalar": lambda g, c, s: _assigned(g, (slice(None), 0), s),
    "scalar of the GPU": lambda g, c, s: g.sum() + s,
    "out": lambda g, c, s: torch.add(g, s, out=torch.empty_like(g)),
}
_REFUSED: dict[str, Call] = {
    "a GPU scalar in place": lambda g, c, s: c.add_(g.sum()),
    "where": lambda g, c, s: torch.where(g > 0, g, c),
    "masked_fill with a CPU mask": lambda g, c, s: g.masked_fill(c > 0, 1.0),
    "masked_select": lambda g, c, s: g.masked_select(c > 0),
    "lerp": lambda g, c, s: torch.lerp(g, g, c),
    "addcmul": lambda g, c, s: torch.addcmul(g, g, c),
    "clamp": lambda g, c, s: g.clamp(min=c),
    "out on the GPU": lambda g, c, s: torch.add(c, c, out=g),
    "index_select": lambda g, c, s: g.index_select(0, torch.tensor([0])),
    "index_select by a scalar": lambda g, c, s: g.index_select(0, torch.tensor(0)),
    "embedding of a scalar": lambda g, c, s: F.embedding(torch.tensor(0), g),
    "take": lambda g, c, s: g.take(torch.tensor([0])),
    "layer norm": lambda g, c, s: F.layer_norm(g, (2,), torch.ones(2)),
    "batch norm": lambda g, c, s: F.batch_norm(g, torch.zeros(2), torch.ones(2)),
    "assigned values": lambda g, c, s: _assigned(g, torch.tensor([0, 1]), c),
    "a sparse and a dense tensor": lambda g, c, s: c.to_sparse() @ g,
    "another GPU's scalar": lambda g, c, s: g + s.to("cuda:1"),
}
# fmt: on


@pytest.fixture
def three(two_gpus: VirtualMachine) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    c = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
    return c.cuda(), c.clone(), torch.tensor(2.0)


@pytest.mark.parametrize("name", _ALLOWED)
def test_mixed_devices_that_cuda_accepts_give_the_cpus_values(
    three: tuple[torch.Tensor, torch.Tensor, torch.Tensor], name: str
) -> None:
    g, c, s = three
    got = _ALLOWED[name](g, c, s)
    assert str(got.device) == "cuda:0"
    if "index_fill" not in name:
        torch.testing.assert_close(got.cpu(), _ALLOWED[name](c.clone(), c.clone(), s))


@pytest.mark.parametrize("name", _REFUSED)
def test_mixed_devices_that_cuda_refuses_raise_its_error(
    three: tuple[torch.Tensor, torch.Tensor, torch.Tensor], name: str
) -> None:
    with pytest.raises(RuntimeError, match="device") as caught:
        _REFUSED[name](*three)
    assert "cuda:" in str(caught.value)
    assert "meta" not in str(caught.value)


SAME = "Expected all tensors to be on the same device, but "
TWO = SAME + "found at least two devices, cuda:0 and cpu!"


def _got(argument: str, where: str, others: str, wrapper: str) -> str:
    return (
        f"{SAME}got {argument} is on {where}, different from other tensors on {others} "
        f"(when checking argument in method wrapper_{wrapper})"
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g, c: g.add_(c), TWO),
        (lambda g, c: torch.cat([g, c]), _got("tensors", "cpu", "cuda:0", "CUDA_cat")),
        (lambda g, c: torch.stack([c, g]), _got("tensors", "cuda:0", "cpu", "CUDA_cat")),
        (lambda g, c: torch.allclose(g, c), TWO),
        (lambda g, c: torch.dist(g, c), TWO),
        (
            lambda g, c: torch.nn.functional.bilinear(g, c, torch.ones(1, 2, 2, device="cuda")),
            _got("mat2", "cpu", "cuda:0", "CUDA_bmm"),
        ),
        (lambda g, c: torch.linalg.lstsq(g, c), _got("b", "cpu", "cuda:0", "CUDA_out_linalg_lstsq_out")),
        (
            lambda g, c: torch.block_diag(g, c),
            "torch.block_diag: input tensors must all be on the same device. "
            "Input 0 is on device cuda:0 and input 1 is on device cpu",
        ),
        (lambda g, c: torch.mm(g, g, out=c), _got("self", "cuda:0", "cpu", "CUDA_mm_out_out")),
        (lambda g, c: torch.addmm(g, g, g, out=g.to("cuda:1")), _got("self", "cuda:0", "cuda:1", "CUDA_addmm_out_out")),
        (lambda g, c: g.addmm_(g, c), _got("mat2", "cpu", "cuda:0", "CUDA_addmm_")),
        (
            lambda g, c: torch.index_select(g, 0, g[0].long(), out=c),
            _got("self", "cuda:0", "cpu", "CUDA_out_index_select_out"),
        ),
        (lambda g, c: g.scatter(0, g.long() * 0, c), _got("src", "cpu", "cuda:0", "CUDA_scatter_src")),
        (lambda g, c: torch.add(g, g, out=c), TWO),
        (lambda g, c: torch.ops.aten.gelu.out(g, out=c), TWO),
        (lambda g, c: g.to_sparse() @ c, _got("mat2", "cpu", "cuda:0", "SparseCUDA__mm")),
        (lambda g, c: torch.sparse.mm(g.to_sparse(), c), _got("mat1", "cuda:0", "cpu", "SparseCUDA__addmm")),
        (lambda g, c: g.to_sparse() + c.to_sparse(), "add: expected 'other' to be a CUDA tensor, but got a CPU tensor"),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_mixed_devices_raise_cudas_error(
    two_gpus: VirtualMachine, call: Callable[[torch.Tensor, torch.Tensor], object], words: str
) -> None:
    with pytest.raises(RuntimeError) as caught:
        call(torch.ones(2, 2, device="cuda"), torch.ones(2, 2))
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("call", "device"),
    [
        (lambda g, c: c[g > 0], "cpu"),
        (lambda g, c: c.reshape(1, 3)[:, g], "cpu"),
        (lambda g, c: c.reshape(1, 3)[torch.zeros(3, dtype=torch.int64), g], "cpu"),
        (lambda g, c: c.cuda(1)[g], "cuda:1"),
    ],
)
def test_indices_on_another_gpu_than_the_indexed_tensor_raise_cudas_error(
    two_gpus: VirtualMachine, call: Callable[[torch.Tensor, torch.Tensor], object], device: str
) -> None:
    with pytest.raises(RuntimeError) as caught:
        call(torch.arange(3, device="cuda"), torch.rand(3))
    expected = f"indices should be either on cpu or on the same device as the indexed tensor ({device})"
    assert str(caught.value) == expected


def test_an_assignment_moves_its_indices_and_a_single_value_as_cuda_does(two_gpus: VirtualMachine) -> None:
    indices = torch.tensor([0, 2], device="cuda")
    for target in (torch.zeros(3), torch.zeros(3, device="cuda"), torch.zeros(3, device="cuda:1")):
        before = target.device
        target[indices] = 1.0
        target[torch.tensor([1])] = torch.tensor(2.0, device="cuda")
        target.index_put_((indices[:1],), torch.ones(1, device=before), accumulate=True)
        assert target.device == before
        assert target.tolist() == [2.0, 2.0, 1.0]
    masked = torch.zeros(3)
    masked[torch.tensor([True, False, True], device="cuda")] = 5.0
    assert masked.tolist() == [5.0, 0.0, 5.0]


def test_values_on_another_device_than_the_target_are_refused(two_gpus: VirtualMachine) -> None:
    target, indices, values = torch.zeros(3, device="cuda"), torch.tensor([0, 2], device="cuda"), torch.ones(2)
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
        target[indices] = values
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
        values[torch.tensor([0, 1])] = target[:2]
    with pytest.raises(RuntimeError, match=r"^expected device cuda:0 but got device cpu for value tensor$"):
        target.index_put_((indices,), values, accumulate=True)


def test_error_messages_name_wrappers_of_a_cuda_build() -> None:
    """Covers structured and other kernels, in place and with out=."""
    known = device_checks()
    assert {"wrapper_CUDA_mm", "wrapper_CUDA__index_select", "wrapper_CUDA_addmm_", "wrapper_SparseCUDA__mm"} <= known
    assert not {"wrapper_CUDA__dist", "wrapper_CUDA__allclose", "wrapper_CUDA_add_Tensor"} & known
    assert len(known) > 700


WORDS = (
    "CUDA error: device-side assert triggered\n"
    "Search for `cudaErrorAssert' in "
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, "
    "so the stacktrace below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
IndexCall = Callable[[torch.Tensor, torch.Tensor], object]

# fmt: off
_CALLS: dict[str, IndexCall] = {
    "indexing": lambda x, far: x[far],
    "indexing by a CPU index": lambda x, far: x[far.cpu()],
    "assignment": lambda x, far: x.__setitem__(far, 1.0),
    "accumulation": lambda x, far: x.index_put_((far,), x[:2].clone(), accumulate=True),
    "embedding": lambda x, far: F.embedding(far, x),
    "embedding_bag": lambda x, far: F.embedding_bag(far, x, torch.zeros(1, dtype=torch.int64, device="cuda")),
    "gather": lambda x, far: x.gather(0, far[:, None]),
    "scatter_": lambda x, far: x.scatter_(0, far[:, None], 1.0),
    "scatter_add": lambda x, far: x.scatter_add(0, far[:, None], x[:2].clone()),
    "index_select": lambda x, far: x.index_select(0, far),
    "index_add_": lambda x, far: x.index_add_(0, far, x[:2].clone()),
    "index_copy_": lambda x, far: x.index_copy_(0, far, x[:2].clone()),
    "index_fill_": lambda x, far: x.index_fill_(0, far, 0.0),
    "take": lambda x, far: x.take(far * 10),
    "put_": lambda x, far: x.put_(far * 10, x[0, :2].clone()),
    "cross_entropy": lambda x, far: F.cross_entropy(x[:2], far),
    "nll_loss": lambda x, far: F.nll_loss(x[:2], far),
    "binary_cross_entropy": lambda x, far: F.binary_cross_entropy(x + 2, x),
}
# fmt: on


@pytest.mark.parametrize("name", _CALLS)
def test_an_index_out_of_range_is_a_device_side_assertion(two_gpus: VirtualMachine, name: str) -> None:
    x = torch.ones(3, 3, device="cuda")
    with pytest.raises(torch.AcceleratorError) as caught:
        _CALLS[name](x, torch.tensor([0, 7], device="cuda"))
    assert str(caught.value) == WORDS
    assert caught.value.__cause__ is not None


def test_a_failed_assertion_makes_every_later_call_of_cuda_raise() -> None:
    with virtual_gpu(2) as machine:
        x, host, event = torch.ones(3, device="cuda"), torch.ones(3), torch.cuda.Event(enable_timing=True)
        event.record()
        with pytest.raises(torch.AcceleratorError):
            x[torch.tensor([7], device="cuda")]
        calls: list[Callable[[], object]] = [
            lambda: x + 1,
            lambda: torch.ones(1, device="cuda:1"),
            lambda: host.cuda(),
            lambda: x.cpu(),
            lambda: str(x),
            torch.cuda.synchronize,
            torch.cuda.empty_cache,
            event.query,
            lambda: event.elapsed_time(event),
        ]
        for call in calls:
            with pytest.raises(torch.AcceleratorError) as caught:
                call()
            assert str(caught.value) == WORDS
        assert (host + 1).tolist() == [2.0, 2.0, 2.0]
        assert x.shape == (3,)
        machine.recover()
        assert (x + 1).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: x.sum(5), IndexError, "Dimension out of range"),
        (lambda x: x.narrow(0, 2, 5), RuntimeError, r"start \(2\) \+ length \(5\) exceeds dimension size"),
        (lambda x: x.gather(3, x.long()), IndexError, "Dimension out of range"),
    ],
)
def test_invalid_arguments_visible_to_the_host_raise_immediately(
    two_gpus: VirtualMachine, call: Callable[[torch.Tensor], object], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught:
        call(torch.ones(3, 3, device="cuda"))
    assert not isinstance(caught.value, torch.AcceleratorError)


def test_index_errors_of_the_host_are_unchanged(two_gpus: VirtualMachine) -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        torch.ones(3)[torch.tensor([7])]
    with pytest.raises(IndexError, match="out of range in self"):
        F.embedding(torch.tensor([7]), torch.ones(3, 3))
    empty = torch.empty(10, 0, device="cuda")
    with pytest.raises(IndexError, match="dimension with size 0"):
        empty[:, [1, 2]]


def test_half_precision_ffts_need_powers_of_two(two_gpus: VirtualMachine) -> None:
    assert torch.fft.rfft(torch.ones(8, device="cuda", dtype=torch.float16)).dtype is torch.complex32
    with pytest.raises(RuntimeError) as caught:
        torch.fft.rfft(torch.ones(5, device="cuda", dtype=torch.float16))
    assert str(caught.value) == (
        "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, "
        "but got a signal size of[5]"
    )


@pytest.mark.parametrize("source", [torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_conversions_to_integers_saturate(source: torch.dtype, dtype: torch.dtype) -> None:
    values = [float("nan"), float("inf"), -float("inf"), 1e30, 2.9, -2.9]
    limits = torch.iinfo(dtype)
    with virtual_gpu():
        converted = torch.tensor(values, dtype=source, device="cuda").to(dtype).tolist()
    nan = 0 if (source, dtype) == (torch.float32, torch.int32) else limits.min
    assert converted == [nan, limits.max, limits.min, limits.max, 2, -2]


def _replayed(source: torch.Tensor) -> torch.Tensor:
    graph, kept = torch.cuda.CUDAGraph(), torch.zeros(2, dtype=torch.int32, device="cuda")
    with torch.cuda.graph(graph):
        made = source.int()
        kept.copy_(source)
    graph.replay()
    assert torch.equal(made, kept)
    return made


def _set_whole(source: torch.Tensor) -> torch.Tensor:
    target = torch.zeros(2, dtype=torch.int32, device="cuda")
    target[:] = source
    return target


def _copied_later(source: torch.Tensor) -> torch.Tensor:
    result = source.to("cpu", torch.int32, non_blocking=True)
    torch.cuda.synchronize()
    return result


_HOST = torch.tensor([float("nan"), 3e10])
_ON_A_GPU: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda source: source.int(),
    lambda source: torch.zeros(2, dtype=torch.int32, device="cuda").copy_(source),
    lambda source: torch.zeros(2, dtype=torch.int32, device="cuda").copy_(_HOST, non_blocking=True),
    lambda source: source.to("cuda:1", torch.int32),
    _set_whole,
    _replayed,
    _copied_later,
]
_ON_THE_CPU: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda source: source.to("cpu", torch.int32),
    lambda source: torch.zeros(2, dtype=torch.int32).copy_(source),
    lambda source: torch.zeros(2, dtype=torch.int32, device="cuda").copy_(_HOST),
]


@pytest.mark.parametrize("copy", [*_ON_A_GPU, *_ON_THE_CPU])
def test_the_converting_device_decides_the_integers(copy: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """A blocking copy between host and GPU converts on the CPU, whose integers do not saturate."""
    with virtual_gpu(2):
        converted = copy(_HOST.to("cuda")).tolist()
    assert converted == ([0, 2**31 - 1] if copy in _ON_A_GPU else _HOST.int().tolist())


def test_dividing_integers_by_zero_is_no_error_and_other_quotients_are_right(two_gpus: VirtualMachine) -> None:
    x, y = torch.tensor([7, 7, -7], device="cuda"), torch.tensor([2, 0, 2], device="cuda")
    assert (x // y).tolist()[::2] == [3, -4]
    assert (x % y).tolist()[::2] == [1, 1]
    assert (x // 0).shape == x.shape
    with pytest.raises(NotImplementedError, match="floor_divide"):
        x.floor_divide_(y)


def test_a_tensor_of_the_machines_own_gpu_is_refused_in_words() -> None:
    with virtual_gpu():
        x = torch.ones(2, device="cuda")
        # On a machine with a GPU the second tensor is real, and has the same device.
        error = device_mismatch_error(describe(torch.ops.aten.add.Tensor), (x, x), {})
    assert error is not None
    assert "this machine's own cuda:0" in str(error)
