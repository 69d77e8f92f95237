"""Averages: NCCL has them, gloo has not, so gloo sums and the sum is divided."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.virtual import private
from gpututor.devices.virtual.parallel import lending
from gpututor.devices.virtual.private import process_groups


class _Caught(Exception):
    pass


class _Catching(TorchDispatchMode):
    """Keeps the reduction that an operator is called with, in the form in which operators take it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reduction: Any = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.reduction = args[2]
        raise _Caught


_known: dict[str, Any] = {}


def summing() -> Any:
    """`ReduceOp.SUM`, as the operators of `c10d` take it."""
    if "sum" not in _known:
        catching = _Catching()
        try:
            with catching:
                process_groups.group_of_none().allreduce([torch.empty(1)])
        except _Caught:
            _known["sum"] = catching.reduction
    return _known["sum"]


def is_average(reduction: Any) -> bool:
    """Whether a reduction, as the operators of `c10d` take it, is `ReduceOp.AVG`: gloo says so when it is asked."""
    if "alone" not in _known:
        _known["alone"] = process_groups.lonely_group()
    try:
        with private.host_only(), private.function_modes_aside():
            value = torch.zeros(1)
            work = torch.ops.c10d.allreduce_([value], _known["alone"].boxed(), reduction, None)[1]
            lending.lend([value])
            process_groups.CollectiveWork.unbox(work).wait()
    except (RuntimeError, ValueError) as error:
        return "ReduceOp.AVG" in str(error)
    return False


class Dividing:
    """Called when a sum has arrived."""

    def __init__(self, hosts: list[torch.Tensor], count: int) -> None:
        self._hosts = hosts
        self._count = count

    def __call__(self) -> None:
        with private.host_only():
            for host in self._hosts:
                if host.is_floating_point() or host.is_complex():
                    host.div_(self._count)
                else:
                    host.div_(self._count, rounding_mode="trunc")
