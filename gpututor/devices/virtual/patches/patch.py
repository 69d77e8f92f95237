"""Patches: replace names of torch and Python while a virtual GPU is on."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import FunctionType
from typing import Any

from gpututor.devices.virtual import options, torch_private
from gpututor.devices.virtual.api.unsupported import unsupported_stub
from gpututor.devices.virtual.cuda_errors import refused_function
from gpututor.devices.virtual.tensors import serialization


@dataclass(frozen=True)
class Patch:
    """A row of the table: an attribute that is replaced."""

    owner: str
    """The dotted name of a module or class."""
    name: str
    replacement: Any
    why: str

    def owner_object(self) -> Any:
        # Looked up in `sys.modules` first: torch.optim deletes its own attribute `optimizer`.
        owner: Any = sys.modules.get(self.owner)
        if owner is None:
            package, *parts = self.owner.split(".")
            with options.explain_missing_names():
                owner = reduce(getattr, parts, sys.modules[package])
        return owner

    def is_in_torch(self) -> bool:
        try:
            return hasattr(self.owner_object(), self.name)
        except options.TorchNotSupported:
            return False


_ABSENT = object()


@contextmanager
def apply_patches(table: Sequence[Patch]) -> Iterator[None]:
    """Apply every patch of `table`, and change torch's list of storage loaders, inside the block."""
    loader = (serialization.PRIORITY, serialization.location_of, serialization.place)
    with patched(table):
        try:
            torch_private.storage_loaders.insert(0, loader)
            torch_private.set_only_lift_cpu_tensors(True)
            yield
        finally:
            torch_private.set_only_lift_cpu_tensors(False)
            if loader in torch_private.storage_loaders:
                torch_private.storage_loaders.remove(loader)


@contextmanager
def patched(table: Sequence[Patch]) -> Iterator[None]:
    """Replace the names of `table` inside the block."""
    undo: list[tuple[Any, str, Any]] = []
    try:
        for patch in table:
            owner = patch.owner_object()
            before = vars(owner).get(patch.name, _ABSENT)
            undo.append((owner, patch.name, before))
            if isinstance(patch.replacement, FunctionType) and hasattr(before, "__wrapped__"):
                # If torch._dynamo is imported during the block, it unwraps torch's own decorators.
                patch.replacement.__wrapped__ = before.__wrapped__  # type: ignore[attr-defined]
            setattr(owner, patch.name, patch.replacement)
        yield
    finally:
        for owner, name, before in reversed(undo):
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


def patch_all(owners: str | tuple[str, ...], why: str, **replacements: Any) -> list[Patch]:
    """Return a row for each replaced name of each owner."""
    if isinstance(owners, str):
        owners = (owners,)
    return [Patch(owner, name, new, why) for owner in owners for name, new in replacements.items()]


def unsupported_calls() -> Iterator[Patch]:
    """Yield a patch for each name of `unsupported.toml` that this version of torch has."""
    with Path(__file__).with_name("unsupported.toml").open("rb") as file:
        table = tomllib.load(file)
    why = "unsupported: the error names the call, instead of coming from somewhere inside torch"
    for calls in table["calls"]:
        for kind, stub in (("functions", refused_function), ("classes", unsupported_stub)):
            for owner, names in calls.get(kind, {}).items():
                for name in names.split():
                    patch = Patch(owner, name, stub(f"{owner}.{name}", calls["instead"]), why)
                    if patch.is_in_torch():
                        yield patch
