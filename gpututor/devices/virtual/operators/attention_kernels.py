"""The values of fused attention: what CUDA's operators return, computed on the CPU.

The CPU's own fused kernel has no dropout, and wants values as long as queries. For other calls, all scores of one
sequence at a time are computed here, in the host's memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from gpututor.devices.virtual import torch_private

aten = torch.ops.aten
_on_cpu: Any = aten._scaled_dot_product_flash_attention_for_cpu.default._op
_backward_on_cpu: Any = aten._scaled_dot_product_flash_attention_for_cpu_backward.default._op


def _seed(query: Any) -> Any:
    """Return memory for a seed of dropout, or for its offset, which the CPU's generator does not have."""
    return query.new_empty((), dtype=torch.int64)


def _for_each_head(query: Any, tensor: Any) -> Any:
    """Return keys or values with as many heads as the query has."""
    groups = query.shape[1] // tensor.shape[1]
    return tensor if groups == 1 else tensor.repeat_interleave(groups, 1)


def _of_each_group(grad: Any, tensor: Any) -> Any:
    """Return the gradient of keys or values, given a gradient for each head of the query."""
    heads = tensor.shape[1]
    return grad if grad.shape[1] == heads else grad.unflatten(1, (heads, -1)).sum(2)


def _cpu_has_kernel(query: Any, value: Any, dropout: float) -> bool:
    return not dropout and bool(query.shape[3] == value.shape[3])


def _scale(query: Any, scale: float | None) -> float:
    return float(query.shape[3] ** -0.5) if scale is None else scale


def _scores(
    query: Any, key: Any, mask: Any, dropout: float, causal: bool, scale: float | None, seed: Any
) -> Iterator[tuple[Any, Any]]:
    """Yield the masked scores (heads, L, S) of each sequence, and the factors of its dropout, by the seed.

    Yields nothing for tensors without values.
    """
    if query.is_meta:
        return
    generator = torch_private.Generator("cpu")
    if dropout:
        generator.manual_seed(int(seed.view(torch.int64).flatten()[0]))
    for item in range(len(query)):
        scores = query[item].float() @ key[item].float().mT * _scale(query, scale)
        if mask is not None:
            scores += mask.expand(*query.shape[:2], *scores.shape[1:])[item]
        if causal:
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu_(1), -torch.inf)
        if not dropout:
            yield scores, 1.0
            continue
        kept = torch.empty_like(scores).bernoulli_(1 - dropout, generator=generator)
        yield scores, kept / (1 - dropout) if dropout < 1 else kept


def _forward(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: float | None, seed: Any
) -> tuple[Any, Any]:
    """Return the results and the logarithms of the sums; draw the seed of dropout."""
    key, value = _for_each_head(query, key), _for_each_head(query, value)
    if _cpu_has_kernel(query, value, dropout):
        out, sums = _on_cpu(query, key, value, 0.0, causal, attn_mask=mask, scale=scale)
        return out, sums
    if dropout and not query.is_meta:
        seed.view(torch.int64).random_()
    same = query.shape[3] == value.shape[3]
    out = torch.empty_like(query) if same else query.new_empty((*query.shape[:3], value.shape[3]))
    sums = query.new_empty(query.shape[:3], dtype=torch.float32)
    for item, (scores, factors) in enumerate(_scores(query, key, mask, dropout, causal, scale, seed)):
        out[item].copy_(aten._safe_softmax(scores, -1) * factors @ value[item].float())
        sums[item].copy_(scores.logsumexp(-1))
    return out, sums


def _gradient_of(tensor: Any) -> Any:
    """Return memory for a gradient, in the order (batch, length, heads, features), as the CPU's kernel returns it."""
    return torch.empty_like(tensor.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)


def _backward(
    tensors: Any,
    mask: Any,
    dropout: float,
    causal: bool,
    scale: float | None,
    seed: Any,
    of_mask: Any = None,
) -> tuple[Any, Any, Any]:
    """Return the gradients of query, key and value; write that of the mask to `of_mask`.

    `tensors` are grad, query, key, value and the forward results.
    """
    grad, query, key, value, out, sums = tensors
    keys, values = _for_each_head(query, key), _for_each_head(query, value)
    if _cpu_has_kernel(query, value, dropout) and of_mask is None:
        results = _backward_on_cpu(grad, query, keys, values, out, sums, 0.0, causal, attn_mask=mask, scale=scale)
    else:
        results = [_gradient_of(tensor) for tensor in (query, keys, values)]
        for item, (scores, factors) in enumerate(_scores(query, keys, mask, dropout, causal, scale, seed)):
            one_query, one_key, one_value, one_grad = (x[item].float() for x in (query, keys, values, grad))
            weights = aten._safe_softmax(scores, -1)
            of_scores = weights * (one_grad @ one_value.mT * factors)
            of_scores -= weights * of_scores.sum(-1, keepdim=True)
            if of_mask is not None:
                of_mask[item].copy_(of_scores)
            of_scores *= _scale(query, scale)
            results[0][item].copy_(of_scores @ one_key)
            results[1][item].copy_(of_scores.mT @ one_query)
            results[2][item].copy_((weights * factors).mT @ one_grad)
    return results[0], _of_each_group(results[1], key), _of_each_group(results[2], value)


def _lower_right(query: Any, key: Any, causal: bool) -> Any:
    """Return the mask of a causal call of flash attention whose lengths differ: it aligns the ends of both."""
    lengths = query.shape[2], key.shape[2]
    if not causal or lengths[0] == lengths[1]:
        return None
    return query.new_full(lengths, -torch.inf).triu_(lengths[1] - lengths[0] + 1)


def _flash(
    query: Any,
    key: Any,
    value: Any,
    dropout: float = 0.0,
    causal: bool = False,
    debug: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    state, mask = query.new_empty((2,), dtype=torch.uint64), _lower_right(query, key, causal)
    out, sums = _forward(query, key, value, mask, dropout, causal and mask is None, scale, state)
    nothing = query.new_empty((0,))
    return out, sums, nothing, nothing, query.shape[2], key.shape[2], state, _seed(query), nothing


def _flash_backward(*args: Any, scale: float | None = None) -> tuple[Any, ...]:
    dropout, causal, seed = args[10:13]
    mask = _lower_right(args[1], args[2], causal)
    return _backward(args[:6], mask, dropout, causal and mask is None, scale, seed)


def _efficient(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    saves: bool,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    nothing = query.new_empty((0,))
    seed = _seed(query) if dropout else nothing
    out, sums = _forward(query, key, value, mask, dropout, causal, scale, seed)
    # The kernel writes (batch, length, heads, features), whatever the layout of the query (attention.cu).
    return out.transpose(1, 2).contiguous().transpose(1, 2), sums if saves else nothing, seed, query.new_empty((0,))


def _efficient_backward(*args: Any, scale: float | None = None) -> tuple[Any, ...]:
    grad, query, key, value, mask, out, sums, seed, _, dropout = args[:10]
    wanted = args[10]
    causal = args[11] if len(args) > 11 else False
    of_mask = mask.new_empty((*query.shape[:3], key.shape[2])) if wanted[3] else None
    return *_backward((grad, query, key, value, out, sums), mask, dropout, causal, scale, seed, of_mask), of_mask


def _cudnn(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    saves: bool,
    dropout: float = 0.0,
    causal: bool = False,
    debug: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    seed = _seed(query)
    out, sums = _forward(query, key, value, mask, dropout, causal, scale, seed)
    empty = [query.new_empty((0,)) for _ in range(4)]
    lengths = query.shape[2], key.shape[2]
    return out, sums if saves else empty[0], *empty[1:3], *lengths, seed, _seed(query), empty[3]


DEVICE_CALLS: dict[Any, Any] = {
    aten._scaled_dot_product_flash_attention.default: _flash,
    aten._scaled_dot_product_flash_attention_backward.default: _flash_backward,
    aten._scaled_dot_product_efficient_attention.default: _efficient,
    aten._scaled_dot_product_efficient_attention_backward.default: _efficient_backward,
    aten._scaled_dot_product_cudnn_attention.default: _cudnn,
    aten._scaled_dot_product_cudnn_attention_backward.default: lambda *args, scale=None: _backward(
        args[:6], args[8], args[13], args[14], scale, args[6]
    ),
}
"""Functions that compute CUDA's operators on the CPU."""
