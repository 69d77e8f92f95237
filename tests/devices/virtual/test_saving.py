"""Saving, loading, pickling and copying virtual tensors."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, storage_key, virtual_gpu

GPU = torch.device("cuda:0")


def _saved(value: object) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.parametrize(
    ("map_location", "expected"),
    [
        (None, "cuda:1"),
        ("cpu", "cpu"),
        ("cuda", "cuda:0"),
        ("cuda:0", "cuda:0"),
        (torch.device("cuda:0"), "cuda:0"),
        ({"cuda:1": "cuda:0"}, "cuda:0"),
        (lambda storage, location: storage, "cpu"),
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_a_saved_tensor_comes_back_where_it_is_asked_to(
    two_gpus: VirtualMachine, map_location: object, expected: str, weights_only: bool
) -> None:
    x = torch.arange(4.0, device="cuda:1")
    loaded = torch.load(_saved({"x": x, "view": x[1:]}), map_location=map_location, weights_only=weights_only)  # type: ignore[arg-type]
    assert loaded["x"].device == torch.device(expected)
    assert loaded["x"].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert storage_key(loaded["x"]) == storage_key(loaded["view"])


def test_a_state_dict_crosses_devices(two_gpus: VirtualMachine) -> None:
    model: Any = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).cuda()
    file = _saved(model.state_dict())
    on_host: Any = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    on_host.load_state_dict(torch.load(file, map_location="cpu"))
    assert on_host[0].weight.device.type == "cpu"
    assert torch.equal(on_host[0].weight, model[0].weight.cpu())
    on_gpu: Any = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).cuda()
    on_gpu.load_state_dict(on_host.state_dict())
    assert on_gpu[0].weight.device == GPU
    assert torch.equal(on_gpu[0].weight, model[0].weight)


def test_a_file_from_a_gpu_that_is_not_there_needs_map_location(two_gpus: VirtualMachine) -> None:
    raw = _saved(torch.ones(2, device="cuda:1")).getvalue().replace(b"cuda:1", b"cuda:5")
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on CUDA device 5 but"):
        torch.load(io.BytesIO(raw))
    assert torch.load(io.BytesIO(raw), map_location="cuda").device == GPU


def test_files_are_cudas_own() -> None:
    with virtual_gpu(1):
        file = _saved(torch.ones(2, device="cuda"))
    assert b"cuda:0" in file.getvalue()
    assert b"gpututor" not in file.getvalue()
    assert torch.load(file, map_location="cpu").tolist() == [1.0, 1.0]


def test_a_whole_module_can_be_saved(two_gpus: VirtualMachine) -> None:
    loaded = torch.load(_saved(nn.Linear(2, 2).cuda()), weights_only=False)
    assert isinstance(loaded.weight, nn.Parameter)
    assert loaded.weight.device == GPU


def test_pickle_and_deepcopy_keep_device_kind_and_sharing(two_gpus: VirtualMachine) -> None:
    x = torch.ones(3, device="cuda:1", requires_grad=True)
    assert pickle.loads(pickle.dumps(x)).device == torch.device("cuda:1")
    base = torch.zeros(3, device="cuda")
    one, other = copy.deepcopy([base, base[1:]])
    assert storage_key(one) == storage_key(other) != storage_key(base)
    model = copy.deepcopy(nn.Linear(2, 2).cuda())
    assert isinstance(model.weight, nn.Parameter)
    assert model.weight.device == GPU
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)


def test_saving_copies_to_the_host_once_for_each_storage(recorder: Recorder) -> None:
    x = torch.zeros(4, device="cuda")
    file = _saved([x, x[1:]])
    torch.load(file)
    moved = [(event.source, event.target, event.size_bytes) for event in recorder.trace if event.source]
    assert moved == [("cuda:0", "cpu", 16), ("cpu", "cuda:0", 16)]
