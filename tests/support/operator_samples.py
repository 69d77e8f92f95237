"""PyTorch's own operator samples (`op_db`), compared between the CPU and a virtual GPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils import _pytree as pytree

from gpututor.devices.virtual import host_tensor, is_virtual, virtual_gpu

# What they draw, or which of several right answers they give, is not the same twice.
# fmt: off
_NO_VALUES = (
    "rand", "empty", "dropout", "bernoulli", "multinomial", "normal", "uniform", "exponential", "cauchy", "geometric",
    "svd", "eig", "qr", "lu", "pca", "lobpcg", "rrelu", "alpha", "matrix_rank", "lstsq", "pinv", "householder",
    "ormqr", "cholesky",
)
# fmt: on
_STATISTICS_ON_CUDA = ("native_batch_norm", "_native_batch_norm_legit")
"""Their CUDA kernels save the running statistics too, the CPU's save none: only the first result is compared."""
_DRIVERS = (None, "gels")
"""Drivers of `linalg.lstsq` that CUDA has; the samples have all drivers of the CPU."""
_WIDER = {**dict.fromkeys((torch.float16, torch.bfloat16), torch.float32), torch.complex32: torch.complex64}


def operators(dtype: torch.dtype) -> list[Any]:
    """Return the operators that CUDA has in that dtype."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return [op for op in op_db if dtype in op.dtypesIfCUDA]


def name_of(op: Any) -> str:
    return str(op.name + ("." + op.variant_test_name if op.variant_test_name else ""))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _gradients(outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
    used = [output for output in outputs if output.requires_grad]
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    if not used or not wanted:
        return []
    dense = [output if output.layout is torch.strided else output.to_dense() for output in used]
    gradients = torch.autograd.grad([output.abs().sum() for output in dense], wanted, allow_unused=True)
    # Adding zero gives memory to gradients that have none, which a mode would have to read.
    return [
        gradient if gradient is None or gradient.layout is not torch.strided else gradient + 0 for gradient in gradients
    ]


def _roundings(expected: torch.Tensor, dtype: torch.dtype) -> dict[str, float]:
    """Return tolerances of a few roundings.

    On a device C++ takes other steps than on the CPU (mish, prod, cross entropy). A sum of many terms, such as a
    Fourier transform, is as exact as its largest term.
    """
    step = torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0
    wide = expected.detach().to_dense().to(_WIDER[expected.dtype]).abs()
    largest = wide[wide.isfinite()].amax().item() if wide.isfinite().any() else 0.0
    return {"rtol": 8 * step, "atol": step * max(largest, 0.5)}


def _compare(got: list[Any], expected: list[Any], dtype: torch.dtype, values: bool) -> None:
    assert len(got) == len(expected)
    for result, other in zip(got, expected, strict=True):
        if other is None:
            assert result is None
            continue
        assert is_virtual(result), f"a result is on {result.device}"
        assert (result.shape, result.dtype, result.layout) == (other.shape, other.dtype, other.layout)
        if values:
            tolerance: dict[str, Any] = _roundings(other, dtype) if other.dtype in _WIDER else {}
            on_host = host_tensor(result)
            if other.layout is not torch.strided:
                on_host, other = on_host.to_dense(), other.to_dense()
            torch.testing.assert_close(on_host, other.detach(), equal_nan=True, **tolerance)


def _cast(value: Any, kinds: dict[torch.dtype, torch.dtype]) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in kinds:
        return value.detach().to(kinds[value.dtype]).requires_grad_(value.requires_grad)
    return value


def results(op: Any, arguments: Any) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    given, args, kwargs = arguments
    outputs = _tensors(op(given, *args, **kwargs))
    return outputs, _gradients(outputs, _tensors(arguments))


def _on_cpu(op: Any, arguments: Any, dtype: torch.dtype) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield the CPU's results, and for halves those of single precision, rounded: CUDA does one or the other."""
    halves, computed = dtype in (torch.float16, torch.bfloat16), False
    try:
        yield results(op, arguments)
        computed = True
    except (RuntimeError, NotImplementedError) as error:
        if not halves or not ("not implemented for" in str(error) or "Unsupported dtype" in str(error)):
            raise
    if not halves:
        return
    narrower = {torch.float32: dtype, torch.complex64: torch.complex32}
    wide = pytree.tree_map(lambda leaf: _cast(leaf, _WIDER), arguments)
    try:
        outputs, gradients = results(op, wide)
    except RuntimeError:  # views beyond the end of a copy, or an argument that names the dtype
        if computed:
            return
        raise
    yield [_cast(tensor.detach(), narrower) for tensor in outputs], [_cast(tensor, narrower) for tensor in gradients]


def _moved(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to("cuda").requires_grad_(value.requires_grad)
    if isinstance(value, torch.device) or value == "cpu":
        return "cuda"
    return value


def _moved_with_storage(value: Any) -> Any:
    """Move a view with its whole storage: a plain move would carry only the elements of the view."""
    if not isinstance(value, torch.Tensor):
        return value
    whole = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage()).to("cuda")
    return whole.as_strided(value.size(), value.stride(), value.storage_offset()).requires_grad_(value.requires_grad)


def on_gpu(op: Any, arguments: Any) -> Any:
    given, args, kwargs = arguments
    if op.name == "tensor_split":
        # Its indices are read on the host, on CUDA too.
        return pytree.tree_map(_moved, given), args, kwargs
    if name_of(op) == "as_strided.partial_views":
        return pytree.tree_map(_moved_with_storage, arguments)
    return pytree.tree_map(_moved, arguments)


def _conjugated(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype.is_complex and value.layout is torch.strided:
        return value.detach().conj().requires_grad_(value.requires_grad)
    return value


def _fault(op: Any, sample: Any, dtype: torch.dtype, conjugated: bool = False) -> str:
    """Compare a sample on the virtual GPU with the CPU; return the error, or an empty text."""
    arguments = (sample.input, list(sample.args), dict(sample.kwargs))
    values = not any(word in name_of(op) for word in _NO_VALUES)
    try:
        plain = arguments
        if conjugated:
            arguments = pytree.tree_map(_conjugated, arguments)
        candidates = list(_on_cpu(op, arguments, dtype))
        with virtual_gpu(1):
            moved = on_gpu(op, plain)
            if conjugated:
                # A copy to the device has no bit: the view is made there.
                moved = pytree.tree_map(_conjugated, moved)
            got, gradients = results(op, moved)
            for expected, expected_gradients in candidates:
                end = 1 if op.name in _STATISTICS_ON_CUDA else None
                try:
                    _compare(got[:end], expected[:end], dtype, values)
                    _compare(gradients, expected_gradients, dtype, values)
                except AssertionError:
                    if expected is candidates[-1][0]:
                        raise
                else:
                    break
    except Exception as error:  # whatever it is, it is this operator's fault, and the others go on
        return f"{type(error).__name__}: {error}"
    return ""


def faults(chosen: Iterable[Any], dtype: torch.dtype, samples_each: int, conjugated: bool = False) -> dict[str, str]:
    """Return the first fault of each faulty operator by its name.

    `conjugated` gives the operators conjugate views of complex samples.
    """
    by_operator: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in chosen:
            torch.manual_seed(0)
            differentiable = op.supports_autograd and dtype in op.backward_dtypesIfCUDA
            differentiable = differentiable and (dtype.is_floating_point or dtype.is_complex)
            try:
                given = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
                on_cuda = (sample for sample in given if sample.kwargs.get("driver") in _DRIVERS)
                for sample in islice(on_cuda, samples_each):
                    fault = _fault(op, sample, dtype, conjugated)
                    if fault:
                        by_operator[name_of(op)] = fault
                        break
            except RuntimeError as error:  # of the generator of samples
                by_operator[name_of(op)] = f"no samples: {error}"
    return by_operator
