"""Saving, loading, pickling and copying device tensors, with torch and safetensors."""

from __future__ import annotations

import copy
import importlib
import io
import pathlib
import pickle
import warnings
import zipfile
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
import torch.multiprocessing
from torch import nn

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, storage_key, virtual_gpu
from tests.support.virtual_gpus import printed

GPU, OTHER = torch.device("cuda:0"), torch.device("cuda:1")


def _saved(value: object, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize(
    ("saved_on", "map_location", "expected"),
    [
        ("cpu", "cuda", "cuda:0"),
        ("cpu", torch.device("cuda", 1), "cuda:1"),
        ("cpu", {"cpu": "cuda:1"}, "cuda:1"),
        ("cpu", lambda storage, location: storage.cuda(1), "cuda:1"),
        ("cpu", lambda storage, location: None, "cpu"),
        ("cpu", None, "cpu"),
        ("cuda:1", None, "cuda:1"),
        ("cuda:1", "cpu", "cpu"),
        ("cuda:1", "cuda", "cuda:0"),
        ("cuda:1", torch.device("cuda:0"), "cuda:0"),
        ("cuda:1", {"cuda:1": "cuda:0"}, "cuda:0"),
        ("cuda:1", lambda storage, location: storage, "cpu"),
    ],
)
@pytest.mark.parametrize("options", [{"mmap": True}, {"weights_only": True}, {"weights_only": False}], ids=str)
def test_map_location_chooses_the_device(
    two_gpus: VirtualMachine, tmp_path: pathlib.Path, saved_on: str, map_location: Any, expected: str, options: Any
) -> None:
    x = torch.arange(4.0, device=saved_on)
    torch.save({"x": x, "view": x[1:]}, tmp_path / "file.pt")
    loaded = torch.load(tmp_path / "file.pt", map_location=map_location, **options)
    assert (str(loaded["x"].device), loaded["x"].tolist()) == (expected, [0.0, 1.0, 2.0, 3.0])
    assert storage_key(loaded["x"]) == storage_key(loaded["view"])


def test_files_of_torch_have_its_formats_and_locations(two_gpus: VirtualMachine) -> None:
    file = _saved([torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1"), torch.ones(2)])
    with zipfile.ZipFile(file) as archive:
        written = archive.read("archive/data.pkl")
    for text in (b"cuda:0", b"cuda:1", b"cpu", b"torch._utils\n_rebuild_tensor_v2", b"FloatStorage"):
        assert text in written
    assert b"gpututor" not in written
    file = _saved({"x": torch.ones(2, device="cuda:1")}, _use_new_zipfile_serialization=False)
    assert torch.load(file)["x"].device == OTHER


def test_a_missing_gpu_or_none_raises_torchs_error_at_loading() -> None:
    with virtual_gpu(2):
        file = _saved(torch.ones(2, device="cuda:1"))
    with virtual_gpu(1):
        with pytest.raises(RuntimeError) as caught:
            torch.load(file)
        assert str(caught.value) == (
            "Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1. Please use "
            "torch.load with map_location to map your storages to an existing device."
        )
        file.seek(0)
        assert torch.load(file, map_location="cuda:0").device == GPU


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a real GPU, onto which the file loads")
def test_a_file_of_a_gpu_raises_torchs_error_without_one() -> None:
    with virtual_gpu(1):
        file = _saved(torch.ones(2, device="cuda"))
    with pytest.raises(
        RuntimeError, match=r"Attempting to deserialize object on a CUDA device but torch\.cuda\.is_avai"
    ):
        torch.load(file)


def test_optimizers_and_modules_are_loaded_onto_their_device(two_gpus: VirtualMachine) -> None:
    model: Any = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to("cuda:1")
    stepper = torch.optim.AdamW(model.parameters())
    model(torch.randn(3, 2, device="cuda:1")).sum().backward()
    stepper.step()
    loaded = torch.load(_saved({"model": model.state_dict(), "stepper": stepper.state_dict()}), weights_only=True)
    state = loaded["stepper"]["state"][0]
    assert (state["exp_avg"].device, state["step"].device.type) == (OTHER, "cpu")
    stepper.load_state_dict(loaded["stepper"])
    for place in (None, "cpu", "cuda:0"):
        whole = torch.load(_saved(model), map_location=place, weights_only=False)
        expected = torch.device(place or "cuda:1")
        assert {tensor.device for tensor in (*whole.parameters(), *whole.buffers())} == {expected}
        assert all(isinstance(parameter, nn.Parameter) for parameter in whole.parameters())
        assert whole.eval()(torch.ones(1, 2, device=expected)).device == expected


def test_safetensors_reads_and_writes_device_tensors(two_gpus: VirtualMachine, tmp_path: pathlib.Path) -> None:
    model = nn.Linear(2, 2).cuda()
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(model.state_dict(), path)
    devices: dict[Any, torch.device] = {"cuda": GPU, "cuda:1": OTHER, 0: GPU, "cpu": torch.device("cpu")}
    for wanted, expected in devices.items():
        loaded = safetensors.torch.load_file(path, device=wanted)
        assert {tensor.device for tensor in loaded.values()} == {expected}
        assert torch.equal(loaded["weight"].cpu(), model.weight.detach().cpu())
    safetensors.torch.save_model(model, str(path))
    safetensors.torch.load_model(model, path, device="cuda")
    assert model.weight.device == GPU
    with safetensors.safe_open(path, "pt", device="cuda:0") as file:
        assert file.get_tensor("weight").device == GPU
        assert file.get_slice("weight")[:1].device == GPU


def test_pickle_copy_and_queues_keep_the_device(two_gpus: VirtualMachine) -> None:
    x = torch.ones(3, device="cuda:1")
    parameter = nn.Parameter(torch.ones(2, device="cuda"))
    ways: list[Callable[[Any], Any]] = [
        lambda value: pickle.loads(pickle.dumps(value)),
        lambda value: pickle.loads(ForkingPickler.dumps(value)),
        copy.deepcopy,
        copy.copy,
    ]
    for way in ways:
        assert (type(way(x)), way(x).device, way(x).tolist()) == (type(x), OTHER, [1.0, 1.0, 1.0])
        assert isinstance(way(parameter), nn.Parameter)
        assert way(parameter).device == GPU
    assert x.share_memory_() is x
    assert x.is_shared()


def test_a_process_without_the_virtual_gpu_reads_its_files(tmp_path: pathlib.Path) -> None:
    with virtual_gpu(1):
        torch.save({"x": torch.arange(3.0, device="cuda")}, tmp_path / "x.pt")
    program = f"import torch; print(torch.load({str(tmp_path / 'x.pt')!r}, map_location='cpu')['x'].tolist())"
    assert printed("-c", program) == "[0.0, 1.0, 2.0]\n"


def test_distributed_checkpoints_hold_device_tensors(tmp_path: pathlib.Path) -> None:
    with virtual_gpu(2), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint = importlib.import_module("torch.distributed.checkpoint")
        model = torch.nn.Linear(2, 2).to("cuda:1")
        state = {"values": torch.arange(3.0, device="cuda"), "model": model.state_dict()}
        checkpoint.save(state, checkpoint_id=tmp_path, no_dist=True)
        other = torch.nn.Linear(2, 2).to("cuda:1")
        values = torch.zeros(3, device="cuda")
        results = {"values": values, "model": other.state_dict()}
        checkpoint.load(results, checkpoint_id=tmp_path, no_dist=True)
        assert values.tolist() == [0.0, 1.0, 2.0]
        assert torch.equal(other.weight, model.weight)
        assert other.weight.device == torch.device("cuda:1")


@pytest.mark.filterwarnings("ignore:TypedStorage:UserWarning")
@pytest.mark.parametrize("is_zip", [True, False])
def test_storages_are_saved_and_loaded_on_their_device(two_gpus: VirtualMachine, is_zip: bool) -> None:
    x: Any = torch.arange(3.0, device="cuda:1")
    options = {"_use_new_zipfile_serialization": is_zip}
    typed, tensor, view = torch.load(_saved([x.storage(), x, x[1:]], **options))
    assert (typed.device, typed.dtype, typed.tolist()) == (OTHER, torch.float32, [0.0, 1.0, 2.0])
    tensor.fill_(3)
    assert (typed.tolist(), view.tolist()) == ([3.0] * 3, [3.0] * 2)
    loaded = torch.load(_saved(x.untyped_storage()), map_location="cuda:0")  # torch cannot load one in the old format
    assert (loaded.device, loaded.tolist()) == (GPU, list(x.cpu().numpy().tobytes()))
    pickled = pickle.loads(pickle.dumps(x.storage()))
    assert (pickled.device, pickled.tolist()) == (OTHER, [0.0, 1.0, 2.0])
    del typed, tensor, view, loaded, pickled
    assert (torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1)) == (0, 512)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        torch.save([x, x.untyped_storage()], io.BytesIO(), **options)


def test_saving_copies_to_the_host_once_for_each_storage(recorder: Recorder) -> None:
    x = torch.zeros(4, device="cuda")
    file = _saved([x, x[1:]])
    torch.load(file)
    moved = [(event.source, event.target, event.size_bytes) for event in recorder.trace if event.source]
    assert moved == [("cuda:0", "cpu", 16), ("cpu", "cuda:0", 16)]


@pytest.mark.parametrize("made", [torch.ones, lambda *args, **kwargs: nn.Parameter(torch.ones(*args, **kwargs))])
def test_a_shallow_copy_shares_the_memory(two_gpus: VirtualMachine, made: Any) -> None:
    x = made(3, device="cuda:1")
    x.label = "a"
    before = torch.cuda.memory_allocated(1)
    y = copy.copy(x)
    assert torch.cuda.memory_allocated(1) == before
    assert (type(y), y.requires_grad, y.label, y.data_ptr()) == (type(x), x.requires_grad, "a", x.data_ptr())
    assert isinstance(y, nn.Parameter) is isinstance(x, nn.Parameter)
    with torch.no_grad():
        y.fill_(5)
    assert x.tolist() == [5.0, 5.0, 5.0]
