"""Fused attention's kernels: dropout, grouped heads, and the sizes that each kernel takes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import virtual_gpu
from tests.support.virtual_gpus import captured, gradient

attend: Any = torch.nn.functional.scaled_dot_product_attention
BACKEND = torch.nn.attention.SDPBackend
BACKENDS = [BACKEND.FLASH_ATTENTION, BACKEND.EFFICIENT_ATTENTION, BACKEND.CUDNN_ATTENTION]


def sized(queries: int, keys: int, features: int, values: int, **options: Any) -> list[torch.Tensor]:
    shapes = [(1, 2, queries, features), (1, 2, keys, features), (1, 2, keys, values)]
    return [torch.randn(shape, device="cuda", **options) for shape in shapes]


HALF, TRAINED = {"dtype": torch.float16}, {"dtype": torch.float16, "requires_grad": True}


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_and_grouped_heads_cost_what_the_fused_kernel_costs(backend: Any, values: bool) -> None:
    """A matrix of all pairs would take 8 MiB."""

    def costs(heads: int, **options: Any) -> tuple[int, int]:
        with virtual_gpu(1, "H200", values=values) as machine, torch.nn.attention.sdpa_kernel(backend):
            shapes = [(1, count, 1024, 16) for count in (4, heads, heads)]
            inputs = [torch.randn(shape, dtype=torch.float16, device="cuda", requires_grad=True) for shape in shapes]
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            began, size = machine.clock.host.now, torch.cuda.memory_allocated()
            attend(*inputs, **options).sum().backward()
            torch.cuda.synchronize()
            return torch.cuda.max_memory_allocated() - size, machine.clock.host.now - began

    plain = costs(4)
    dropped = costs(4, dropout_p=0.25)
    assert abs(dropped[0] - plain[0]) <= 512, "at most the memory of a seed"
    assert dropped[1] == plain[1]
    if backend is not BACKEND.EFFICIENT_ATTENTION:
        grouped = costs(2, enable_gqa=True)
        assert grouped[0] < plain[0] + 2 * 4 * 1024 * 16 * 2
        assert grouped[1] <= plain[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("causal", [False, True])
def test_dropout_hides_weights_from_the_results_and_the_gradients(backend: Any, causal: bool) -> None:
    with virtual_gpu(1, "H200"), torch.nn.attention.sdpa_kernel(backend):
        query, key = (torch.randn(4, 8, 16, 16, dtype=torch.float16, device="cuda") for _ in range(2))
        unit = torch.eye(16, dtype=torch.float16, device="cuda").expand_as(query)
        inputs = [query.requires_grad_(), key.requires_grad_(), torch.randn_like(query, requires_grad=True)]
        whole = attend(query, key, unit, is_causal=causal)
        torch.cuda.manual_seed(3)
        weights = attend(query, key, unit, dropout_p=0.25, is_causal=causal)
        torch.cuda.manual_seed(3)
        out = attend(*inputs, dropout_p=0.25, is_causal=causal)
        out.square().sum().backward()
        given, factors, got = [tensor.detach().float().cpu() for tensor in (whole, weights, out)]
        gradients = [gradient(tensor).float().cpu() for tensor in inputs]
        hosts = [tensor.detach().float().cpu().requires_grad_() for tensor in inputs]
    kept = factors != 0
    assert 0.2 < 1 - kept[given > 0].float().mean() < 0.3
    torch.testing.assert_close(factors, given * kept / 0.75, rtol=1e-2, atol=1e-3)
    scores = hosts[0] @ hosts[1].mT / 4
    if causal:
        scores = scores.masked_fill(torch.ones(16, 16).triu(1).bool(), -torch.inf)
    expected = (scores.softmax(-1) * kept / 0.75) @ hosts[2]
    torch.testing.assert_close(got, expected, rtol=1e-2, atol=1e-2)
    expected.square().sum().backward()
    for tensor, host in zip(gradients, hosts, strict=True):
        torch.testing.assert_close(tensor, gradient(host), rtol=2e-2, atol=2e-2)


def test_a_replay_draws_new_dropout_for_attention_and_its_gradients() -> None:
    with virtual_gpu(1, "A100"):
        query = torch.randn(1, 1, 16, 16, device="cuda", requires_grad=True)
        unit = torch.eye(16, device="cuda")[None, None]

        def work() -> tuple[torch.Tensor, torch.Tensor]:
            out = attend(query, query, unit, dropout_p=0.5)
            return out, torch.autograd.grad(out.square().sum(), query)[0]

        graph, (out, change) = captured(work)
        results = []
        for _ in range(2):
            graph.replay()
            results.append((out.detach().cpu(), change.cpu()))
    assert not any(torch.equal(first, second) for first, second in zip(*results, strict=True))
    assert all(change.isfinite().all() for _, change in results)


@pytest.mark.parametrize(("backend", "advance"), [(BACKENDS[0], 64), (BACKENDS[1], 1536), (BACKENDS[2], 1536)])
def test_only_dropout_advances_the_generator(backend: Any, advance: int) -> None:
    with virtual_gpu(1, "H200"), torch.nn.attention.sdpa_kernel(backend):
        inputs, generator = sized(16, 48, 16, 16, **TRAINED), torch.cuda.default_generators[0]
        offsets = []
        for dropout in (0.0, 0.5):
            before = generator.get_offset()
            attend(*inputs, dropout_p=dropout).sum().backward()
            offsets.append(generator.get_offset() - before)
    assert offsets == [0, advance]


@pytest.mark.parametrize(
    ("backend", "model", "make", "options", "words"),
    [
        (BACKENDS[0], "A100", lambda: sized(8, 16, 64, 64, **HALF), {"is_causal": True}, "seqlen_q: 8 seqlen_k: 16"),
        (BACKENDS[0], "A100", lambda: sized(8, 8, 64, 32, **HALF), {}, "same last dimension"),
        (BACKENDS[0], "RTX 4090", lambda: sized(8, 8, 224, 224, **TRAINED), {}, "training with head_dim"),
        (
            BACKENDS[0],
            "RTX 4090",
            lambda: sized(8, 8, 256, 256, **TRAINED),
            {"dropout_p": 0.1},
            "training with head_dim",
        ),
        (BACKENDS[1], "A100", lambda: sized(8, 8, 33, 33, **HALF), {}, "divisible by 8"),
        (BACKENDS[1], "A100", lambda: sized(8, 8, 64, 12, **HALF), {}, "divisible by 8"),
        (BACKENDS[1], "A100", lambda: sized(8, 8, 6, 6), {}, "divisible by 4"),
        (BACKENDS[2], "H100", lambda: sized(8, 8, 60, 60, **HALF), {}, "multiple of 8"),
        (BACKENDS[2], "H100", lambda: sized(8, 8, 64, 136, **HALF), {}, "no more than 128"),
        (BACKENDS[2], "H100", lambda: sized(8, 1, 64, 64, **HALF), {}, "sequence length 1"),
    ],
)
def test_sizes_that_a_kernel_does_not_take_are_named(
    backend: Any, model: str, make: Callable[[], list[torch.Tensor]], options: dict[str, Any], words: str
) -> None:
    with (
        virtual_gpu(1, model),
        torch.nn.attention.sdpa_kernel(backend),
        pytest.warns(UserWarning, match=words),
        pytest.raises(RuntimeError, match=r"^No available kernel"),
    ):
        attend(*make(), **options)


@pytest.mark.parametrize(
    ("backend", "model", "make", "options"),
    [
        (BACKENDS[0], "A100", lambda: sized(8, 8, 224, 224, **TRAINED), {}),
        (BACKENDS[0], "RTX 4090", lambda: sized(8, 8, 224, 224, **HALF), {}),
        (BACKENDS[0], "RTX 4090", lambda: sized(8, 8, 192, 192, **TRAINED), {"dropout_p": 0.1}),
        (BACKENDS[0], "RTX 4090", lambda: sized(8, 8, 256, 256, **TRAINED), {}),
        (BACKENDS[1], "A100", lambda: sized(8, 16, 64, 32), {"is_causal": True}),
        (BACKENDS[1], "T4", lambda: sized(8, 8, 6, 6), {}),
        (BACKENDS[2], "H100", lambda: sized(8, 16, 64, 32, **HALF), {}),
        (BACKENDS[2], "H100", lambda: sized(1, 16, 64, 64, **HALF), {}),
    ],
)
def test_sizes_that_a_kernel_takes_give_the_results_of_unfused_attention(
    backend: Any, model: str, make: Callable[[], list[torch.Tensor]], options: dict[str, Any]
) -> None:
    with virtual_gpu(1, model):
        inputs = make()
        with torch.nn.attention.sdpa_kernel(backend):
            out = attend(*inputs, **options)
        with torch.nn.attention.sdpa_kernel(BACKEND.MATH):
            expected = attend(*inputs, **options)
        assert out.shape == expected.shape
        if "dropout_p" not in options:
            torch.testing.assert_close(out, expected, rtol=1e-2, atol=1e-2)


def test_values_with_other_features_get_their_gradients() -> None:
    with virtual_gpu(1, "A100"):
        inputs, results = sized(8, 16, 64, 32, requires_grad=True), []
        for backend in (BACKEND.EFFICIENT_ATTENTION, BACKEND.MATH):
            with torch.nn.attention.sdpa_kernel(backend):
                results.append(torch.autograd.grad(attend(*inputs).square().sum(), inputs))
        for first, second in zip(*results, strict=True):
            torch.testing.assert_close(first, second)


def test_flash_attention_called_by_name_aligns_the_ends_of_both_sequences() -> None:
    with virtual_gpu(1, "A100"):
        inputs = sized(8, 16, 32, 32, **TRAINED)
        out = torch.ops.aten._scaled_dot_product_flash_attention(*inputs, 0.0, True)[0]
        expected = attend(*inputs, torch.ones(8, 16, dtype=torch.bool, device="cuda").tril(8))
        torch.testing.assert_close(out, expected, rtol=1e-2, atol=1e-2)
        gradients = [torch.autograd.grad(result.float().square().sum(), inputs) for result in (out, expected)]
        for first, second in zip(*gradients, strict=True):
            torch.testing.assert_close(first, second, rtol=2e-2, atol=2e-2)


def _runs(backend: Any, inputs: list[torch.Tensor], options: dict[str, Any]) -> bool:
    with torch.nn.attention.sdpa_kernel(backend), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            attend(*inputs, **options)
        except RuntimeError:
            return False
    return True


def _params(inputs: list[torch.Tensor], *, causal: bool = False) -> Any:
    query, key, value = inputs
    return torch.backends.cuda.SDPAParams(query, key, value, None, 0.0, causal, False)


CAN_USE = [
    torch.backends.cuda.can_use_flash_attention,
    torch.backends.cuda.can_use_efficient_attention,
    torch.backends.cuda.can_use_cudnn_attention,
]


@pytest.mark.parametrize(
    ("model", "make", "options", "expected"),
    [
        ("H100", lambda: sized(8, 8, 64, 64, **HALF), {}, [True, True, True]),
        ("T4", lambda: sized(8, 8, 64, 64, **HALF), {}, [False, True, False]),
        ("A100", lambda: sized(8, 8, 64, 64), {}, [False, True, False]),
        ("A100", lambda: sized(8, 8, 60, 60, **HALF), {}, [True, False, False]),
        ("A100", lambda: sized(8, 16, 64, 64, **HALF), {"is_causal": True}, [False, True, True]),
    ],
)
def test_pytorchs_questions_are_answered_as_the_kernel_is_chosen(
    model: str, make: Callable[[], list[torch.Tensor]], options: dict[str, Any], expected: list[bool]
) -> None:
    with virtual_gpu(1, model):
        assert torch.backends.cuda.is_flash_attention_available()
        inputs = make()
        params = _params(inputs, causal=bool(options))
        assert [can_use(params) for can_use in CAN_USE] == expected
        assert [_runs(backend, inputs, options) for backend in BACKENDS] == expected


def test_questions_about_attention_warn_why_a_kernel_cannot_run() -> None:
    with virtual_gpu(1, "A100"):
        params = _params(sized(8, 8, 64, 64))
        with pytest.warns(UserWarning, match="Expected query, key and value to all be of dtype"):
            assert not torch.backends.cuda.can_use_flash_attention(params, debug=True)
        params = _params([torch.ones(1, 1, 8, 8)] * 3)
        with pytest.warns(UserWarning, match="need to be on cuda device"):
            assert not torch.backends.cuda.can_use_efficient_attention(params, debug=True)
