"""Tensors of two devices in one call: what is allowed, and the words where it is not."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.fidelity.program import gives, on, raises

ITERATOR = "aten/src/ATen/TensorIterator.cpp"
CHECK = "aten/src/ATen/core/op_registration/adaption.cpp"
SCALARS = "docs/source/notes/cuda.rst and aten/src/ATen/TensorIterator.cpp"
TWO_DEVICES = "Expected all tensors to be on the same device, but found at least two devices, "


def gpu(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, device="cuda")


def named(argument: str, where: str, kernel: str, others: str = "cuda:0") -> str:
    return (
        f"Expected all tensors to be on the same device, but got {argument} is on {where}, different from other "
        f"tensors on {others} (when checking argument in method wrapper_CUDA_{kernel})"
    )


@raises(RuntimeError, TWO_DEVICES + "cuda:0 and cpu!", source=ITERATOR)
def a_sum_of_gpu_and_cpu() -> Any:
    return gpu(1, 2) + torch.tensor([1.0, 2.0])


@raises(RuntimeError, TWO_DEVICES + "cuda:0 and cpu!", source=ITERATOR)
def a_sum_of_cpu_and_gpu_names_the_gpu_first_too() -> Any:
    return torch.tensor([1.0, 2.0]) + gpu(1, 2)


@raises(RuntimeError, TWO_DEVICES + "cuda:0 and cuda:1!", source=ITERATOR)
def a_sum_of_two_gpus() -> Any:
    return gpu(1, 2) + torch.ones(2, device="cuda:1")


@raises(RuntimeError, TWO_DEVICES + "cuda:0 and cpu!", source=ITERATOR)
def a_comparison_of_gpu_and_cpu() -> Any:
    return gpu(1, 2) == torch.tensor([1.0, 2.0])


@raises(RuntimeError, TWO_DEVICES + "cuda:0 and cpu!", source=ITERATOR)
def a_gpu_tensor_added_to_a_cpu_one_in_place() -> Any:
    return torch.zeros(2).add_(gpu(1, 2))


@raises(RuntimeError, TWO_DEVICES + "cuda:0 and cpu!", source=ITERATOR)
def a_gpu_scalar_added_to_a_cpu_scalar_in_place() -> Any:
    total = torch.zeros(())
    total += gpu(1, 2).sum()
    return total


@raises(RuntimeError, TWO_DEVICES + "cuda:0 and cpu!", source=ITERATOR)
def a_gpu_scalar_does_not_mix_with_a_cpu_vector() -> Any:
    return torch.ones(2) * torch.tensor(2.0, device="cuda")


@gives(on("cuda:0", "float32", [3.0, 6.0]), source=SCALARS)
def a_cpu_scalar_tensor_mixes_with_a_gpu_vector() -> Any:
    return gpu(1, 2) * torch.tensor(3.0)


@gives(on("cuda:0", "float32", [3.0, 6.0]), source=SCALARS)
def a_cpu_double_scalar_does_not_widen_the_gpu_vector() -> Any:
    return torch.tensor(3.0, dtype=torch.float64) * gpu(1, 2)


@gives(on("cuda:0", "float32", [1.5, 2.5]), source=SCALARS)
def a_cpu_scalar_adds_in_place() -> Any:
    return gpu(1, 2).add_(torch.tensor(0.5))


@gives(on("cuda:0", "float32", [2.0, 4.0]), source="docs/source/tensor_attributes.rst: type promotion")
def plain_and_numpy_numbers_go_with_any_device() -> Any:
    import numpy

    return gpu(1, 2) * 2 * numpy.float64(1.0)


@raises(RuntimeError, named("mat2", "cpu", "mm"), source=CHECK)
def a_matrix_product_of_gpu_and_cpu() -> Any:
    return torch.ones(2, 2, device="cuda") @ torch.ones(2, 2)


@raises(RuntimeError, named("mat2", "cuda:1", "mm"), source=CHECK)
def a_matrix_product_of_two_gpus() -> Any:
    return torch.mm(torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda:1"))


@raises(RuntimeError, named("mat2", "cpu", "bmm"), source=CHECK)
def a_batched_product_of_gpu_and_cpu() -> Any:
    return torch.bmm(torch.ones(1, 2, 2, device="cuda"), torch.ones(1, 2, 2))


@raises(RuntimeError, named("mat1", "cuda:0", "addmm", "cpu"), source=CHECK)
def a_layer_left_on_the_cpu() -> Any:
    return nn.Linear(2, 2)(torch.ones(1, 2, device="cuda"))


@raises(RuntimeError, named("mat1", "cpu", "addmm"), source=CHECK)
def an_input_left_on_the_cpu() -> Any:
    return nn.Linear(2, 2).cuda()(torch.ones(1, 2))


@raises(
    RuntimeError,
    "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    source="aten/src/ATen/native/Convolution.cpp",
)
def a_convolution_left_on_the_cpu() -> Any:
    return nn.Conv2d(1, 1, 1)(torch.ones(1, 1, 2, 2, device="cuda"))


@raises(
    RuntimeError,
    "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a "
    "MKLDNN tensor and weight is a dense tensor",
    source="aten/src/ATen/native/Convolution.cpp",
)
def images_left_on_the_cpu() -> Any:
    return nn.Conv2d(3, 8, 3).cuda()(torch.ones(16, 3, 32, 32))


@raises(
    RuntimeError,
    "Expected all tensors to be on the same device, but got weight is on cuda:0, different from other tensors on cpu "
    "(when checking argument in method wrapper_CUDA___slow_conv2d_forward)",
    source="aten/src/ATen/native/Convolution.cpp: use_mkldnn",
)
def a_small_image_left_on_the_cpu() -> Any:
    return nn.Conv2d(1, 1, 1).cuda()(torch.ones(1, 1, 2, 2))


@raises(RuntimeError, named("index", "cpu", "_index_select"), source=CHECK)
def token_numbers_left_on_the_cpu() -> Any:
    return nn.Embedding(3, 2).cuda()(torch.tensor([1]))


@raises(RuntimeError, named("target", "cpu", "nll_loss_forward"), source=CHECK)
def labels_left_on_the_cpu() -> Any:
    return F.cross_entropy(torch.ones(1, 2, device="cuda"), torch.tensor([1]))


@raises(RuntimeError, TWO_DEVICES + "cuda:0 and cpu!", source=ITERATOR)
def targets_of_a_squared_error_left_on_the_cpu() -> Any:
    return F.mse_loss(gpu(1, 2), torch.tensor([1.0, 2.0]))


@raises(RuntimeError, named("index", "cpu", "gather"), source=CHECK)
def a_gather_with_numbers_on_the_cpu() -> Any:
    return gpu(1, 2).gather(0, torch.tensor([0]))


@raises(RuntimeError, named("other", "cpu", "_equal"), source=CHECK)
def torch_equal_of_gpu_and_cpu() -> Any:
    return torch.equal(gpu(1, 2), torch.tensor([1.0, 2.0]))


@raises(RuntimeError, named("tensor", "cpu", "_dot"), source=CHECK)
def a_dot_product_of_gpu_and_cpu() -> Any:
    return torch.dot(gpu(1, 2), torch.tensor([1.0, 2.0]))


@gives((on("cuda:0", "float32", [1.0, 2.0]), on("cpu", "float32", [1.0, 2.0])), source="aten/src/ATen/native/Copy.cpp")
def copy_crosses_devices_in_both_directions() -> Any:
    to_gpu, to_cpu = torch.zeros(2, device="cuda"), torch.zeros(2)
    return to_gpu.copy_(torch.tensor([1.0, 2.0])), to_cpu.copy_(gpu(1, 2))


@gives(on("cuda:0", "float32", [5.0, 6.0, 0.0]), source="torch/csrc/autograd/python_variable_indexing.cpp")
def assigning_a_cpu_tensor_to_a_slice_copies_it() -> Any:
    x = torch.zeros(3, device="cuda")
    x[:2] = torch.tensor([5.0, 6.0])
    return x


@gives(on("cuda:0", "float32", [1.0, 0.0]), source="aten/src/ATen/native/TensorCompare.cpp: where")
def where_takes_cpu_scalars() -> Any:
    return torch.where(gpu(1, -1) > 0, torch.tensor(1.0), torch.tensor(0.0))


@raises(RuntimeError, TWO_DEVICES + "cuda:0 and cpu!", source=ITERATOR)
def where_with_a_condition_on_the_cpu() -> Any:
    return torch.where(torch.tensor([True, False]), gpu(1, 2), gpu(3, 4))


@gives(on("cuda:0", "float32", [9.0, 2.0]), source="aten/src/ATen/native/cuda/Indexing.cu: masked_fill__cuda")
def masked_fill_takes_a_cpu_scalar() -> Any:
    x = gpu(1, 2)
    return x.masked_fill(x < 2, torch.tensor(9.0))


@gives(on("cuda:0", "bool", True), source="aten/src/ATen/TensorIterator.cpp")
def results_of_comparisons_are_on_the_gpu() -> Any:
    return (gpu(1, 2) == 1).any()


@gives(on("cpu", "float32", [2.0, 3.0]), source="torch/_tensor_docs.py: cpu")
def what_was_brought_back_mixes_with_the_cpu() -> Any:
    return gpu(1, 2).cpu() + torch.ones(2)
