"""Calls that could crash a process, as functions of a device; the CPU gives the right answer."""

from __future__ import annotations

import copy
import ctypes
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import torch as typed_torch

torch: Any = typed_torch
"""Untyped: these calls are wrong on purpose."""
nn = torch.nn
aten = torch.ops.aten
CALLS: dict[str, Callable[[str], Any]] = {}


def call(function: Callable[[str], Any]) -> Callable[[str], Any]:
    """Add a function to the list, by its name."""
    CALLS[function.__name__] = function
    return function


def calls(prefix: str, **functions: Callable[[str], Any]) -> None:
    CALLS.update({f"{prefix}_{name}": function for name, function in functions.items()})


def ones(device: str, *sizes: int) -> Any:
    return torch.ones(*(sizes or (2, 3)), device=device)


def leaf(device: str, *sizes: int) -> Any:
    return torch.ones(*(sizes or (2, 3)), device=device, requires_grad=True)


calls(
    "views",
    as_strided_beyond=lambda d: ones(d).as_strided((100, 100), (100, 1)),
    as_strided_negative=lambda d: ones(d).as_strided((2,), (-1,)),
    as_strided_offset=lambda d: ones(d).as_strided((2,), (1,), 1000),
    as_strided_in_place=lambda d: ones(d).as_strided_((50,), (1,)),
    resize_larger=lambda d: ones(d).resize_(4).shape,
    resize_view=lambda d: ones(d)[0].resize_(100).shape,
    resize_needs_grad=lambda d: leaf(d).resize_(100),
    resize_as=lambda d: ones(d).resize_as_(torch.ones(1)).shape,
    set_empty=lambda d: ones(d).set_(),
    set_tensor=lambda d: ones(d).set_(ones(d, 4)),
    set_cpu_tensor=lambda d: ones(d).set_(torch.ones(4)) if d == "cuda" else None,
    set_into_cpu=lambda d: torch.ones(4).set_(ones(d)) if d == "cuda" else None,
    set_storage=lambda d: ones(d).set_(ones(d, 4).untyped_storage()),
    set_cpu_storage=lambda d: ones("cuda").set_(torch.ones(4).untyped_storage()),
    set_beyond=lambda d: ones(d).set_(ones(d), 0, (1000,), (1,)).shape,
    cpu_set_storage=lambda d: torch.ones(1).set_(ones(d, 4).untyped_storage()) if d == "cuda" else None,
    unfold_large=lambda d: ones(d).unfold(0, 9, 1),
    expand_wrong=lambda d: ones(d).expand(5, 5),
    view_wrong=lambda d: ones(d).view(7),
    view_dtype=lambda d: ones(d).view(torch.int32),
    view_as_complex=lambda d: torch.view_as_complex(ones(d, 3, 2)),
    transpose_in_place=lambda d: ones(d).t_().add_(1),
    squeeze_in_place=lambda d: ones(d, 1, 2).squeeze_().mul_(2),
    storage_resize=lambda d: len(ones(d).untyped_storage().resize_(0)),
    storage_fill=lambda d: ones(d).untyped_storage().fill_(0) and None,
    storage_share=lambda d: ones(d).untyped_storage()._share_filename_cpu_() and None,
    storage_ctor=lambda d: torch.UntypedStorage(4, device=d) and None,
    storage_typed=lambda d: torch.FloatStorage(4) and None,
    storage_cuda_class=lambda d: torch.cuda.FloatStorage(4) and None,
    swap=lambda d: torch.utils.swap_tensors(ones(d), ones(d)),
    swap_across=lambda d: torch.utils.swap_tensors(ones(d), torch.ones(2)),
    make_subclass=lambda d: torch.Tensor._make_subclass(torch.Tensor, ones(d)),
    make_wrapper=lambda d: torch.Tensor._make_wrapper_subclass(nn.Parameter, (2,), device=d) and None,
    wrapper_class=lambda d: type(ones(d))(ones(d)),
    wrapper_new=lambda d: type(ones(d)).__new__(type(ones(d)), 3),
    parameter_of_parameter=lambda d: nn.Parameter(nn.Parameter(ones(d))),
    buffer=lambda d: nn.Buffer(ones(d)),
)

calls(
    "data",
    to_device=lambda d: _assign_data(torch.ones(2), ones(d, 2)),
    to_cpu=lambda d: _assign_data(ones(d, 2), torch.ones(2)),
    other_shape=lambda d: _assign_data(ones(d, 2), ones(d, 5)),
    other_dtype=lambda d: _assign_data(ones(d, 2), ones(d, 2).half()),
    with_grad=lambda d: _assign_data(_with_grad(d), torch.ones(2)),
    not_tensor=lambda d: _assign_data(ones(d), 3),
    grad_shape=lambda d: setattr(leaf(d), "grad", ones(d, 5)),
    grad_dtype=lambda d: setattr(leaf(d), "grad", ones(d).half()),
    grad_device=lambda d: setattr(leaf(d), "grad", torch.ones(2, 3)) if d == "cuda" else None,
    grad_number=lambda d: setattr(leaf(d), "grad", 3),
    delete=lambda d: delattr(ones(d), "data"),
    detach_in_place=lambda d: leaf(d).mul(2).detach_(),
    requires_grad_int=lambda d: torch.ones(2, dtype=torch.int64, device=d).requires_grad_(),
    conj_in_place=lambda d: torch.ones(2, dtype=torch.complex64, device=d).conj().add_(1j),
    neg_view=lambda d: torch._neg_view(ones(d)),
    imag=lambda d: torch.ones(2, dtype=torch.complex64, device=d).imag,
)


def _assign_data(tensor: Any, value: Any) -> Any:
    tensor.data = value
    return tensor.tolist()


def _with_grad(device: str) -> Any:
    x = leaf(device, 2)
    x.sum().backward()
    return x


calls(
    "numpy",
    numpy=lambda d: np.asarray(ones(d).numpy()).tolist(),
    forced=lambda d: ones(d).numpy(force=True).tolist(),
    asarray=lambda d: np.asarray(ones(d)).tolist(),
    interface=lambda d: ones(d).__array_interface__ and None,
    cuda_interface=lambda d: ones(d).__cuda_array_interface__ and None,
    from_interface=lambda d: torch.as_tensor(_Pretender(), device=d),
    ufunc=lambda d: np.sin(ones(d)).tolist(),
    index=lambda d: np.arange(9)[torch.tensor(3, device=d)].tolist(),
    index_by=lambda d: ones(d)[np.array([0, 1])],
    of_object_array=lambda d: torch.tensor(np.array([object()]), device=d),
    frombuffer=lambda d: torch.frombuffer(bytearray(8), dtype=torch.float32).to(d),
    buffer_protocol=lambda d: memoryview(ones(d)) and None,
    dlpack=lambda d: np.from_dlpack(ones(d)).tolist(),
    to_dlpack=lambda d: torch.to_dlpack(ones(d)) and None,
    dlpack_device=lambda d: ones(d).__dlpack_device__() and None,
    dlpack_raw=lambda d: torch._C._to_dlpack(ones(d)) and None,
    dlpack_versioned=lambda d: torch._C._to_dlpack_versioned(ones(d)) and None,
    pointer=lambda d: ctypes.c_void_p(ones(d).data_ptr()) and None,
)


class _Pretender:
    """An object that claims GPU memory at address 0."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (2,), "typestr": "<f4", "data": (0, False), "version": 3}


calls(
    "pickle",
    tensor=lambda d: pickle.loads(pickle.dumps(ones(d))),
    kind=lambda d: pickle.loads(pickle.dumps(type(ones(d)))).__name__,
    module=lambda d: pickle.loads(pickle.dumps(nn.Linear(1, 1, device=d))).weight.shape,
    not_a_leaf=lambda d: pickle.loads(pickle.dumps(leaf(d) * 2)),
    generator=lambda d: pickle.loads(pickle.dumps(torch.Generator(d))).device.type == d,
    deep_storage=lambda d: copy.deepcopy(ones(d).untyped_storage()) and None,
    deep_not_a_leaf=lambda d: copy.deepcopy(leaf(d) * 2),
    shallow=lambda d: copy.copy(ones(d)),
    deep_twice=lambda d: [copied.tolist() for copied in copy.deepcopy([ones(d)] * 2)],
    half_made=lambda d: object.__reduce_ex__(ones(d), 2) and None,
    setstate=lambda d: ones(d).__setstate__((ones(d).untyped_storage(), 0, (2,), (1,))),
    rebuild=lambda d: torch._utils._rebuild_tensor_v2(ones(d, 4).untyped_storage(), 0, (2,), (1,), False, {}),
    rebuild_meta=lambda d: torch._utils._rebuild_meta_tensor_no_storage(torch.float32, (2,), (1,), False).shape,
)

calls(
    "aten",
    add_mixed=lambda d: aten.add.Tensor(ones(d), torch.ones(2, 3)) if d == "cuda" else None,
    add_none=lambda d: aten.add.Tensor(ones(d), None),
    mm_out=lambda d: aten.mm.out(ones(d), ones(d, 3, 2), out=torch.ones(1)) if d == "cuda" else None,
    cat_empty=lambda d: aten.cat([ones(d), torch.empty(0, device=d)]),
    cat_mixed=lambda d: aten.cat([ones(d), torch.ones(2, 3)]) if d == "cuda" else None,
    index_far=lambda d: aten.index.Tensor(ones(d), [torch.tensor([99], device=d)]),
    gather_far=lambda d: ones(d).gather(0, torch.full((1, 1), 99, device=d)),
    scatter_far=lambda d: ones(d).scatter(0, torch.full((1, 1), 99, device=d), 1.0),
    embedding_far=lambda d: aten.embedding(ones(d), torch.tensor([99], device=d)),
    nll_far=lambda d: nn.functional.nll_loss(ones(d), torch.tensor([9, 9], device=d)),
    take_far=lambda d: ones(d).take(torch.tensor([99], device=d)),
    index_select_far=lambda d: ones(d).index_select(0, torch.tensor([99], device=d)),
    put_far=lambda d: ones(d).put_(torch.tensor([99], device=d), ones(d, 1)),
    bincount_negative=lambda d: torch.bincount(torch.tensor([-1], device=d)),
    one_hot_far=lambda d: nn.functional.one_hot(torch.tensor([9], device=d), 3),
    multinomial_zero=lambda d: torch.multinomial(torch.zeros(3, device=d), 1),
    local_scalar=lambda d: aten._local_scalar_dense(ones(d)),
    to_copy=lambda d: aten._to_copy(ones(d), device=torch.device(d), dtype=torch.float64),
    to_copy_meta=lambda d: aten._to_copy(ones(d), device=torch.device("meta")).shape,
    zero_tensor=lambda d: aten._efficientzerotensor([2], device=torch.device(d)).add(1),
    empty_device=lambda d: aten.empty.memory_format([2], device=torch.device(d)).shape,
    lift=lambda d: aten.lift_fresh(ones(d)),
    alias=lambda d: aten.alias(ones(d)),
    reshape_alias=lambda d: aten._reshape_alias(ones(d), [3, 2], [2, 1]),
    record_stream=lambda d: ones(d).record_stream(None) if d == "cuda" else None,
    pin=lambda d: aten._pin_memory(ones(d)) and None,
    sparse_unsafe=lambda d: aten._sparse_coo_tensor_unsafe(torch.zeros(1, 1, dtype=torch.int64), ones(d, 1), [1]),
    nested=lambda d: aten._nested_tensor_from_tensor_list([ones(d)]) and None,
    cudnn=lambda d: aten.cudnn_convolution(
        ones(d, 1, 1, 2, 2), ones(d, 1, 1, 1, 1), [0], [1], [1], 1, False, False, False
    ),
    flash=lambda d: aten._scaled_dot_product_flash_attention(*[ones(d, 1, 1, 2, 8)] * 3)[0].shape,
    efficient=lambda d: aten._scaled_dot_product_efficient_attention(*[ones(d, 1, 1, 2, 8)] * 3, None, False)[0].shape,
    mkldnn=lambda d: ones(d).to_mkldnn().to_dense(),
    quantised=lambda d: torch.quantize_per_tensor(ones(d), 1.0, 0, torch.qint8).dequantize(),
    fake_quantised=lambda d: torch.fake_quantize_per_tensor_affine(ones(d), 0.1, 0, 0, 255),
    named=lambda d: torch.ones(2, 3, names=("a", "b"), device=d).sum("a").names,
    renamed=lambda d: ones(d).refine_names("a", "b").align_to("b", "a").shape,
    special_float=lambda d: ones(d).to(torch.float8_e4m3fn).float(),
    complex_half=lambda d: torch.ones(2, dtype=torch.complex32, device=d).shape,
    bits=lambda d: torch.empty(2, dtype=torch.bits8, device=d).shape,
    undefined=lambda d: torch._C._functions.UndefinedGrad()(ones(d)),
)
