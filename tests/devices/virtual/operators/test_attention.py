"""`scaled_dot_product_attention` is a fused kernel if CUDA has a matching one, otherwise several kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import virtual_gpu
from gpututor.trace.events import Kind
from tests.support.virtual_gpus import gradient, names_of, traced

attend: Any = torch.nn.functional.scaled_dot_product_attention
BACKEND = torch.nn.attention.SDPBackend
BACKENDS = [BACKEND.FLASH_ATTENTION, BACKEND.EFFICIENT_ATTENTION, BACKEND.CUDNN_ATTENTION, BACKEND.MATH]
SHAPE = (2, 4, 24, 16)
FLASH, EFFICIENT, CUDNN = (f"aten::_scaled_dot_product_{name}_attention" for name in ("flash", "efficient", "cudnn"))


def heads(dtype: torch.dtype = torch.float32, **options: Any) -> list[torch.Tensor]:
    return [torch.randn(SHAPE, dtype=dtype, device="cuda", **options) for _ in range(3)]


def kernels(program: Callable[[], object], model: str = "A100") -> list[str]:
    return names_of(traced(program, model), Kind.KERNEL)


def mask_of(kind: str) -> torch.Tensor | None:
    allowed = torch.ones(SHAPE[2], SHAPE[2], dtype=torch.bool, device="cuda").tril()
    if kind == "none":
        return None
    return allowed if kind == "bool" else torch.randn(2, 1, 1, SHAPE[2], device="cuda")


def _assert_as_on_the_cpu(
    inputs: list[torch.Tensor], mask: torch.Tensor | None = None, *, causal: bool, backends: Any = BACKENDS
) -> None:
    with torch.nn.attention.sdpa_kernel(backends):
        out = attend(*inputs, mask, is_causal=causal)
        out.square().sum().backward()
    hosts = [tensor.detach().cpu().requires_grad_() for tensor in inputs]
    expected = attend(*hosts, None if mask is None else mask.cpu(), is_causal=causal)
    expected.square().sum().backward()
    torch.testing.assert_close(out.cpu(), expected)
    for tensor, host in zip(inputs, hosts, strict=True):
        torch.testing.assert_close(gradient(tensor).cpu(), host.grad)


@pytest.mark.parametrize(("kind", "causal"), [("none", False), ("none", True), ("bool", False), ("float", False)])
def test_values_and_gradients_are_the_cpus(kind: str, causal: bool) -> None:
    with virtual_gpu():
        inputs, mask = heads(requires_grad=True), mask_of(kind)
        _assert_as_on_the_cpu(inputs, mask, causal=causal)


@pytest.mark.parametrize(
    ("model", "dtype", "expected"),
    [
        ("A100", torch.float32, EFFICIENT),
        ("A100", torch.float16, FLASH),
        ("T4", torch.float16, EFFICIENT),
        ("H200", torch.float32, EFFICIENT),
        ("H200", torch.bfloat16, CUDNN),
    ],
)
def test_fused_attention_is_a_single_operator_each_way(model: str, dtype: torch.dtype, expected: str) -> None:
    result = kernels(lambda: attend(*heads(dtype, requires_grad=True)).sum().backward(), model)
    assert [item for item in result if "attention" in item] == [expected, f"{expected}_backward"]
    assert not any(item in ("aten::bmm", "aten::_softmax") for item in result)


def test_autocast_applies_before_fused_attention() -> None:
    def program() -> None:
        with torch.autocast("cuda", dtype=torch.float16):
            assert attend(*heads()).dtype is torch.float16

    assert FLASH in kernels(program)


def with_a_differentiable_mask() -> None:
    attend(*heads(), torch.randn(SHAPE[2], SHAPE[2], device="cuda", requires_grad=True))


def with_the_math_backend() -> None:
    with torch.nn.attention.sdpa_kernel(BACKEND.MATH):
        attend(*heads())


@pytest.mark.parametrize(
    "program",
    [
        lambda: attend(*heads(), dropout_p=0.5),
        lambda: torch.func.vmap(attend)(*heads()),
        with_a_differentiable_mask,
        with_the_math_backend,
    ],
)
def test_unfusable_calls_run_as_several_kernels(program: Callable[[], object]) -> None:
    assert not {FLASH, EFFICIENT, CUDNN} & set(kernels(program))


def test_half_precision_is_faster_and_stores_no_score_matrix() -> None:
    def seconds(dtype: torch.dtype) -> tuple[int, int]:
        with virtual_gpu(1, "H100", values=False) as machine:
            inputs = [torch.randn(2, 16, 4096, 128, dtype=dtype, device="cuda") for _ in range(3)]
            torch.cuda.synchronize()
            began, size = machine.clock.host.now, torch.cuda.memory_allocated()
            attend(*inputs)
            torch.cuda.synchronize()
            return machine.clock.host.now - began, torch.cuda.max_memory_allocated() - size

    (slow, _), (quick, extra) = seconds(torch.float32), seconds(torch.float16)
    assert slow > 4 * quick
    assert extra < 2 * 16 * 4096 * 4096, "the matrix of all pairs would take more"


@pytest.mark.parametrize(
    ("backend", "model", "dtype"),
    [
        (BACKEND.FLASH_ATTENTION, "A100", torch.float32),
        (BACKEND.FLASH_ATTENTION, "T4", torch.float16),
        (BACKEND.CUDNN_ATTENTION, "T4", torch.float16),
        (BACKEND.EFFICIENT_ATTENTION, "A100", torch.float64),
        (BACKEND.EFFICIENT_ATTENTION, "T4", torch.bfloat16),
    ],
)
def test_a_backend_that_cannot_run_raises_cudas_error_with_its_reasons(
    backend: Any, model: str, dtype: torch.dtype
) -> None:
    with (
        virtual_gpu(1, model),
        torch.nn.attention.sdpa_kernel(backend),
        pytest.warns(UserWarning, match="not used because"),
        pytest.raises(RuntimeError, match=r"^No available kernel"),
    ):
        attend(*heads(dtype))


def test_flash_attention_takes_no_mask() -> None:
    with (
        virtual_gpu(1, "A100"),
        torch.nn.attention.sdpa_kernel(BACKEND.FLASH_ATTENTION),
        pytest.warns(UserWarning, match="non-null"),
        pytest.raises(RuntimeError),
    ):
        attend(*heads(torch.float16), attn_mask=mask_of("bool"))


@pytest.mark.parametrize(
    ("backend", "model", "dtype"),
    [
        (BACKEND.FLASH_ATTENTION, "A100", torch.bfloat16),
        (BACKEND.EFFICIENT_ATTENTION, "T4", torch.float32),
        (BACKEND.CUDNN_ATTENTION, "H100", torch.float16),
        (BACKEND.MATH, "T4", torch.float64),
    ],
)
def test_a_backend_that_can_run_does(backend: Any, model: str, dtype: torch.dtype) -> None:
    with virtual_gpu(1, model), torch.nn.attention.sdpa_kernel(backend):
        assert attend(*heads(dtype)).shape == SHAPE


def test_flash_attention_takes_fewer_heads_of_keys() -> None:
    with virtual_gpu(1, "A100"), torch.nn.attention.sdpa_kernel(BACKEND.FLASH_ATTENTION):
        query, key, value = heads(torch.float16)
        grouped = attend(query, key[:, :2], value[:, :2], enable_gqa=True)
        each = [tensor[:, :2].repeat_interleave(2, 1) for tensor in (key, value)]
        torch.testing.assert_close(grouped, attend(query, *each), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS[:3])
@pytest.mark.parametrize("causal", [False, True])
def test_each_backend_gives_the_cpus_values_and_gradients(backend: Any, causal: bool) -> None:
    with virtual_gpu(1, "H200"):
        _assert_as_on_the_cpu(heads(torch.bfloat16, requires_grad=True), causal=causal, backends=backend)


def test_a_causal_mask_saves_time() -> None:
    times = []
    with virtual_gpu(1, "H200", values=False):
        inputs = [torch.empty(8, 16, 4096, 64, dtype=torch.float16, device="cuda") for _ in range(3)]
        for causal in (False, True):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            attend(*inputs, is_causal=causal)
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
    assert 0.5 < times[1] / times[0] < 0.65
