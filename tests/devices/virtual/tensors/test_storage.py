"""Storages of device tensors, and legacy CPU types."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.machine import VirtualMachine
from gpututor.trace.events import Kind

CUDA: Any = torch.cuda
REAL_FLOAT_TENSOR: Any = torch.FloatTensor
SET = (
    'Attempted to set the storage of a tensor on device "{}" to a storage on different device "cuda:0".  '
    "This is no longer allowed; the devices must match."
)


def test_a_device_storage_is_an_untyped_storage(two_gpus: object) -> None:
    here, host = torch.ones(2, device="cuda"), torch.ones(2)
    storage: Any = here.untyped_storage()
    assert isinstance(storage, torch.UntypedStorage)
    assert torch.is_storage(storage)
    assert torch.is_storage(host.untyped_storage())
    assert not torch.is_storage(here)
    assert repr(type(storage)) == "<class 'torch.storage.UntypedStorage'>"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which torch gives once in a process
        assert isinstance(here.storage(), torch.TypedStorage)
        here_too: Any = here.double()
        assert here_too.storage_type() is CUDA.DoubleStorage


def test_setting_a_storage_of_another_device_is_refused_in_cudas_words(two_gpus: object) -> None:
    storage: Any = torch.ones(2, device="cuda").untyped_storage()
    calls: dict[str, Callable[[], object]] = {
        "cpu": lambda: torch.ones(2).set_(storage),
        "cuda:1": lambda: torch.ones(2, device="cuda:1").set_(storage),
    }
    for device, call in calls.items():
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value) == SET.format(device)
    with pytest.raises(RuntimeError) as caught:
        torch.FloatTensor(storage)
    assert str(caught.value) == SET.format("cpu")
    empty: Any = torch.empty(0)
    assert empty.set_(torch.ones(3)).tolist() == [1.0] * 3


def test_a_storage_is_cloned_copied_moved_and_pickled(two_gpus: VirtualMachine) -> None:
    x = torch.tensor([1.0, 2.0], device="cuda")
    storage: Any = x.untyped_storage()
    host: Any = torch.tensor([3.0, 4.0]).untyped_storage()
    copies = {
        "clone": storage.clone(),
        "pickle": pickle.loads(pickle.dumps(storage)),
        "deepcopy": copy.deepcopy(storage),
        "second GPU": storage.cuda(1),
        "host": storage.cpu(),
    }
    devices = {name: str(each.device) for name, each in copies.items()}
    on_first = dict.fromkeys(("clone", "pickle", "deepcopy"), "cuda:0")
    assert devices == {**on_first, "second GPU": "cuda:1", "host": "cpu"}
    assert (torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1)) == (4 * 512, 512)
    storage.copy_(host)
    assert x.tolist() == [3.0, 4.0]
    assert [each.tolist() for each in copies.values()] == [torch.tensor([1.0, 2.0]).untyped_storage().tolist()] * 5
    empty: Any = torch.empty(0, device="cuda").untyped_storage()
    assert pickle.loads(pickle.dumps(empty)).nbytes() == 0
    assert storage.cuda() is storage
    moved = host.cuda(1)
    assert (str(moved.device), moved.tolist()) == ("cuda:1", host.tolist())
    with pytest.raises(RuntimeError, match="self was 8 bytes but src was 12 bytes"):
        storage.copy_(torch.ones(3).untyped_storage())


def test_copies_of_storages_are_transfers_and_kernels() -> None:
    with virtual_gpu(recorder=Recorder([__file__])) as machine:
        storage: Any = torch.ones(2, device="cuda").untyped_storage()
        host = torch.ones(2).untyped_storage()
        first = len(machine.recorder.trace)
        storage.clone()
        storage.copy_(host)
    kinds = [event.kind for event in machine.recorder.complete().since(first)]
    assert kinds.count(Kind.KERNEL) == kinds.count(Kind.TRANSFER) == kinds.count(Kind.ALLOCATE) == 1


def test_legacy_cpu_types_work_as_without_the_virtual_gpu(two_gpus: object) -> None:
    with pytest.raises(TypeError, match=r"device=cpu, .* \(got TensorOptions\(dtype=float, device=cuda:0, "):
        torch.FloatTensor(torch.ones(2, device="cuda"))
    made: Any = torch.FloatTensor([1, 2])
    assert made.tolist() == [1.0, 2.0]
    assert isinstance(made, torch.FloatTensor)
    assert not isinstance(made, torch.LongTensor)
    assert REAL_FLOAT_TENSOR in (torch.LongTensor, torch.FloatTensor)
    any_type: Any = torch.LongTensor
    assert made.type(any_type).dtype is torch.int64
    assert made.cuda().type(REAL_FLOAT_TENSOR).device.type == "cpu"
    assert repr(torch.FloatTensor) == "<class 'torch.FloatTensor'>"
    assert torch.FloatTensor.dtype is torch.float32
    assert pickle.loads(pickle.dumps(torch.FloatTensor)) is torch.FloatTensor


def test_a_tensor_that_outlives_its_machine_prints_but_cannot_be_used() -> None:
    with virtual_gpu():
        x: Any = torch.ones(2, device="cuda")
    assert repr(x) == "tensor([1., 1.], device='cuda:0')"
    assert (x.shape, x.device) == ((2,), torch.device("cuda:0"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for use in (x.tolist, x.untyped_storage, x.storage, x.storage_type, x.data_ptr, x.cpu, x.sum):
            with pytest.raises(RuntimeError, match="on a virtual GPU that is switched off"):
                use()


@pytest.mark.parametrize("make", [torch.tensor, torch.as_tensor])
def test_a_tensor_of_a_storage_reads_its_bytes_on_the_host(two_gpus: object, make: Any) -> None:
    x = torch.arange(3.0, device="cuda")
    made = make(x.untyped_storage(), dtype=torch.float32)
    assert made.device.type == "cpu"
    assert made.tolist() == [0.0, 1.0, 2.0]
    assert make(x.untyped_storage(), dtype=torch.float32, device="cuda:1").device == torch.device("cuda:1")


@pytest.mark.filterwarnings("ignore:TypedStorage:UserWarning")
def test_storages_of_another_dtype_or_without_memory_are_refused_in_torchs_words(two_gpus: object) -> None:
    target = torch.empty(0, device="cuda")
    x = torch.ones(2, device="cuda", dtype=torch.float64)
    with pytest.raises(RuntimeError, match="Expected a Storage of type"):
        target.set_(x.storage())
    assert target.numel() == 0
    assert target.set_(x.float().storage()).tolist() == [1.0, 1.0]
    assert target.set_(x.untyped_storage()).numel() == 4
    nowhere: Any = torch.TypedStorage([1, 2], dtype=torch.float32, device="meta")
    for call, words in (
        (nowhere.cuda, "Cannot copy out of meta tensor"),
        (nowhere.untyped()._share_cuda_, "only available on CUDA"),
        (lambda: CUDA.FloatStorage(2).copy_(nowhere), "Cannot copy out of meta tensor"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()


@pytest.mark.parametrize("number", [True, 2, 0.5, 1j])
def test_a_number_can_be_copied_into_a_tensor(two_gpus: object, number: complex) -> None:
    dtype = torch.complex64 if isinstance(number, complex) else torch.float32
    x = torch.zeros(2, device="cuda", dtype=dtype)
    assert x.copy_(number).tolist() == [number, number]  # type: ignore[arg-type]


def test_storages_are_made_on_a_gpu(two_gpus: VirtualMachine) -> None:
    made: Any = torch.UntypedStorage(8, device="cuda:1")
    assert (str(made.device), made.nbytes(), torch.cuda.memory_allocated(1)) == ("cuda:1", 8, 512)
    made[:] = 7
    made[1] = 2
    assert made.tolist() == [7, 2, 7, 7, 7, 7, 7, 7]
    assert made.fill_(1).tolist() == [1] * 8
    assert torch.UntypedStorage([3, 4], device="cuda").tolist() == [3, 4]
    assert torch.UntypedStorage(device="cuda").nbytes() == 0
    for size in (10**12, -1):
        with pytest.raises(torch.OutOfMemoryError):
            torch.UntypedStorage(size, device="cuda")
    with pytest.raises(IndexError):
        made[8]
    assert torch.UntypedStorage(8).device == torch.UntypedStorage(8, device="cpu").device == torch.device("cpu")


def test_a_slice_of_a_storage_shares_its_memory(two_gpus: VirtualMachine) -> None:
    whole: Any = torch.UntypedStorage([1, 2, 3, 4], device="cuda")
    part = whole[1:3][1:]
    whole[2] = 9
    assert (str(part.device), part.tolist(), part.data_ptr() - whole.data_ptr()) == ("cuda:0", [9], 2)
    assert not part.resizable()
    with pytest.raises(RuntimeError, match="not resizable"):
        part.resize_(4)
    with pytest.raises(NotImplementedError, match="a slice of a storage"):
        torch.empty(0, dtype=torch.uint8, device="cuda").set_(part)
    del whole
    assert torch.cuda.memory_allocated(0) == 512


@pytest.mark.filterwarnings("ignore:TypedStorage:UserWarning")
def test_typed_storages_are_made_filled_moved_and_converted(two_gpus: VirtualMachine) -> None:
    made: Any = CUDA.FloatStorage(3)
    made[:] = 0.5
    made[1] = 2
    assert made.tolist() == CUDA.FloatStorage([0.5, 2.0, 0.5]).tolist() == [0.5, 2.0, 0.5]
    assert isinstance(made, CUDA.FloatStorage)
    assert not isinstance(made, (CUDA.HalfStorage, torch.FloatStorage))
    assert (made.half().dtype, str(made.half().device)) == (torch.float16, "cuda:0")
    assert made.long().tolist() == [0, 2, 0]
    far: Any = torch.TypedStorage([1, 2], dtype=torch.int16, device="cuda:1")
    assert (str(far.device), far.nbytes(), far.tolist()) == ("cuda:1", 4, [1, 2])
    assert torch.empty(0, device="cuda").set_(made).sum() == 3
    moved: Any = torch.arange(3.0).storage().cuda()
    assert (str(moved.device), moved.dtype, moved.tolist()) == ("cuda:0", torch.float32, [0.0, 1.0, 2.0])
    assert isinstance(moved, torch.TypedStorage)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        torch.empty(2, device="meta").storage().cuda()


def test_a_storage_moves_to_pinned_memory_without_blocking(two_gpus: VirtualMachine) -> None:
    x = torch.tensor([1.0, 2.0], device="cuda")
    storage: Any = x.untyped_storage()
    for non_blocking in (False, True):
        moved = storage.to(device="cpu", non_blocking=non_blocking)
        assert moved.is_pinned() is non_blocking
        assert torch.empty(0).set_(moved).tolist() == [1.0, 2.0]
    assert str(storage.to(device="cuda:1").device) == "cuda:1"


def test_a_host_storage_takes_the_bytes_of_a_gpu() -> None:
    with virtual_gpu(recorder=Recorder([__file__])) as machine:
        storage: Any = torch.tensor([1.0, 2.0], device="cuda").untyped_storage()
        host: Any = torch.zeros(2)
        host.untyped_storage().copy_(storage)
        assert host.tolist() == [1.0, 2.0]
        with pytest.raises(RuntimeError, match="self was 12 bytes but src was 8 bytes"):
            torch.zeros(3).untyped_storage().copy_(storage)
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
            storage.copy_(torch.zeros(2, device="meta").untyped_storage())
        before = len(machine.recorder.trace)
        assert storage[3] == 63
    copies = [event for event in machine.recorder.complete().since(before) if event.kind is Kind.TRANSFER]
    assert [copy.size_bytes for copy in copies] == [1]


@pytest.mark.filterwarnings("ignore:TypedStorage:UserWarning")
def test_deep_copies_of_tensors_and_storages_share_memory_as_before(two_gpus: VirtualMachine) -> None:
    x: Any = torch.ones(2, device="cuda")
    x.labels = ["a"]
    tensor, untyped, typed, view = copy.deepcopy([x, x.untyped_storage(), x.storage(), x[1:]])
    assert tensor.labels == ["a"]
    assert tensor.labels is not x.labels
    tensor.fill_(3)
    assert (x.tolist(), view.tolist(), typed.tolist()) == ([1.0, 1.0], [3.0], [3.0, 3.0])
    assert untyped == tensor.untyped_storage() != x.untyped_storage()
    assert torch.cuda.memory_allocated(0) == 2 * 512


@pytest.mark.filterwarnings("ignore:TypedStorage:UserWarning")
@pytest.mark.parametrize(
    "call",
    [
        lambda storage: torch.Tensor(storage),
        lambda storage: torch.ones(1).new(storage),
        lambda storage: storage.untyped()._weak_ref(),
    ],
)
def test_what_would_read_a_gpus_memory_on_the_host_is_refused(
    two_gpus: VirtualMachine, call: Callable[[Any], object]
) -> None:
    x = torch.ones(2, device="cuda")
    for storage in (x.storage(), x.untyped_storage()):
        with pytest.raises((RuntimeError, NotImplementedError, AttributeError)):
            call(storage)


@pytest.mark.filterwarnings("ignore:TypedStorage:UserWarning")
def test_new_tensor_copies_a_storage(two_gpus: VirtualMachine) -> None:
    x = torch.tensor([1.0, 2.0], device="cuda")
    for like in (torch.ones(1), torch.ones(1, device="cuda")):
        for storage in (x.storage(), x.untyped_storage()):
            made = like.new_tensor(storage)
            assert (made.device, made.tolist()) == (like.device, [1.0, 2.0])
