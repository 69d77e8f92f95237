"""Operators with a CUDA kernel that the CPU lacks, or whose kernel returns something else on the CPU.

`composites()` replaces C++ functions that choose a kernel by device, because C++ does not see a virtual tensor's GPU.
Each choice follows the function of the same name in aten/src/ATen/native. `DEVICE_CALLS` compute the results of CUDA's
kernels on the CPU. An H200 returned the same shapes, strides and values
(tests/devices/virtual/operators/test_like_a_real_gpu.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import cpp_device
from gpututor.devices.virtual.operator_registry import Rule
from gpututor.devices.virtual.operators import recurrent
from gpututor.devices.virtual.operators.fallbacks import wrong_scalar_type
from gpututor.devices.virtual.tensors.tensor import VirtualTensor, is_on_gpu

aten = torch.ops.aten
Tensor = torch.Tensor
Call = Callable[..., Any]
_CUDNN_FLOATS = (torch.float32, torch.float64)
_ROWS_AT_MOST = {(True, True): 131070, (True, False): 262136, (False, True): 880801, (False, False): 65535}
"""The largest batch that cuDNN's batch norm takes: of rows or of images, in training or not."""


def _dropout(tensor: Tensor, p: float, train: bool) -> Any:
    """Fuse dropout if `is_fused_kernel_acceptable` of Dropout.cpp allows it.

    Feature, alpha and in-place dropout are several kernels on CUDA too.
    """
    if train and 0 < p < 1 and is_on_gpu(tensor) and tensor.numel():
        return aten.native_dropout.default(tensor, p, train)[0]
    return torch_private.run_composite(aten.dropout.default, tensor, p, train)


def _batch_norm(input: Tensor, *rest: Any) -> Any:
    """Choose cuDNN's kernel where `_select_batch_norm_backend` of Normalization.cpp does.

    `rest`: weight, bias, running mean, running variance, training, momentum, eps, cudnn_enabled.
    """
    *parts, training, momentum, eps, cudnn_enabled = rest
    if type(input) is VirtualTensor and cudnn_enabled and _cudnn_norm_takes(input, parts, training):
        return aten.cudnn_batch_norm.default(input, *parts, training, momentum, eps)[0]
    return torch_private.run_composite(aten.batch_norm.default, input, *rest)


def _cudnn_norm_takes(input: Tensor, parts: list[Tensor | None], training: bool) -> bool:
    weight, bias, mean, variance = parts
    if not torch.backends.cudnn.enabled or weight is None or bias is None or input.dim() < 2 or not input.numel():
        return False
    if (mean is None) is not (variance is None) or (mean is None and not training):
        return False
    if any(part is not None and part.shape != (input.shape[1],) for part in parts):
        return False  # the composite raises PyTorch's error
    halved = input.dtype is torch.float16 and weight.dtype is torch.float32
    if not (halved or (input.dtype in _CUDNN_FLOATS and weight.dtype is input.dtype)):
        return False
    return input.shape[0] <= _ROWS_AT_MOST[input.dim() == 2, training] and input.numel() < 2**31 - 1


def _grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """Choose cuDNN's kernel where `cond_cudnn_grid_sampler` of GridSamplerUtils.h does."""
    takes = all(
        type(tensor) is VirtualTensor
        and tensor.dtype in (*_CUDNN_FLOATS, torch.float16)
        and 0 < tensor.numel() < 2**31
        and tensor.dim() == 4
        for tensor in (input, grid)
    )
    bilinear = interpolation_mode == 0 and padding_mode == 0 and align_corners
    same = takes and input.dtype is grid.dtype and input.shape[0] == grid.shape[0] and grid.shape[3] == 2
    if same and bilinear and input.shape[1] <= 1024 and torch.backends.cudnn.enabled:
        return aten.cudnn_grid_sampler.default(input, grid)
    return torch_private.run_composite(
        aten.grid_sampler.default, input, grid, interpolation_mode, padding_mode, align_corners
    )


def _one_hot(tensor: Tensor, num_classes: int = -1) -> Any:
    """Write ones into zeros, as `one_hot` of Onehot.cpp does for a tensor on a GPU."""
    if type(tensor) is not VirtualTensor or tensor.dtype is not torch.int64:
        return torch_private.run_composite(aten.one_hot.default, tensor, num_classes)
    if not tensor.numel():
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return tensor.new_empty((*tensor.shape, num_classes))
    if num_classes == -1:
        num_classes = int(tensor.max().item()) + 1
    if num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    device = cpp_device(tensor._device)
    hot: Tensor = aten.zeros.default([*tensor.shape, num_classes], dtype=torch.int64, device=device)
    return hot.scatter_(-1, tensor.unsqueeze(-1), 1)


_COMPOSITES: dict[Any, Call] = {
    aten.dropout.default: _dropout,
    aten.batch_norm.default: _batch_norm,
    aten.grid_sampler.default: _grid_sampler,
    aten.one_hot.default: _one_hot,
    **recurrent.composites(),
}


@contextmanager
def composites() -> Iterator[None]:
    """Register the functions above autograd inside the block, for every caller of these operators."""
    library = torch.library.Library("aten", "IMPL")
    for operator, function in _COMPOSITES.items():
        library.impl(operator, function, torch_private.AUTOGRAD_KEY)
    # With its own kernel, autograd differentiates the operator as a whole, as on CUDA.
    torch_private.give_kernel(library, _RMS_NORM, partial(torch_private.run_composite, _RMS_NORM))
    try:
        yield
    finally:
        library._destroy()


def composite_rules() -> dict[Any, Rule]:
    """Return rules for inference mode, in which the dispatch mode sees these operators first."""
    functions = {**_COMPOSITES, aten._cudnn_rnn_flatten_weight.default: recurrent.flatten_weights}
    return {operator: _without_autograd(function) for operator, function in functions.items()}


def _without_autograd(function: Call) -> Rule:
    def rule(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from gpututor.devices.virtual.operators.dispatch import DeviceMode

        with DeviceMode():
            return function(*args, **kwargs)

    return rule


_RMS_NORM: Any = aten._fused_rms_norm.default


def _rms_norm_backward(
    grad: Tensor, input: Tensor, shape: list[int], rstd: Tensor, weight: Tensor | None, mask: list[bool]
) -> Any:
    """Return the gradients of input and weight (layer_norm_kernel.cu)."""
    wide = rstd.dtype
    dims = tuple(range(-len(shape), 0))
    normal = input.to(wide) * rstd
    slope = grad.to(wide)
    scaled = slope if weight is None else slope * weight.to(wide)
    by_input = rstd * (scaled - normal * (scaled * normal).mean(dims, keepdim=True))
    by_weight = None
    if weight is not None and mask[1]:
        by_weight = (slope * normal).sum_to_size(weight.shape).to(weight.dtype).contiguous()
    return by_input.to(input.dtype).contiguous() if mask[0] else None, by_weight


def _cudnn_norm(input: Tensor, weight: Tensor, *rest: Any) -> Any:
    out, *saved = aten.native_batch_norm.default(input, weight, *rest)
    *_, training, _, _ = rest
    if not training:
        saved = [weight.new_empty((0,)), weight.new_empty((0,))]
    return out, *(part.to(weight.dtype) for part in saved), torch.empty((0,), dtype=torch.uint8, device=input.device)


def _cudnn_norm_backward(input: Tensor, grad: Tensor, *rest: Any) -> Any:
    *parts, eps, _ = rest
    return aten.native_batch_norm_backward.default(grad, input, *parts, True, eps, [True, True, True])


def _native_norm(func: Any) -> Call:
    def call(input: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, *rest: float) -> Any:
        """Save the running statistics too, as `batch_norm_cuda_out` of Normalization.cu does."""
        out, *saved = func(input, weight, bias, mean, variance, training, *rest)
        if training:
            return out, *saved
        return out, mean.clone(), (variance + rest[-1]).rsqrt()

    return call


def _log_sigmoid(tensor: Tensor) -> Any:
    """Keep no buffer for the backward pass (Activation.cpp)."""
    out, _ = aten.log_sigmoid_forward.default(tensor)
    return out, tensor.new_empty((0,))


def _log_sigmoid_backward(grad: Tensor, tensor: Tensor, buffer: Tensor) -> Any:
    return aten.log_sigmoid_backward.default(grad, tensor, aten.log_sigmoid_forward.default(tensor)[1])


def _nonzero(tensor: Tensor) -> Any:
    """Return the indices in column-major order, even if there are none (Nonzero.cu)."""
    places = aten.nonzero.default(tensor)
    return places if places.numel() else places.new_empty(places.shape[::-1]).t()


def _nansum(tensor: Tensor, dim: list[int] | None = None, keepdim: bool = False, **options: Any) -> Any:
    """Sum complex numbers too, which the CPU's kernel refuses (ReduceSumProdKernel.cu)."""
    into = "out" in options
    if not tensor.is_complex():
        return (aten.nansum.out if into else aten.nansum.default)(tensor, dim, keepdim, **options)
    call = aten.sum.IntList_out if into else aten.sum.dim_IntList
    return call(tensor.masked_fill(tensor.isnan(), 0), dim, keepdim, **options)


def _histc(tensor: Tensor, bins: int = 100, min: float = 0, max: float = 0, **options: Any) -> Any:
    """Count integers too, with the arithmetic of their dtype, which the CPU's kernel refuses (SummaryOps.cu)."""
    if tensor.is_floating_point():
        return (aten.histc.out if options else aten.histc.default)(tensor, bins, min, max, **options)
    low, high = int(min), int(max)
    if low == high and tensor.numel() and tensor.device.type != "meta":
        low, high = int(tensor.min()), int(tensor.max())
    if low == high:
        low, high = low - 1, high + 1
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    if low >= high or low < torch.iinfo(tensor.dtype).min:
        raise RuntimeError("max must be larger than min")
    counts = tensor.new_zeros(bins)
    if tensor.device.type != "meta":
        counted = tensor[(tensor >= low) & (tensor <= high)].long()
        places = ((counted - low) * bins // (high - low)).clamp(max=bins - 1)
        counts.index_add_(0, places, counts.new_ones(places.shape))
    return options["out"].resize_(bins).copy_(counts) if options else counts


def _eig(tensor: Tensor) -> Any:
    """Return eigenvectors in row-major order, as cuSOLVER's Xgeev does."""
    values, vectors = aten.linalg_eig.default(tensor)
    return values, vectors.contiguous()


def _svd(
    matrix: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None, **out: Tensor
) -> Any:
    """Ignore cuSOLVER's driver, and return `Vh` in row-major order (`_linalg_svd` in BatchLinearAlgebra.cpp)."""
    if driver not in (None, "gesvd", "gesvdj", "gesvda"):
        raise RuntimeError(f"torch.linalg.svd: unknown svd driver {driver} in svd_cusolver computation.")
    if out:
        return aten._linalg_svd.U(matrix, full_matrices, compute_uv, **out)
    left, values, right = aten._linalg_svd.default(matrix, full_matrices, compute_uv)
    return left, values, right.contiguous()


def _lstsq(left: Tensor, right: Tensor, rcond: float | None = None, *, driver: str | None = None, **out: Tensor) -> Any:
    """Solve with `gels`, the only driver on CUDA: it computes no rank, and does not notice a deficient one."""
    if driver not in (None, "gels"):
        raise RuntimeError("torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA")
    call = aten.linalg_lstsq.out if out else aten.linalg_lstsq.default
    try:
        return call(left, right, rcond, driver="gels", **out)
    except RuntimeError as error:
        if "full rank" not in str(error) or out or left.shape[-2] < left.shape[-1]:
            raise
    factor, upper = torch.linalg.qr(left)
    is_vector = right.dim() == left.dim() - 1
    columns = right.unsqueeze(-1) if is_vector else right
    solution = torch.linalg.solve_triangular(upper, factor.mH @ columns, upper=True)
    residuals = (left @ solution - columns).abs().square().sum(-2)
    if is_vector:
        solution, residuals = solution.squeeze(-1), residuals.squeeze(-1)
    residuals = residuals if left.shape[-2] > left.shape[-1] else left.new_empty((0,), dtype=residuals.dtype)
    return solution, residuals, left.new_empty((0,), dtype=torch.int64), residuals.new_empty((0,))


def _pivoted(func: Any) -> Call:
    def call(matrix: Tensor, *, pivot: bool = True, **options: Any) -> Any:
        if not pivot:
            raise cuda_errors.unsupported("an LU decomposition with pivot=False", "Use pivot=True.")
        return func(matrix, pivot=True, **options)

    return call


def _int_product(left: Tensor, right: Tensor, **out: Tensor) -> Any:
    """Check the sizes that cuBLAS takes (`_int_mm_out_cuda` in Blas.cpp)."""
    rows, inner, columns = left.shape[0], left.shape[-1], right.shape[-1]
    if left.dim() == right.dim() == 2:
        if rows <= 16:
            raise RuntimeError(f"self.size(0) needs to be greater than 16, but got {rows}")
        if not inner or inner % 8:
            raise RuntimeError(f"self.size(1) needs to be greater than 0 and a multiple of 8, but got {inner}")
        if inner == right.shape[0] and (not columns or columns % 8):
            raise RuntimeError(f"mat2.size(1) needs to be greater than 0 and a multiple of 8, but got {columns}")
    return (aten._int_mm.out if out else aten._int_mm.default)(left, right, **out)


def _of_one_dtype(func: Any) -> Call:
    def call(input: Tensor, *args: Any) -> Any:
        """Reject parameters of another dtype than the input's (layer_norm_kernel.cu, group_norm_kernel.cu)."""
        for value in args:
            if isinstance(value, Tensor) and value.dtype is not input.dtype:
                raise wrong_scalar_type(input.dtype, value.dtype)
        return func(input, *args)

    return call


def _scaled_product(
    left: Tensor,
    right: Tensor,
    scale_left: Tensor,
    scale_right: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Any:
    """Clamp results to the largest number of an 8-bit dtype, as cuBLAS does; the CPU returns NaN."""
    dtype = left.dtype if out_dtype is None else out_dtype
    narrow = dtype.is_floating_point and dtype.itemsize == 1
    product = aten._scaled_mm.default(
        left, right, scale_left, scale_right, bias, scale_result, torch.float32 if narrow else dtype, use_fast_accum
    )
    if not narrow:
        return product
    limit = torch.finfo(dtype).max
    return product.clamp(-limit, limit).to(dtype)


DEVICE_CALLS: dict[Any, Call] = {
    aten._scaled_mm.default: _scaled_product,
    aten._fused_rms_norm_backward.default: _rms_norm_backward,
    aten.cudnn_batch_norm.default: _cudnn_norm,
    aten.cudnn_batch_norm_backward.default: _cudnn_norm_backward,
    aten.cudnn_grid_sampler.default: lambda input, grid: aten.grid_sampler_2d.default(input, grid, 0, 0, True),
    aten.cudnn_grid_sampler_backward.default: lambda input, grid, grad: aten.grid_sampler_2d_backward.default(
        grad, input, grid, 0, 0, True, [True, True]
    ),
    **dict.fromkeys((aten.histc.default, aten.histc.out), _histc),
    aten.linalg_eig.default: _eig,
    **dict.fromkeys((aten._linalg_svd.default, aten._linalg_svd.U), _svd),
    **dict.fromkeys((aten.linalg_lstsq.default, aten.linalg_lstsq.out), _lstsq),
    **{func: _pivoted(func) for func in (aten.linalg_lu.default, aten.linalg_lu_factor_ex.default)},
    **dict.fromkeys((aten._int_mm.default, aten._int_mm.out), _int_product),
    **{func: _of_one_dtype(func) for func in (aten.native_layer_norm.default, aten.native_group_norm.default)},
    aten.log_sigmoid_backward.default: _log_sigmoid_backward,
    aten.log_sigmoid_forward.default: _log_sigmoid,
    **dict.fromkeys((aten.nansum.default, aten.nansum.out), _nansum),
    aten.nonzero.default: _nonzero,
    **{func: _native_norm(func) for func in (aten.native_batch_norm.default, aten._native_batch_norm_legit.default)},
}
"""Functions that compute, on the CPU, what CUDA's kernels return."""
