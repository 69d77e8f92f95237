"""Indexing: which side an index may be on, and what comes back."""

from __future__ import annotations

from typing import Any

import torch

from tests.fidelity.program import gives, on, raises

ADVANCED = "aten/src/ATen/native/TensorAdvancedIndexing.cpp"
PYTHON = "torch/csrc/autograd/python_variable_indexing.cpp"


def row() -> torch.Tensor:
    return torch.arange(4.0, device="cuda")


@gives(on("cuda:0", "float32", [3.0, 0.0]), source=ADVANCED)
def a_cpu_index_into_a_gpu_tensor() -> Any:
    return row()[torch.tensor([3, 0])]


@gives(on("cuda:0", "float32", [2.0, 3.0]), source=ADVANCED)
def a_cpu_mask_on_a_gpu_tensor() -> Any:
    return row()[torch.tensor([False, False, True, True])]


@raises(
    RuntimeError,
    "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
    source=f"{ADVANCED}: check_indices_on_cpu_or_selfdevice",
)
def a_gpu_index_into_a_cpu_tensor() -> Any:
    return torch.arange(4.0)[torch.tensor([3, 0], device="cuda")]


@raises(
    RuntimeError,
    "indices should be either on cpu or on the same device as the indexed tensor (cuda:0)",
    source=f"{ADVANCED}: check_indices_on_cpu_or_selfdevice",
)
def an_index_of_another_gpu() -> Any:
    return row()[torch.tensor([0], device="cuda:1")]


@gives(on("cuda:0", "float32", 2.0), source=PYTHON)
def one_element_stays_on_the_gpu() -> Any:
    return row()[2]


@gives(on("cuda:0", "float32", [0.0, 7.0, 7.0, 3.0]), source=PYTHON)
def assigning_a_number_through_a_list() -> Any:
    x = row()
    x[[1, 2]] = 7
    return x


@gives(on("cuda:0", "float32", [0.0, 1.0, 9.0, 9.0]), source=PYTHON)
def assigning_through_a_mask() -> Any:
    x = row()
    x[x > 1] = 9
    return x


@raises(
    IndexError,
    "index 4 is out of bounds for dimension 0 with size 4",
    source="torch/csrc/autograd/python_variable_indexing.cpp",
)
def a_plain_number_beyond_the_end() -> Any:
    return row()[4]


@gives((on("cuda:0", "int64", [[2], [3]]), "cuda:0"), source="aten/src/ATen/native/cuda/Nonzero.cu")
def nonzero_gives_numbers_on_the_gpu() -> Any:
    x = row()
    return (x > 1).nonzero(), torch.where(x > 1)[0].device


@gives((on("cuda:0", "float32", [3.0, 2.0]), on("cuda:0", "int64", [3, 2])), source="torch/_torch_docs.py: topk")
def topk_gives_values_and_numbers_on_the_gpu() -> Any:
    return tuple(torch.topk(row(), 2))


@gives([0.0, 1.0, 2.0, 3.0], source="torch/_tensor_docs.py: tolist")
def tolist_gives_plain_numbers() -> Any:
    return row().tolist()


@gives((True, 3, 2.0, [10, 20, 30][1]), source="torch/_tensor.py")
def a_gpu_number_serves_as_a_python_number() -> Any:
    index = torch.tensor(1, device="cuda")
    return bool(index), int(index + 2), float(index * 2), [10, 20, 30][index]


@gives((True, False), source="torch/_tensor.py: __contains__")
def a_value_is_found_in_a_gpu_tensor() -> Any:
    return 2.0 in row(), 9.0 in row()


@gives((True, True), source="docs/source/tensor_view.rst")
def a_slice_is_a_view_and_an_index_a_copy() -> Any:
    x = row()
    part, copied = x[1:3], x[torch.tensor([1, 2], device="cuda")]
    x.zero_()
    return part.sum().item() == 0, copied.sum().item() == 3


@gives(on("cuda:0", "float32", [[0.0, 1.0], [2.0, 3.0]]), source="docs/source/tensor_view.rst")
def a_view_keeps_the_device() -> Any:
    return row().view(2, 2)


@raises(
    RuntimeError,
    "Boolean value of Tensor with more than one value is ambiguous",
    source="aten/src/ATen/native/TensorProperties.cpp: is_nonzero",
)
def a_condition_on_many_values() -> Any:
    return bool(row() > 1)


@raises(
    RuntimeError,
    "a Tensor with 4 elements cannot be converted to Scalar",
    source="aten/src/ATen/native/Scalar.cpp: item",
)
def item_of_many_values() -> Any:
    return row().item()
