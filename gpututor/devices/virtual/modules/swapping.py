"""One tensor object becomes another: how parameters turn virtual in place."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import private


def swap_tensors(kept: torch.Tensor, other: torch.Tensor) -> None:
    """`kept` becomes what `other` was, and the other way round.

    `torch.utils.swap_tensors` refuses when a graph still holds the tensor, such as a convolution's weight after use.
    """
    _refuse_later_backward(kept)
    kept.__class__, other.__class__ = other.__class__, kept.__class__
    kept.__dict__, other.__dict__ = other.__dict__, kept.__dict__
    private.swap_tensor_impl(kept, other)


def _refuse_later_backward(tensor: torch.Tensor) -> None:
    """A graph made before would give its gradient to the tensor that is thrown away, without a word."""
    if tensor.requires_grad and tensor.is_leaf and not tensor.is_inference():
        # The node is found by a view, which has none in inference mode; sparse tensors have no views at all.
        with torch.inference_mode(False), torch.enable_grad():
            if tensor.layout is torch.strided:
                node: Any = torch.autograd.graph.get_gradient_edge(tensor).node
            else:
                node = (tensor * 1).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
            node.register_prehook(_moved_in_between)


def _moved_in_between(*gradients: Any) -> None:
    raise RuntimeError(
        "A parameter was moved to another device, or its dtype was changed, between the forward pass and backward(): "
        "the gradient has nowhere to go. Call .to(), .cuda(), .half() and the like before the forward pass."
    )
