"""`torch.use_deterministic_algorithms`: an error or a warning for operators without a deterministic CUDA kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from gpututor.devices.virtual.cuda_errors import warn_at_caller
from gpututor.devices.virtual.operator_facts import short_name, tables

_ISSUES = "file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic"
_SUBJECT = "{caller} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True"
_ERROR = (
    _SUBJECT
    + ")'. You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, if"
    f" that's acceptable for your application. You can also {_ISSUES} support for this operation."
)
_WARNING = _SUBJECT + f", warn_only=True)'. You can {_ISSUES} support for this operation."
"""The words of at::Context::alertNotDeterministic."""

_RAISES = re.compile(r"`(?:~?[\w.]+\.)?(\w+)`")
_MAX = 2
"""The mode of an EmbeddingBag that takes the largest row."""
Call = tuple[Sequence[Any], Mapping[str, Any]]


def _argument(call: Call, position: int, name: str) -> Any:
    args, kwargs = call
    return args[position] if len(args) > position else kwargs.get(name)


_ONLY_IF: dict[str, Callable[[Call], bool]] = {
    "_embedding_bag_backward": lambda call: _argument(call, 8, "mode") == _MAX and not _argument(call, 9, "sparse"),
    "_embedding_bag_dense_backward": lambda call: _argument(call, 7, "mode") == _MAX,
    "bincount": lambda call: _argument(call, 1, "weights") is not None,
    "median": lambda call: len(call[0]) > 1,
    "nanmedian": lambda call: len(call[0]) > 1,
    "nll_loss2d_forward": lambda call: _argument(call, 3, "reduction") != 0,
    "put": lambda call: bool(_argument(call, 3, "accumulate")),
    "scatter_reduce": lambda call: _argument(call, 4, "reduce") == "prod",
}
"""Tests for calls that are nondeterministic; for operators without a test, all calls are."""


def documented() -> frozenset[str]:
    """Return the names that the installed PyTorch's documentation lists as raising an error."""
    _, _, rest = str(torch.use_deterministic_algorithms.__doc__).partition("`RuntimeError` when ``mode=True``:")
    raising, _, _ = rest.partition("In addition")
    modes = re.findall(r"``(\w+)``", raising)
    return frozenset(_RAISES.findall(raising)) | frozenset(modes)


_LISTED = documented()
_CALLERS = {name: caller for name, (caller, listed) in tables()["nondeterministic"].items() if listed in _LISTED}


def check(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise CUDA's error, or warn, if determinism is on and CUDA has no deterministic kernel for this call."""
    name = short_name(func._schema.name)
    caller = _CALLERS.get(name)
    if caller is None or not torch.are_deterministic_algorithms_enabled():
        return
    if name in _ONLY_IF and not _ONLY_IF[name]((args, kwargs)):
        return
    if not torch.is_deterministic_algorithms_warn_only_enabled():
        raise RuntimeError(_ERROR.format(caller=caller))
    warn_at_caller(_WARNING.format(caller=caller))


@contextmanager
def unchecked() -> Iterator[None]:
    """Switch determinism off in the block, which infers shapes: meta kernels would raise or warn a second time."""
    if not torch.are_deterministic_algorithms_enabled():
        yield
        return
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(True, warn_only=warns)
