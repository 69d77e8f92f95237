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


raises(RuntimeError, TWO_DEVICES + "cuda:0 and cpu!", source=ITERATOR)(
    a_sum_of_gpu_and_cpu=lambda: gpu(1, 2) + torch.tensor([1.0, 2.0]),
    a_sum_of_cpu_and_gpu_names_the_gpu_first_too=lambda: torch.tensor([1.0, 2.0]) + gpu(1, 2),
    a_comparison_of_gpu_and_cpu=lambda: gpu(1, 2) == torch.tensor([1.0, 2.0]),
    a_gpu_tensor_added_to_a_cpu_one_in_place=lambda: torch.zeros(2).add_(gpu(1, 2)),
    a_gpu_scalar_does_not_mix_with_a_cpu_vector=lambda: torch.ones(2) * torch.tensor(2.0, device="cuda"),
    targets_of_a_squared_error_left_on_the_cpu=lambda: F.mse_loss(gpu(1, 2), torch.tensor([1.0, 2.0])),
    where_with_a_condition_on_the_cpu=lambda: torch.where(torch.tensor([True, False]), gpu(1, 2), gpu(3, 4)),
)
raises(RuntimeError, TWO_DEVICES + "cuda:0 and cuda:1!", source=ITERATOR)(
    a_sum_of_two_gpus=lambda: gpu(1, 2) + torch.ones(2, device="cuda:1")
)


@raises(RuntimeError, TWO_DEVICES + "cuda:0 and cpu!", source=ITERATOR)
def a_gpu_scalar_added_to_a_cpu_scalar_in_place() -> Any:
    total = torch.zeros(())
    total += gpu(1, 2).sum()
    return total


gives(on("cuda:0", "float32", [3.0, 6.0]), source=SCALARS)(
    a_cpu_scalar_tensor_mixes_with_a_gpu_vector=lambda: gpu(1, 2) * torch.tensor(3.0),
    a_cpu_double_scalar_does_not_widen_the_gpu_vector=lambda: torch.tensor(3.0, dtype=torch.float64) * gpu(1, 2),
)
gives(on("cuda:0", "float32", [1.5, 2.5]), source=SCALARS)(
    a_cpu_scalar_adds_in_place=lambda: gpu(1, 2).add_(torch.tensor(0.5))
)


@gives(on("cuda:0", "float32", [2.0, 4.0]), source="docs/source/tensor_attributes.rst: type promotion")
def plain_and_numpy_numbers_go_with_any_device() -> Any:
    import numpy

    return gpu(1, 2) * 2 * numpy.float64(1.0)


raises(RuntimeError, named("mat2", "cpu", "mm"), source=CHECK)(
    a_matrix_product_of_gpu_and_cpu=lambda: torch.ones(2, 2, device="cuda") @ torch.ones(2, 2)
)
raises(RuntimeError, named("mat2", "cuda:1", "mm"), source=CHECK)(
    a_matrix_product_of_two_gpus=lambda: torch.mm(torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda:1"))
)
raises(RuntimeError, named("mat2", "cpu", "bmm"), source=CHECK)(
    a_batched_product_of_gpu_and_cpu=lambda: torch.bmm(torch.ones(1, 2, 2, device="cuda"), torch.ones(1, 2, 2))
)
raises(RuntimeError, named("mat1", "cuda:0", "addmm", "cpu"), source=CHECK)(
    a_layer_left_on_the_cpu=lambda: nn.Linear(2, 2)(torch.ones(1, 2, device="cuda"))
)
raises(RuntimeError, named("mat1", "cpu", "addmm"), source=CHECK)(
    an_input_left_on_the_cpu=lambda: nn.Linear(2, 2).cuda()(torch.ones(1, 2))
)
raises(
    RuntimeError,
    "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    source="aten/src/ATen/native/Convolution.cpp",
)(a_convolution_left_on_the_cpu=lambda: nn.Conv2d(1, 1, 1)(torch.ones(1, 1, 2, 2, device="cuda")))
raises(
    RuntimeError,
    "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a "
    "MKLDNN tensor and weight is a dense tensor",
    source="aten/src/ATen/native/Convolution.cpp",
)(images_left_on_the_cpu=lambda: nn.Conv2d(3, 8, 3).cuda()(torch.ones(16, 3, 32, 32)))
raises(
    RuntimeError,
    "Expected all tensors to be on the same device, but got weight is on cuda:0, different from other tensors on cpu "
    "(when checking argument in method wrapper_CUDA___slow_conv2d_forward)",
    source="aten/src/ATen/native/Convolution.cpp: use_mkldnn",
)(a_small_image_left_on_the_cpu=lambda: nn.Conv2d(1, 1, 1).cuda()(torch.ones(1, 1, 2, 2)))
raises(RuntimeError, named("index", "cpu", "_index_select"), source=CHECK)(
    token_numbers_left_on_the_cpu=lambda: nn.Embedding(3, 2).cuda()(torch.tensor([1]))
)
raises(RuntimeError, named("target", "cpu", "nll_loss_forward"), source=CHECK)(
    labels_left_on_the_cpu=lambda: F.cross_entropy(torch.ones(1, 2, device="cuda"), torch.tensor([1]))
)
raises(RuntimeError, named("index", "cpu", "gather"), source=CHECK)(
    a_gather_with_numbers_on_the_cpu=lambda: gpu(1, 2).gather(0, torch.tensor([0]))
)
raises(RuntimeError, named("other", "cpu", "_equal"), source=CHECK)(
    torch_equal_of_gpu_and_cpu=lambda: torch.equal(gpu(1, 2), torch.tensor([1.0, 2.0]))
)
raises(RuntimeError, named("tensor", "cpu", "_dot"), source=CHECK)(
    a_dot_product_of_gpu_and_cpu=lambda: torch.dot(gpu(1, 2), torch.tensor([1.0, 2.0]))
)


@gives((on("cuda:0", "float32", [1.0, 2.0]), on("cpu", "float32", [1.0, 2.0])), source="aten/src/ATen/native/Copy.cpp")
def copy_crosses_devices_in_both_directions() -> Any:
    to_gpu, to_cpu = torch.zeros(2, device="cuda"), torch.zeros(2)
    return to_gpu.copy_(torch.tensor([1.0, 2.0])), to_cpu.copy_(gpu(1, 2))


@gives(on("cuda:0", "float32", [5.0, 6.0, 0.0]), source="torch/csrc/autograd/python_variable_indexing.cpp")
def assigning_a_cpu_tensor_to_a_slice_copies_it() -> Any:
    x = torch.zeros(3, device="cuda")
    x[:2] = torch.tensor([5.0, 6.0])
    return x


gives(on("cuda:0", "float32", [1.0, 0.0]), source="aten/src/ATen/native/TensorCompare.cpp: where")(
    where_takes_cpu_scalars=lambda: torch.where(gpu(1, -1) > 0, torch.tensor(1.0), torch.tensor(0.0))
)


@gives(on("cuda:0", "float32", [9.0, 2.0]), source="aten/src/ATen/native/cuda/Indexing.cu: masked_fill__cuda")
def masked_fill_takes_a_cpu_scalar() -> Any:
    x = gpu(1, 2)
    return x.masked_fill(x < 2, torch.tensor(9.0))


gives(on("cuda:0", "bool", True), source="aten/src/ATen/TensorIterator.cpp")(
    results_of_comparisons_are_on_the_gpu=lambda: (gpu(1, 2) == 1).any()
)
gives(on("cpu", "float32", [2.0, 3.0]), source="torch/_tensor_docs.py: cpu")(
    what_was_brought_back_mixes_with_the_cpu=lambda: gpu(1, 2).cpu() + torch.ones(2)
)
