"""Gradients of compiled code: one node of autograd for each graph, as with AOTAutograd.

The node hides the operators that compute the graph's values from autograd. But autograd must know which tensors share
memory. So outside the node, results that are views of arguments or of other results are created again as views. Writes
to arguments are repeated there.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from gpututor.devices.virtual import torch_private


class Graph(Protocol):
    """A graph whose results and gradients can be computed."""

    def numbers(self, args: Sequence[Any]) -> dict[Any, int]: ...

    def forward(self, args: Sequence[Any], numbers: dict[Any, int]) -> Any: ...

    def backward(
        self, outputs: Any, inputs: Any, gradients: Any, keep: bool, numbers: dict[Any, int], owners: Sequence[Any]
    ) -> Any:
        """Return the gradients of `inputs`; `owners` are the program's tensors that get these gradients."""
        ...


def needs_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def differentiable(graph: Graph, args: Sequence[Any], written: Sequence[int]) -> Any:
    """Return the results of a graph, with one autograd node. The graph writes to the arguments at `written`."""
    call = _Call(graph, args, written)
    made = CompiledFunction.apply(call, *args)  # type: ignore[no-untyped-call]
    for position, value in zip(written, made, strict=False):
        args[position].copy_(value)
    return call.results(args, made)


class _Call:
    """A call of a graph. Creates the results outside of the node from the tensors inside it."""

    def __init__(self, graph: Graph, args: Sequence[Any], written: Sequence[int]) -> None:
        self.graph = graph
        self.numbers = graph.numbers(args)
        self.owners = [weakref.ref(value) for value in args if needs_gradient(value)]
        """The arguments that need gradients, outside of the node."""
        self.leaves = [value.detach().requires_grad_() if needs_gradient(value) else None for value in args]
        self.made: list[Any] = []
        """The node's results inside it: arguments that were written to, then the base tensors of other results."""
        self._written = written
        self._inner = [value if leaf is None else leaf for value, leaf in zip(args, self.leaves, strict=True)]
        self._results: list[tuple[Any, Any]] = []
        """(result, base): the base is the result itself if it is no view, and None if the result is returned as is."""
        self._structure: Any = None

    def run(self) -> None:
        with torch.enable_grad():
            for position in self._written:
                self._inner[position] = self._inner[position].clone()
            out = self.graph.forward(self._inner, self.numbers)
        results, self._structure = torch_private.tree_flatten(out)
        self.made = [self._inner[position] for position in self._written]
        views = Counter(id(_base(result)) for result in results if isinstance(result, torch.Tensor))
        inner = {id(value) for value in self._inner}
        untouched = {
            id(tensor)
            for position, value in enumerate(self._inner)
            if self.leaves[position] is None and position not in self._written and isinstance(value, torch.Tensor)
            for tensor in (value, _base(value))
        }
        for result in results:
            base = _base(result) if isinstance(result, torch.Tensor) else None
            if base is None or id(base) in untouched:
                self._results.append((result, None))
                continue
            if views[id(base)] == 1 and id(base) not in inner:
                base = result
            self._results.append((result, base))
            if id(base) not in inner and not any(base is known for known in self.made):
                self.made.append(base)

    def results(self, args: Sequence[Any], made: Sequence[Any]) -> Any:
        """Return the results outside of the node, given the arguments and what the node made."""
        outside = {id(inner): arg for inner, arg in zip(self._inner, args, strict=True)}
        of_results = slice(len(self._written), None)
        outside |= {id(inner): value for inner, value in zip(self.made[of_results], made[of_results], strict=True)}
        results = []
        for result, base in self._results:
            if base is None:
                results.append(result)
                continue
            value = outside[id(base)]
            if base is not result:
                # A view made without autograd passes no gradient, although its `requires_grad` is True.
                made_without = result.requires_grad and result.grad_fn is None
                with torch.set_grad_enabled(not made_without):
                    value = torch_private.view_again(result, value)
            if value.requires_grad and not result.requires_grad:
                value = value.detach()
            results.append(value)
        return torch_private.tree_unflatten(results, self._structure)


def _base(tensor: Any) -> Any:
    """Return the base of a view, or the tensor itself."""
    return tensor if tensor._base is None else tensor._base


class CompiledFunction(torch.autograd.Function):
    """Node of autograd for a compiled graph, of the same name as AOTAutograd's."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *args: Any) -> Any:
        """Return the arguments that were written to, and the base tensors of the other results."""
        call.run()
        ctx.call = call
        ctx.results = [tensor if tensor.requires_grad else None for tensor in call.made]
        outer = [tensor.detach() for tensor in call.made]
        constant = [tensor for tensor, result in zip(outer, ctx.results, strict=True) if result is None]
        ctx.mark_non_differentiable(*constant)
        ctx.set_materialize_grads(False)
        return tuple(outer)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")
        leaves = ctx.call.leaves
        pairs = [
            (result, gradient)
            for result, gradient in zip(ctx.results, gradients, strict=True)
            if result is not None and gradient is not None
        ]
        if not pairs:
            return None, *[None] * len(leaves)
        results, given = zip(*pairs, strict=True)
        inputs = [leaf for leaf in leaves if leaf is not None]
        numbers, keep = ctx.call.numbers, torch_private.keeps_graph()
        owners = [owner() for owner in ctx.call.owners]
        slopes = iter(ctx.call.graph.backward(results, inputs, given, keep, numbers, owners))
        return None, *[None if leaf is None else next(slopes) for leaf in leaves]
