"""Devices: their number, the current device and devices of new tensors."""

from __future__ import annotations

from typing import Any

import torch

from tests.fidelity.program import ANY, gives, on, raises

CUDA = "torch/cuda/__init__.py"
NOTES = "docs/source/notes/cuda.rst"
FACTORIES = "torch/csrc/utils/tensor_new.cpp"
ASYNCHRONOUS = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable "
    "device-side assertions.\n"
)
NO_SUCH_GPU = "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?"


@gives((True, True, 0), source=CUDA)
def there_is_a_gpu_and_the_first_is_current() -> Any:
    return torch.cuda.is_available(), torch.cuda.device_count() >= 2, torch.cuda.current_device()


@gives(on("cuda:0", "float32", [0.0, 0.0]), source=NOTES)
def cuda_without_a_number_is_the_current_gpu() -> Any:
    return torch.zeros(2, device="cuda")


@gives(("cuda:1", "cuda:1", "cuda:0"), source=NOTES)
def set_device_changes_what_cuda_means() -> Any:
    torch.cuda.set_device(1)
    made, moved = torch.zeros(1, device="cuda"), torch.zeros(1).cuda()
    torch.cuda.set_device(0)
    return made.device, moved.device, torch.zeros(1, device="cuda").device


@gives(("cuda:1", 0, 1, 0), source=NOTES)
def the_device_block_gives_the_former_gpu_back() -> Any:
    before = torch.cuda.current_device()
    with torch.cuda.device(1):
        inside = torch.zeros(1, device="cuda").device
        current = torch.cuda.current_device()
    return inside, before, current, torch.cuda.current_device()


@gives((0, 0), source=CUDA)
def a_device_block_of_none_or_minus_one_changes_nothing() -> Any:
    with torch.cuda.device(None):
        first = torch.cuda.current_device()
    with torch.cuda.device(-1):
        return first, torch.cuda.current_device()


@gives((1, 0), source=CUDA)
def device_of_follows_a_tensor() -> Any:
    with torch.cuda.device_of(torch.zeros(1, device="cuda:1")):
        inside = torch.cuda.current_device()
    return inside, torch.cuda.current_device()


@gives((True, None, 0, False), source="docs/source/tensor_attributes.rst")
def a_device_without_a_number_is_not_the_device_of_a_tensor() -> Any:
    plain, placed = torch.device("cuda"), torch.zeros(1, device="cuda").device
    return torch.device("cuda", 0) == placed, plain.index, placed.index, plain == placed


@gives(("cuda:1", "cuda:1"), source="docs/source/tensor_attributes.rst")
def a_number_stands_for_the_accelerators_device() -> Any:
    return torch.zeros(1, device=1).device, torch.zeros(1).to(1).device


@raises(torch.AcceleratorError, NO_SUCH_GPU + ASYNCHRONOUS, source="c10/cuda/CUDAException.cpp")
def a_factory_on_a_gpu_that_is_not_there() -> Any:
    return torch.zeros(1, device="cuda:99")


@raises(torch.AcceleratorError, NO_SUCH_GPU + ASYNCHRONOUS, source="c10/cuda/CUDAException.cpp")
def a_move_to_a_gpu_that_is_not_there() -> Any:
    return torch.zeros(1).to("cuda:99")


@raises(torch.AcceleratorError, NO_SUCH_GPU + ASYNCHRONOUS, source="c10/cuda/CUDAException.cpp")
def set_device_to_a_gpu_that_is_not_there() -> Any:
    torch.cuda.set_device(99)


@raises(AssertionError, "Invalid device id", source=CUDA)
def properties_of_a_gpu_that_is_not_there() -> Any:
    return torch.cuda.get_device_properties(99)


@raises(ValueError, "Expected a cuda device, but got: cpu", source="torch/cuda/_utils.py")
def set_device_to_the_cpu() -> Any:
    torch.cuda.set_device("cpu")


@raises(RuntimeError, "Invalid device string: 'cuda0'", source="c10/core/Device.cpp")
def a_device_name_without_its_colon() -> Any:
    return torch.zeros(1, device="cuda0")


@gives((str, (int, int), int, int), source=CUDA)
def name_capability_and_properties_have_their_types() -> Any:
    major, minor = torch.cuda.get_device_capability()
    properties = torch.cuda.get_device_properties("cuda:0")
    kinds = type(major), type(minor)
    return type(torch.cuda.get_device_name()), kinds, type(properties.total_memory), type(properties.major)


@gives((True, True), source="test/test_cuda.py: test_cuda_get_device_properties")
def properties_without_a_device_are_the_current_ones() -> Any:
    name, properties = torch.cuda.get_device_name(0), torch.cuda.get_device_properties()
    return name == torch.cuda.get_device_name(None), properties.name == name


@gives((0, 1, -1), source="docs/source/tensors.rst")
def get_device_is_the_number_and_minus_one_on_the_cpu() -> Any:
    first, second = torch.zeros(1, device="cuda"), torch.zeros(1, device="cuda:1")
    return first.get_device(), second.get_device(), torch.zeros(1).get_device()


@gives((True, False, False, True), source="docs/source/tensors.rst")
def is_cuda_and_is_cpu() -> Any:
    x, y = torch.zeros(1, device="cuda"), torch.zeros(1)
    return x.is_cuda, x.is_cpu, y.is_cuda, y.is_cpu


@gives((True, True, True, False, True), source="torch/_tensor_docs.py: to")
def a_move_to_where_a_tensor_is_gives_the_same_object() -> Any:
    x, y = torch.ones(2, device="cuda"), torch.ones(2)
    return x.cuda() is x, x.to("cuda") is x, x.to("cuda:0") is x, x.to("cuda", copy=True) is x, y.cpu() is y


@gives(on("cuda:0", "float16", [1.5]), source="torch/_tensor_docs.py: to")
def a_move_can_convert_at_once() -> Any:
    return torch.tensor([1.5]).to("cuda", torch.float16)


@gives(on("cuda:1", "int64", [3]), source="torch/_tensor_docs.py: to")
def to_another_tensor_takes_its_device_and_dtype() -> Any:
    return torch.tensor([3.0]).to(torch.zeros(1, dtype=torch.long, device="cuda:1"))


@gives((on("cuda:1", "float32", [1.0, 2.0]), "cuda:0"), source=NOTES)
def a_copy_from_one_gpu_to_another() -> Any:
    x = torch.tensor([1.0, 2.0], device="cuda:0")
    return x.to("cuda:1"), x.device


@gives(("cuda:1", "cuda:1", "cuda:1", "cuda:1"), source=NOTES)
def new_and_like_follow_their_tensor() -> Any:
    x = torch.zeros(2, device="cuda:1")
    made = torch.zeros_like(x), x.new_ones(3), torch.randn_like(x), x.new_tensor([1])
    return tuple(tensor.device for tensor in made)


@gives(("cuda:1", "cuda:1"), source=NOTES)
def results_stay_where_their_inputs_are_whatever_is_current() -> Any:
    x = torch.ones(2, device="cuda:1")
    return (x + x).device, x.sum().device


@gives(("cuda:0", "cpu", "cpu"), source="torch/__init__.py: set_default_device")
def a_default_device_is_for_factories_and_not_for_from_numpy() -> Any:
    torch.set_default_device("cuda")
    try:
        made, shared = torch.ones(1), torch.from_numpy(torch.ones(1, device="cpu").numpy())
    finally:
        torch.set_default_device(None)
    return made.device, shared.device, torch.ones(1).device


@gives(("cuda:1", "cpu", "cuda:0", "cpu"), source="docs/source/tensor_attributes.rst")
def a_device_as_a_block_is_the_default_of_factories() -> Any:
    with torch.device("cuda:1"):
        inside, asked = torch.zeros(1), torch.zeros(1, device="cpu")
        with torch.device("cuda:0"):
            inner = torch.arange(3)
    return inside.device, asked.device, inner.device, torch.zeros(1).device


@gives(("torch.cuda.FloatTensor", "torch.cuda.LongTensor", "torch.cuda.HalfTensor"), source="torch/_tensor_docs.py")
def type_names_the_device_too() -> Any:
    x = torch.ones(1, device="cuda")
    return x.type(), x.long().type(), x.half().type()


@gives((on("cpu", "float64", [1.0]), on("cuda:0", "float64", [1.0])), source="torch/csrc/autograd/python_variable.cpp")
def type_of_a_cpu_kind_moves_to_the_cpu() -> Any:
    x = torch.ones(1, device="cuda")
    double: Any = torch.DoubleTensor
    return x.type(double), x.type(torch.float64)


@gives((True, False, False), source="torch/csrc/tensor/python_tensor.cpp")
def isinstance_knows_the_old_tensor_classes() -> Any:
    x = torch.ones(1, device="cuda")
    old: Any = torch.cuda.FloatTensor  # type: ignore[attr-defined]
    return isinstance(x, old), isinstance(x.double(), old), isinstance(x.cpu(), old)


@gives(
    (on("cuda:0", "float32", [1.0, 2.0]), "cuda:0"),
    source="torch/csrc/tensor/python_tensor.cpp",
    warned=(f"UserWarning: The torch.cuda.*DtypeTensor constructors are no longer recommended. {ANY}",),
)
def the_old_constructors_make_tensors_on_the_gpu() -> Any:
    cuda: Any = torch.cuda
    return cuda.FloatTensor([1, 2]), cuda.LongTensor(3).device


@gives(("cuda", "torch.cuda", 2), source="torch/accelerator/__init__.py")
def the_accelerator_is_cuda() -> Any:
    current = torch.accelerator.current_accelerator()
    assert current is not None
    return current.type, torch.get_device_module("cuda").__name__, min(2, torch.accelerator.device_count())


@gives(on("cuda:0", "float64", [1.0, 2.0]), source=FACTORIES)
def as_tensor_takes_an_array_to_the_gpu() -> Any:
    return torch.as_tensor(torch.tensor([1.0, 2.0], dtype=torch.float64).numpy(), device="cuda")


@gives(
    on("cuda:0", "float32", [1.0]),
    warned=(
        "UserWarning: To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
        "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
    ),
    source=FACTORIES,
)
def torch_tensor_of_a_tensor_stays_on_its_device_and_warns() -> Any:
    return torch.tensor(torch.ones(1, device="cuda"))


@gives(on("cuda:0", "float16", [1.5, 2.5]), source=FACTORIES)
def a_list_of_gpu_scalars_becomes_a_tensor() -> Any:
    x = torch.tensor([1.5, 2.5], device="cuda", dtype=torch.float16)
    return torch.tensor([x[0], x[1]], device="cuda")


NUMPY = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."


@raises(TypeError, NUMPY, source="torch/csrc/utils/tensor_numpy.cpp")
def numpy_of_a_gpu_tensor() -> Any:
    return torch.ones(2, device="cuda").numpy()


@raises(TypeError, NUMPY, source="torch/csrc/utils/tensor_numpy.cpp")
def an_array_of_a_gpu_tensor() -> Any:
    import numpy

    return numpy.asarray(torch.ones(2, device="cuda"))


@gives([1.0, 1.0], source="torch/_tensor_docs.py: numpy")
def numpy_by_force_copies_to_the_host() -> Any:
    return torch.ones(2, device="cuda").numpy(force=True).tolist()


@raises(
    RuntimeError,
    "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",
    source="aten/src/ATen/native/Memory.cpp",
)
def pinning_a_gpu_tensor() -> Any:
    return torch.ones(2, device="cuda").pin_memory()


@gives((True, False, False), source="docs/source/notes/cuda.rst: Use pinned memory buffers")
def pinned_memory_is_the_hosts() -> Any:
    x = torch.ones(2).pin_memory()
    return x.is_pinned(), x.cuda().is_pinned(), torch.ones(2).is_pinned()


@gives(("cuda:1", "cuda:0", 1), source="torch/cuda/__init__.py: StreamContext")
def a_stream_block_of_another_gpu_changes_to_that_gpu() -> Any:
    with torch.cuda.stream(torch.cuda.current_stream(1)):
        inside = torch.zeros(1, device="cuda").device
        current = torch.cuda.current_device()
    with torch.cuda.stream(None):
        return inside, torch.zeros(1, device="cuda").device, current
