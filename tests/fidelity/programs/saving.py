"""Files with tensors, and the text of tensors."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import torch
from torch import nn

from tests.fidelity.program import gives, on, raises

SERIALIZATION = "torch/serialization.py"


def reread(saved: Any, **how: Any) -> Any:
    """Save with `torch.save`, and return the result of `torch.load`."""
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    return torch.load(file, **how)


@gives(on("cuda:1", "float32", [1.0, 2.0]), source=SERIALIZATION)
def a_file_remembers_the_gpu() -> Any:
    return reread(torch.tensor([1.0, 2.0], device="cuda:1"))


@gives((on("cpu", "float32", [1.0]), "cpu", "cuda:0"), source=SERIALIZATION)
def map_location_brings_it_elsewhere() -> Any:
    x = torch.ones(1, device="cuda:1")
    there = reread(x, map_location=torch.device("cpu")), reread(x, map_location={"cuda:1": "cuda:0"})
    return reread(x, map_location="cpu"), there[0].device, there[1].device


@gives("cuda:0", source=SERIALIZATION)
def a_function_may_say_where() -> Any:
    x = torch.ones(1)
    return reread(x, map_location=lambda storage, location: storage.cuda(0)).device


@gives("cuda:0", source=SERIALIZATION)
def a_cpu_file_can_be_read_onto_the_gpu() -> Any:
    return reread(torch.ones(1), map_location="cuda").device


@raises(
    RuntimeError,
    "Attempting to deserialize object on CUDA device 99 but torch.cuda.device_count() is …. Please use torch.load with "
    "map_location to map your storages to an existing device.",
    source=f"{SERIALIZATION}: _validate_device",
)
def reading_onto_a_gpu_that_is_not_there() -> Any:
    return reread(torch.ones(1), map_location="cuda:99")


@gives((on("cuda:0", "float32", [9.0, 0.0]), "cuda:0"), source=SERIALIZATION)
def tensors_that_shared_memory_share_it_again() -> Any:
    x = torch.zeros(2, device="cuda")
    whole, part = reread([x, x[:1]])
    part.fill_(9)
    return whole, part.device


@gives((True, "cuda:0", True), source=SERIALIZATION)
def a_parameter_comes_back_as_one() -> Any:
    parameter = reread(nn.Parameter(torch.ones(1, device="cuda")))
    return isinstance(parameter, nn.Parameter), parameter.device, parameter.requires_grad


@gives(["cuda:0", "cuda:0"], source="torch/nn/modules/module.py: state_dict")
def a_state_dict_is_where_the_module_is() -> Any:
    return [str(tensor.device) for tensor in reread(nn.Linear(2, 1).cuda().state_dict()).values()]


@gives(("cuda:0", "cpu"), source="torch/nn/modules/module.py: load_state_dict")
def loading_a_state_dict_copies_onto_the_modules_device() -> Any:
    on_gpu, on_cpu = nn.Linear(2, 1).cuda(), nn.Linear(2, 1)
    on_gpu.load_state_dict(on_cpu.state_dict())
    on_cpu.load_state_dict(on_gpu.state_dict())
    return on_gpu.weight.device, on_cpu.weight.device


@gives((on("cuda:1", "float32", [1.0]), True), source="torch/_tensor.py: __deepcopy__")
def a_deep_copy_is_on_the_same_gpu_in_memory_of_its_own() -> Any:
    x = torch.ones(1, device="cuda:1")
    y = copy.deepcopy(x)
    return y, x.data_ptr() != y.data_ptr()


@gives(on("cuda:1", "float32", [1.0]), source="torch/_tensor.py: __reduce_ex__")
def pickle_keeps_the_gpu() -> Any:
    return pickle.loads(pickle.dumps(torch.ones(1, device="cuda:1")))


@raises(
    RuntimeError,
    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  If you "
    "were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, see "
    "https://github.com/pytorch/pytorch/pull/103001",
    source="torch/_tensor.py: __deepcopy__",
)
def a_deep_copy_of_a_result_with_a_graph() -> Any:
    return copy.deepcopy(torch.ones(1, device="cuda", requires_grad=True) * 2)


@gives(["cuda:0", "cuda:0", "cpu"], source="torch/optim/optimizer.py: load_state_dict")
def an_optimisers_state_goes_where_its_parameters_are() -> Any:
    here, there = nn.Linear(2, 1), nn.Linear(2, 1).cuda()
    first, second = torch.optim.Adam(here.parameters()), torch.optim.Adam(there.parameters())
    here(torch.ones(1, 2)).sum().backward()
    first.step()
    second.load_state_dict(first.state_dict())
    state = second.state[there.weight]
    return [str(state[name].device) for name in ("exp_avg", "exp_avg_sq", "step")]


TENSOR_STR = "torch/_tensor_str.py"


@gives("tensor([1., 2.], device='cuda:0')", source=TENSOR_STR)
def a_tensor_shows_its_device() -> Any:
    return str(torch.tensor([1.0, 2.0], device="cuda"))


@gives("tensor([1., 2.], device='cuda:1', dtype=torch.float64)", source=TENSOR_STR)
def a_dtype_that_is_not_the_default_is_shown() -> Any:
    return repr(torch.tensor([1.0, 2.0], device="cuda:1", dtype=torch.float64))


@gives("tensor([1], device='cuda:0')", source=TENSOR_STR)
def whole_numbers_show_no_dtype() -> Any:
    return str(torch.tensor([1], device="cuda"))


@gives("tensor(3., device='cuda:0', requires_grad=True)", source=TENSOR_STR)
def a_leaf_shows_that_it_requires_grad() -> Any:
    return str(torch.tensor(3.0, device="cuda", requires_grad=True))


@gives("tensor([2.], device='cuda:0', grad_fn=<MulBackward0>)", source=TENSOR_STR)
def a_result_shows_its_function() -> Any:
    return str(torch.ones(1, device="cuda", requires_grad=True) * 2)


@gives("tensor([], device='cuda:0', size=(0, 3))", source=TENSOR_STR)
def an_empty_tensor_shows_its_size() -> Any:
    return str(torch.empty(0, 3, device="cuda"))


@gives("Parameter containing:\ntensor([1.], device='cuda:0', requires_grad=True)", source="torch/nn/parameter.py")
def a_parameter_says_so() -> Any:
    return str(nn.Parameter(torch.ones(1, device="cuda")))


@gives("1.50 and 2.5", source="torch/_tensor.py: __format__")
def a_single_number_is_formatted_as_a_number() -> Any:
    x = torch.tensor(1.5, device="cuda")
    return f"{x:.2f} and {x + 1}".replace("tensor(2.5000, device='cuda:0')", "2.5")


@gives("tensor([[0., 0., 0.,  ..., 0., 0., 0.]], device='cuda:0')", source=TENSOR_STR)
def a_long_tensor_is_shortened() -> Any:
    return str(torch.zeros(1, 2000, device="cuda"))


@gives("tensor([True], device='cuda:0')", source=TENSOR_STR)
def truth_values() -> Any:
    return str(torch.ones(1, device="cuda") > 0)


@gives("tensor([1.+2.j], device='cuda:0')", source=TENSOR_STR)
def complex_numbers() -> Any:
    return str(torch.tensor([1 + 2j], device="cuda"))


@gives("[tensor(1., device='cuda:0'), tensor(2., device='cuda:0')]", source=TENSOR_STR)
def a_list_of_tensors() -> Any:
    return str(list(torch.tensor([1.0, 2.0], device="cuda")))


@gives(("device(type='cuda', index=0)", "cuda:0"), source="torch/csrc/Device.cpp")
def a_device_is_shown_in_two_ways() -> Any:
    device = torch.ones(1, device="cuda").device
    return repr(device), str(device)


@gives(("torch.Size([2])", "<class 'torch.Tensor'>"), source="torch/csrc/autograd/python_variable.cpp")
def shape_and_class() -> Any:
    x = torch.ones(2, device="cuda")
    return str(x.shape), str(type(x))
