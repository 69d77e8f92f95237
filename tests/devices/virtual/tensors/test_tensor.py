"""Tensors on a virtual GPU: factories, moves, indexing, printing."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch

from gpututor.devices.virtual import VirtualMachine, host_tensor, is_virtual, storage_key, virtual_gpu
from gpututor.devices.virtual.cuda_errors import in_cudas_words

GPU = torch.device("cuda:0")


@pytest.mark.parametrize(
    "make",
    [
        lambda **where: torch.zeros(2, 3, **where),
        lambda **where: torch.ones((2, 3), **where),
        lambda **where: torch.full((2,), 7, **where),
        lambda **where: torch.empty(2, **where).fill_(1),
        lambda **where: torch.arange(2, 9, 3, **where),
        lambda **where: torch.linspace(0, 1, 5, **where),
        lambda **where: torch.eye(3, **where),
        lambda **where: torch.tensor([[1, 2], [3, 4]], **where),
        lambda **where: torch.tensor(3.5, dtype=torch.float64, **where),
        lambda **where: torch.as_tensor(np.arange(3.0), **where),
        lambda **where: torch.tril_indices(3, 3, **where),
        lambda **where: torch.hann_window(4, **where),
        lambda **where: torch.zeros_like(torch.ones(2), **where),
        lambda **where: torch.ones(2).new_full((2,), 3.0, **where),
    ],
)
@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda", 0), 1])
def test_a_factory_makes_the_same_values_on_the_device(
    two_gpus: VirtualMachine, make: Callable[..., torch.Tensor], device: object
) -> None:
    made, expected = make(device=device), make()
    index = 1 if device in ("cuda:1", 1) else 0
    assert made.device == torch.device("cuda", index)
    assert made.is_cuda
    assert not made.is_cpu
    assert not made.is_meta
    assert made.get_device() == index
    assert isinstance(made, torch.Tensor)
    assert made.dtype is expected.dtype
    assert torch.equal(made.cpu(), expected)


def test_random_factories_draw_on_the_device_from_its_own_generator(two_gpus: VirtualMachine) -> None:
    torch.manual_seed(5)
    first = [torch.rand(3, device="cuda"), torch.randn(3, device="cuda"), torch.randint(0, 9, (3,), device="cuda")]
    host = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(host, torch.rand(3))
    torch.cuda.manual_seed(5)
    again = [torch.rand(3, device="cuda"), torch.randn(3, device="cuda"), torch.randint(0, 9, (3,), device="cuda")]
    assert all(torch.equal(tensor, other) for tensor, other in zip(first, again, strict=True))
    generator = torch.Generator("cuda").manual_seed(1)
    assert generator.device == GPU
    assert isinstance(generator, torch.Generator)
    drawn = torch.randn(2, device="cuda", generator=generator)
    assert torch.equal(drawn, torch.randn(2, device="cuda", generator=torch.Generator("cuda").manual_seed(1)))
    state = torch.cuda.get_rng_state()
    drawn = torch.rand(2, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(drawn, torch.rand(2, device="cuda"))


def test_a_generator_of_another_device_is_refused(two_gpus: VirtualMachine) -> None:
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        torch.rand(2, device="cuda", generator=torch.Generator())
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        torch.rand(2, generator=torch.Generator("cuda"))
    assert torch.rand(2, generator=torch.Generator().manual_seed(1)).device.type == "cpu"


def test_cpp_errors_name_cuda(two_gpus: VirtualMachine) -> None:
    assert in_cudas_words("tensor on meta:1, not 'meta', metadata, Metadata") == (
        "tensor on cuda:1, not 'cuda', metadata, Metadata"
    )
    x = torch.ones(2, 3, device="cuda")
    for call in (lambda: x.view(5), lambda: x @ x, lambda: x[7], lambda: torch.FloatTensor(2, device="cuda"), x.item):
        with pytest.raises((RuntimeError, IndexError)) as caught:
            call()
        assert "meta" not in str(caught.value)


def test_default_devices_hold_for_factories(two_gpus: VirtualMachine) -> None:
    with torch.device("cuda:1"):
        assert torch.ones(1).device == torch.device("cuda:1")
        assert torch.tensor([1]).device == torch.device("cuda:1")
        assert torch.ones(1, device="cpu").device.type == "cpu"
        assert torch.nn.Linear(1, 1).weight.device == torch.device("cuda:1")
    torch.set_default_device("cuda")
    assert torch.zeros(1).device == GPU


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")  # torch says so on every device
def test_new_and_like_follow_their_tensor(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, device="cuda:1")
    for made in (
        x.new_zeros(1),
        x.new_tensor([1.0]),
        torch.rand_like(x),
        torch.empty_like(x),
        x.clone(),
        torch.tensor(x),
    ):
        assert made.device == x.device
    assert torch.zeros_like(x, device="cpu").device.type == "cpu"


def test_a_move_to_the_same_device_returns_self(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, device="cuda")
    assert x.to("cuda") is x
    assert x.cuda() is x
    assert x.cuda(0) is x
    assert x.to(0) is x
    assert x.to(GPU) is x
    assert x.to("cuda", torch.float32) is x
    assert x.to(torch.ones(1).cuda()) is x
    assert x.to("cuda", copy=True) is not x
    host = x.cpu()
    assert host.cpu() is host
    assert host.to("cpu") is host


def test_moves_keep_values_and_change_dtype_and_device(two_gpus: VirtualMachine) -> None:
    host = torch.arange(6.0).reshape(2, 3)
    x = host.to("cuda", torch.float16, non_blocking=True)
    assert (x.device, x.dtype) == (GPU, torch.float16)
    assert torch.equal(x.to("cuda:1").cpu().float(), host)
    assert torch.equal(host.t().cuda().cpu(), host.t())
    assert host.t().cuda().stride() == (1, 3)
    assert x.double().device == GPU
    assert x.type() == "torch.cuda.HalfTensor"
    target = torch.zeros(2, 3)
    assert torch.equal(target.copy_(x), host)
    assert torch.equal(torch.zeros(2, 3, device="cuda").copy_(host).cpu(), host)


def test_the_learners_own_meta_device_still_works(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, device="meta")
    assert x.device == torch.device("meta")
    assert x.is_meta
    assert not is_virtual(x)
    assert torch.ones(2, device="cuda").to("meta").is_meta


def test_views_share_memory_and_in_place_changes_show(two_gpus: VirtualMachine) -> None:
    x = torch.zeros(2, 3, device="cuda")
    row, turned = x[0], x.t()
    row += 1
    turned[0, 1] = 5.0
    assert x.tolist() == [[1.0, 1.0, 1.0], [5.0, 0.0, 0.0]]
    assert storage_key(row) == storage_key(x) == storage_key(turned.reshape(3, 2)) != storage_key(x.clone())
    assert x.data_ptr() == row.data_ptr() != x[1].data_ptr()
    assert x.untyped_storage().data_ptr() == x[1].untyped_storage().data_ptr()
    x.unsqueeze_(0)
    assert x.shape == (1, 2, 3)
    assert x.squeeze_().shape == (2, 3)
    assert x.transpose_(0, 1).shape == (3, 2)
    assert x.resize_(2, 2).shape == (2, 2)
    out = torch.empty(0, device="cuda")
    torch.add(row, row, out=out)
    assert out.tolist() == [2.0, 2.0, 2.0]


def test_indexing_takes_lists_masks_and_cpu_indices(two_gpus: VirtualMachine) -> None:
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    assert x[[1, 0]].tolist() == [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]
    assert x[torch.tensor([1])].device == GPU
    assert x[x > 3].tolist() == [4.0, 5.0]
    x[x > 3] = 0
    x[0] = 9.0
    x[1, 0] = torch.tensor(7.0)
    assert x.tolist() == [[9.0, 9.0, 9.0], [7.0, 0.0, 0.0]]
    assert torch.where(x > 8, x, 0.0).sum().item() == 27.0


def test_item_and_tolist_return_python_numbers(two_gpus: VirtualMachine) -> None:
    x = torch.tensor([1.0, 2.0], device="cuda")
    assert float(x.sum()) == 3.0
    assert int(x[1]) == 2
    assert bool(x[0] > 0)
    assert f"{x.mean():.2f}" == "1.50"
    assert [value.item() for value in x] == [1.0, 2.0]
    assert 2.0 in x
    assert len(x) == 2
    assert torch.tensor([x[0], 5.0], device="cuda").tolist() == [1.0, 5.0]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.tensor([1.0, 2.0], device="cuda"), "tensor([1., 2.], device='cuda:0')"),
        (
            lambda: torch.zeros(2, dtype=torch.int32, device="cuda:1"),
            "tensor([0, 0], device='cuda:1', dtype=torch.int32)",
        ),
        (lambda: torch.empty(0, 3, device="cuda"), "tensor([], device='cuda:0', size=(0, 3))"),
        (lambda: torch.ones(1, device="cuda", requires_grad=True), "tensor([1.], device='cuda:0', requires_grad=True)"),
        (
            lambda: torch.ones(1, device="cuda", requires_grad=True) * 2,
            "tensor([2.], device='cuda:0', grad_fn=<MulBackward0>)",
        ),
        (
            lambda: torch.nn.Parameter(torch.ones(1, device="cuda")),
            "Parameter containing:\ntensor([1.], device='cuda:0', requires_grad=True)",
        ),
    ],
)
def test_a_tensor_prints_as_on_cuda(two_gpus: VirtualMachine, make: Callable[[], torch.Tensor], text: str) -> None:
    assert repr(make()) == str(make()) == f"{make()}" == text


def test_numpy_raises_cudas_error(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, device="cuda:1")
    words = (
        "can't convert cuda:1 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    )
    calls: list[Callable[[], object]] = [x.numpy, lambda: np.asarray(x), lambda: np.array(x)]
    for call in calls:
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == words
    assert x.cpu().numpy().tolist() == x.numpy(force=True).tolist() == [1.0, 1.0]


def test_a_thread_computes_on_the_device_too(two_gpus: VirtualMachine) -> None:
    made: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: made.append(torch.ones(2, device="cuda").add(1).cuda()))
    thread.start()
    thread.join()
    assert made[0].device == GPU
    assert made[0].tolist() == [2.0, 2.0]


def test_inference_mode_and_vmap_stay_on_the_device(two_gpus: VirtualMachine) -> None:
    x = torch.arange(4.0, device="cuda").reshape(2, 2)
    with torch.inference_mode():
        assert (x @ x.t()).reshape(4).device == GPU
        assert torch.nn.functional.linear(x, x).to("cuda").device == GPU
    assert torch.vmap(lambda row: row.sum())(x).tolist() == [1.0, 5.0]
    assert torch.func.grad(lambda value: (value**2).sum())(x).tolist() == (2 * x).tolist()


def test_the_host_tensor_is_plain_and_shares_its_values(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, device="cuda", requires_grad=True)
    host = host_tensor(x)
    assert type(host) is torch.Tensor
    assert host.device.type == "cpu"
    assert not host.requires_grad
    assert is_virtual(x)
    assert not is_virtual(host)


def test_a_storage_on_a_device_is_refused_by_name_and_one_on_the_host_is_made() -> None:
    with virtual_gpu():
        with pytest.raises(NotImplementedError, match=r"torch\.UntypedStorage"):
            torch.UntypedStorage(8, device="cuda")
        assert torch.UntypedStorage(8).nbytes() == torch.UntypedStorage(8, device="cpu").nbytes() == 8
    assert torch.UntypedStorage(8).nbytes() == 8
