"""What is in a value, without running its own code: the tensors of trees, the parts of modules."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from gpututor.wire.observed import MAX_DEPTH, MAX_NODES, ValueRefused


def tensors_in(value: object) -> dict[str, torch.Tensor]:
    """Each tensor in `value`, by path: `x`, `batch.0`, `model.weight`.

    Raises `ValueRefused` for what holds itself, or too much.
    """
    found: dict[str, torch.Tensor] = {}
    waiting: list[tuple[str, object, int]] = [("", value, 0)]
    seen = 0
    while waiting:
        path, item, depth = waiting.pop()
        seen += 1
        if seen > MAX_NODES or depth > MAX_DEPTH:
            raise ValueRefused("an argument is nested too deeply or has too many parts")
        if isinstance(item, torch.Tensor):
            found[path] = item
        waiting += [(joined(path, name), part, depth + 1) for name, part in _parts(item)]
    return found


def state_in(value: object, depth: int = 0) -> object:
    """Return what there is to see of an argument after a call: tensors, modules, optimizers as dicts, plain values.

    Everything else becomes None. Raises `ValueRefused` for a container that holds itself.
    """
    if depth > MAX_DEPTH:
        raise ValueRefused("an argument is nested too deeply")
    match value:
        case torch.Tensor() | torch.nn.Module():
            return value
        case torch.optim.Optimizer():
            return _optimizer_state(value, depth)
        case dict():
            return {key: state_in(part, depth + 1) for key, part in dict.items(value)}
        case list():
            return [state_in(part, depth + 1) for part in list.__iter__(value)]
        case tuple():
            return tuple(state_in(part, depth + 1) for part in tuple.__iter__(value))
    return value if type(value) in (bool, int, float, str) else None


def _optimizer_state(optimizer: torch.optim.Optimizer, depth: int) -> dict[str, object]:
    """Return `state` by the number of each parameter, as in a state dict, and `groups` without their parameters."""
    groups = vars(optimizer)["param_groups"]
    parameters = [parameter for group in groups for parameter in group["params"]]
    known = vars(optimizer)["state"]
    state = {number: known[parameter] for number, parameter in enumerate(parameters) if parameter in known}
    kept = [{key: part for key, part in group.items() if key != "params"} for group in groups]
    return {"state": state_in(state, depth + 1), "groups": state_in(kept, depth + 1)}


def _parts(item: object) -> Iterator[tuple[str, object]]:
    """What a container holds, by name; of a module its parameters and buffers."""
    match item:
        case torch.nn.Module():
            parts = parts_of(item)
            yield from state_of(parts, "_parameters")
            yield from state_of(parts, "_buffers")
        case dict():
            yield from ((str(key), part) for key, part in dict.items(item))
        case list():
            yield from ((str(index), part) for index, part in enumerate(list.__iter__(item)))
        case tuple():
            yield from ((str(index), part) for index, part in enumerate(tuple.__iter__(item)))


def parts_of(module: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """What `module.named_modules(remove_duplicate=False)` gives: that method may have been replaced.

    Raises `ValueRefused` for a module that holds itself, or too many.
    """
    parts: list[tuple[str, torch.nn.Module]] = []
    waiting: list[tuple[str, torch.nn.Module]] = [("", module)]
    while waiting:
        path, part = waiting.pop()
        parts.append((path, part))
        if len(parts) > MAX_NODES or path.count(".") > MAX_DEPTH:
            raise ValueRefused("the result is a module that is nested too deeply or has too many parts")
        children = reversed(list(dict.items(vars(part)["_modules"])))
        waiting += [(joined(path, name), child) for name, child in children if child is not None]
    return parts


def state_of(parts: list[tuple[str, torch.nn.Module]], kind: str) -> Iterator[tuple[str, torch.Tensor]]:
    """`_parameters` or `_buffers` of all parts, by their whole names."""
    for path, part in parts:
        for name, tensor in dict.items(vars(part)[kind]):
            if tensor is not None:
                yield joined(path, name), tensor


def joined(path: str, name: str) -> str:
    """The path of what is called `name` there."""
    return f"{path}.{name}" if path else name
