"""Moving modules and assigning `.data` keeps hooks, tied weights, lazy shapes, parametrizations and attributes."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.utils.prune
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from tests.support.virtual_gpus import gradient

GPU = torch.device("cuda:0")


def _on_gpu(module: nn.Module) -> bool:
    return all(tensor.device == GPU for tensor in (*module.parameters(), *module.buffers()))


def test_a_lazy_module_that_was_moved_first_is_made_on_the_device() -> None:
    model: Any = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(2)).cuda()
    assert model[0].weight.device == GPU
    assert model[0].weight.is_cuda
    model(torch.randn(3, 5, device="cuda")).sum().backward()
    assert type(model[0]) is nn.Linear
    assert _on_gpu(model)
    assert isinstance(model[0].weight, nn.Parameter)
    assert model[0].weight.shape == (4, 5)
    assert gradient(model[0].weight).device == GPU


def test_lazy_modules_take_a_dtype_a_device_and_the_way_back() -> None:
    half: Any = nn.LazyConv2d(3, 3).half().to("cuda:0")
    half(torch.randn(1, 2, 5, 5, device="cuda").half())
    assert (half.weight.dtype, half.weight.device) == (torch.float16, GPU)
    later: Any = nn.LazyConv2d(3, 3).to("cuda:0").half()
    later(torch.randn(1, 2, 5, 5, device="cuda").half())
    assert (later.weight.dtype, later.weight.device) == (torch.float16, GPU)
    made_there = nn.LazyLinear(3, device="cuda")
    made_there(torch.ones(1, 2, device="cuda"))
    assert _on_gpu(made_there)
    back: Any = nn.LazyLinear(3).cuda().cpu()
    back(torch.ones(1, 2))
    assert back.weight.device.type == "cpu"


def test_lazy_modules_are_copied_and_loaded_into() -> None:
    lazy = copy.deepcopy(nn.LazyLinear(3).cuda())
    assert "UninitializedParameter" in repr(lazy.weight)
    lazy.load_state_dict(nn.Linear(2, 3).state_dict())
    assert _on_gpu(lazy)
    assert lazy(torch.ones(1, 2, device="cuda")).shape == (1, 3)


def test_meta_modules_are_filled_on_the_device_and_not_moved() -> None:
    for module in (nn.Linear(2, 2, device="meta"), nn.Linear(2, 2)):
        moved = module.to_empty(device="cuda")
        assert _on_gpu(moved)
        moved.reset_parameters()
        assert torch.isfinite(moved(torch.ones(1, 2, device="cuda"))).all()
    skipped: Any = nn.utils.skip_init(nn.Linear, 2, 2, device="cuda")
    assert _on_gpu(skipped)
    with pytest.raises(NotImplementedError) as caught:
        nn.Linear(2, 2, device="meta").cuda()
    assert str(caught.value) == "Cannot copy out of meta tensor; no data!"
    with pytest.raises(NotImplementedError, match=r"Please use torch\.nn\.Module\.to_empty"):
        nn.Linear(2, 2, device="meta").to("cuda")


def test_moving_between_forward_and_backward_raises() -> None:
    layer = nn.Linear(2, 2)
    out = layer(torch.ones(1, 2))
    layer.cuda()
    with pytest.raises(RuntimeError, match="between the forward pass and backward"):
        out.sum().backward()
    layer(torch.ones(1, 2, device="cuda")).sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.parametrize("before", [True, False], ids=["made before the move", "made after the move"])
@pytest.mark.parametrize(
    "add_parametrization", [parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal]
)
def test_parametrized_layers_move_and_give_the_cpus_values(add_parametrization: Any, before: bool) -> None:
    layer: Any = nn.Linear(3, 3)
    if before:
        layer = add_parametrization(layer)
        expected = layer(torch.ones(2, 3)).detach()
        layer.cuda()
    else:
        layer = add_parametrization(layer.cuda())
        layer(torch.ones(2, 3, device="cuda"))
        expected = copy.deepcopy(layer).cpu()(torch.ones(2, 3)).detach()
    layer.eval()
    got = layer(torch.ones(2, 3, device="cuda"))
    assert _on_gpu(layer)
    torch.testing.assert_close(got.detach().cpu(), expected, rtol=1e-3, atol=1e-3)
    got.sum().backward()
    with parametrize.cached():
        layer(torch.ones(2, 3, device="cuda"))
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight.device == GPU


@pytest.mark.filterwarnings("ignore:.*is deprecated in favor of:FutureWarning")
def test_the_old_norms_and_pruning_work_on_the_device() -> None:
    for normalize, remove in (
        (nn.utils.weight_norm, nn.utils.remove_weight_norm),
        (nn.utils.spectral_norm, nn.utils.remove_spectral_norm),
    ):
        layer = normalize(nn.Linear(3, 3)).cuda()
        layer(torch.ones(2, 3, device="cuda")).sum().backward()
        assert _on_gpu(remove(layer))
    layer = nn.Linear(4, 4).cuda()
    nn.utils.prune.l1_unstructured(layer, "weight", 0.5)
    assert int((layer.weight == 0).sum()) == 8
    nn.utils.prune.remove(layer, "weight")
    assert _on_gpu(layer)


def test_tied_weights_stay_tied_and_a_number_names_a_gpu() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    model.to(1)
    assert model[0].weight is model[1].weight
    assert model[0].weight.device == torch.device("cuda:1")
    assert model.cuda(0)[1].weight.device == GPU


def test_averaged_models_stay_on_the_device() -> None:
    model: Any = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).cuda()
    decay = torch.optim.swa_utils.get_ema_multi_avg_fn(0.5)
    plain: Any = torch.optim.swa_utils.AveragedModel(model)
    moving: Any = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=decay, use_buffers=True)
    elsewhere: Any = torch.optim.swa_utils.AveragedModel(model, device=torch.device("cuda:1"))
    first = model[0].weight.detach().clone()
    for step in (1.0, 2.0):
        with torch.no_grad():
            model[0].weight.copy_(first + step)
        for averaged in (plain, moving, elsewhere):
            averaged.update_parameters(model)
    torch.testing.assert_close(plain.module[0].weight.detach(), first + 1.5)
    torch.testing.assert_close(moving.module[0].weight.detach(), first + 1.5)
    assert elsewhere.module[0].weight.device == torch.device("cuda:1")
    torch.optim.swa_utils.update_bn([torch.randn(4, 2)], plain, device=GPU)
    assert _on_gpu(plain.module)


@pytest.mark.parametrize("made_inside", [True, False])
def test_modules_move_in_inference_mode(made_inside: bool) -> None:
    layer = nn.Conv2d(1, 1, 1)
    with torch.inference_mode():
        layer = nn.Conv2d(1, 1, 1) if made_inside else layer
        assert layer.cuda()(torch.ones(1, 1, 2, 2, device="cuda")).device == GPU


def test_state_dicts_load_across_devices_strictly_or_by_assignment() -> None:
    on_host, on_gpu = nn.Linear(2, 2), nn.Linear(2, 2).cuda()
    on_host.load_state_dict(on_gpu.state_dict())
    assert on_host.weight.device.type == "cpu"
    assert torch.equal(on_host.weight, on_gpu.weight.cpu())
    on_host.load_state_dict(on_gpu.state_dict(), assign=True)
    assert _on_gpu(on_host)
    without_values: Any = nn.Linear(2, 2, device="meta")
    without_values.load_state_dict(on_gpu.state_dict(), assign=True)
    assert isinstance(without_values.weight, nn.Parameter)
    assert _on_gpu(without_values)
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "bias"'):
        on_gpu.load_state_dict({"weight": torch.ones(2, 2)})
    assert on_gpu.load_state_dict({"weight": torch.ones(2, 2)}, strict=False).missing_keys == ["bias"]
    assert on_gpu.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_memory_formats_are_kept() -> None:
    layer: Any = nn.Conv2d(2, 3, 3).to("cuda", memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)
    x = torch.randn(1, 2, 5, 5).cuda().to(memory_format=torch.channels_last)
    out = layer(x)
    assert out.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(out.cpu(), copy.deepcopy(layer).cpu()(x.cpu()))


def test_modules_answer_to_other_calls_on_the_device() -> None:
    layer = nn.Linear(2, 2).cuda()
    assert layer.share_memory() is layer
    assert _on_gpu(layer.type(torch.float64))
    layer.to(torch.ones(1, device="cuda:1"))
    assert {parameter.device for parameter in layer.parameters()} == {torch.device("cuda:1")}
    vector = nn.utils.parameters_to_vector(layer.parameters())
    nn.utils.vector_to_parameters(vector * 2, layer.parameters())
    torch.testing.assert_close(nn.utils.parameters_to_vector(layer.parameters()), vector * 2)
    doubled = {name: value * 2 for name, value in layer.state_dict().items()}
    out = torch.func.functional_call(layer, doubled, torch.ones(1, 2, device="cuda:1"))
    torch.testing.assert_close(out, layer(torch.ones(1, 2, device="cuda:1")) * 2)
    holder = nn.ParameterList([nn.Parameter(torch.ones(2))]).cuda()
    assert "cuda:0" in repr(holder)
    assert _on_gpu(nn.ParameterDict({"x": nn.Parameter(torch.ones(2))}).cuda())


def test_buffers_that_are_not_saved_move_too() -> None:
    module: Any = nn.Module()
    module.register_buffer("mask", torch.ones(1), persistent=False)
    module.register_parameter("absent", None)
    module.cuda()
    assert module.mask.device == GPU
    assert "mask" not in module.state_dict()
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    assert b"cuda" not in file.getvalue()


pytestmark = pytest.mark.usefixtures("two_gpus")


def _forward_backward(layer: nn.Linear) -> None:
    layer(torch.ones(1, 2, device=layer.weight.device, dtype=layer.weight.dtype)).sum().backward()


def test_a_parameters_attributes_move_with_it() -> None:
    layer: Any = nn.Linear(2, 2)
    layer.weight.no_wd = True
    for move in (layer.cuda, layer.half, lambda: layer.to("cuda:1"), layer.float, layer.cpu):
        layer.weight.seen = move().weight.device
        assert layer.weight.no_wd is True
    assert set(vars(layer.weight)) == {"no_wd", "seen"}
    layer.weight.data = layer.weight.data.cuda()
    assert layer.weight.no_wd is True


def test_removed_hooks_stay_removed_after_a_move() -> None:
    layer = nn.Linear(2, 2)
    seen: list[str] = []
    gone = layer.weight.register_hook(lambda gradient: seen.append("gone"))
    layer.weight.register_hook(lambda gradient: seen.append(f"kept on {gradient.device}"))
    after_gone = layer.weight.register_post_accumulate_grad_hook(lambda parameter: seen.append("after gone"))
    layer.weight.register_post_accumulate_grad_hook(lambda parameter: seen.append("after kept"))
    layer.cuda()
    _forward_backward(layer)
    assert seen == ["gone", "kept on cuda:0", "after gone", "after kept"]
    seen.clear()
    gone.remove()
    after_gone.remove()
    _forward_backward(layer)
    assert seen == ["kept on cuda:0", "after kept"]
    layer.cpu()
    _forward_backward(layer)
    assert seen[2:] == ["kept on cpu", "after kept"]
    layer = nn.Linear(2, 2)
    seen.clear()
    layer.weight.register_hook(lambda gradient: seen.append("never")).remove()
    layer.cuda()
    layer.weight.register_hook(lambda gradient: seen.append("later"))
    _forward_backward(layer)
    assert seen == ["later"]


class _Marked(nn.Parameter):
    """Parameter subclass of a user."""


def test_a_parameter_subclass_moves_but_takes_no_data_of_another_device() -> None:
    layer = nn.Linear(2, 2)
    layer.weight = _Marked(torch.ones(2, 2))
    with pytest.raises(NotImplementedError, match="does not support parameters of the class _Marked on a device"):
        layer.weight.data = torch.ones(2, 2, device="cuda")
    assert layer.half().weight.dtype is torch.float16
    layer.cuda()
    assert isinstance(layer.weight, _Marked)
    assert layer.weight.is_cuda


@pytest.fixture
def overwriting() -> Iterator[None]:
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    yield
    torch.__future__.set_overwrite_module_params_on_conversion(False)


def test_overwrite_module_params_makes_new_parameters(overwriting: None) -> None:
    layer = nn.Linear(2, 2)
    before = layer.weight
    _forward_backward(layer)
    layer.to("cuda")
    assert layer.weight is not before
    assert before.device.type == "cpu"
    assert isinstance(layer.weight, nn.Parameter)
    assert layer.weight.device == torch.device("cuda:0")
    assert gradient(layer.weight).device == torch.device("cuda:0")
    on_gpu = layer.weight
    layer.cpu()
    assert layer.weight is not on_gpu
    assert type(layer.weight) is nn.Parameter


def test_a_sparse_parameter_moves_and_a_backward_pass_from_before_is_refused() -> None:
    layer = nn.Module()
    layer.weight = nn.Parameter(torch.eye(2).to_sparse())
    loss = torch.sparse.mm(layer.weight, torch.ones(2, 1)).sum()
    layer.cuda()
    assert layer.weight.device == torch.device("cuda:0")
    assert layer.weight.is_sparse
    with pytest.raises(RuntimeError, match="between the forward pass and backward"):
        loss.backward()
    torch.sparse.mm(layer.weight, torch.ones(2, 1, device="cuda")).sum().backward()
    assert layer.weight.grad is not None


def test_a_parameter_moves_by_its_data_both_ways_as_the_same_object() -> None:
    layer = nn.Linear(3, 2)
    weight = layer.weight
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    for parameter in layer.parameters():
        parameter.data = parameter.data.cuda()
    assert layer.weight is weight
    assert isinstance(weight, nn.Parameter)
    assert (str(weight.device), weight.requires_grad) == ("cuda:0", True)
    before = weight.detach().cpu()
    weight.grad = torch.ones_like(weight)
    optimiser.step()
    assert torch.allclose(weight.detach().cpu(), before - 0.1)
    weight.grad = None
    for parameter in layer.parameters():
        parameter.data = parameter.data.cpu()
    assert str(layer.weight.device) == "cpu"
    assert type(layer.weight) is nn.Parameter


def test_a_parameter_takes_data_of_inference_mode() -> None:
    layer = nn.Conv2d(2, 2, 3).cuda()
    weight, values = layer.weight, layer.weight.tolist()
    with torch.inference_mode():
        layer.weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    assert layer.weight is weight
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert weight.tolist() == values


def test_other_data_shares_memory_and_is_refused_if_grad_is_set() -> None:
    tensor, values = torch.ones(3), torch.zeros(2, device="cuda")
    tensor.data = values
    values += 1
    assert tensor.tolist() == [1.0, 1.0]
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    with pytest.raises(NotImplementedError, match=r"module\.to"):
        weight.data = weight.data.cuda()
