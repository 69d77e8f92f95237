"""Patches: replacing names of torch and Python while a virtual GPU is open."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from gpututor.devices.virtual import options, torch_private
from gpututor.devices.virtual.api.unsupported import refused_function, unsupported_stub
from gpututor.devices.virtual.tensors import serialization


@dataclass(frozen=True)
class Patch:
    """One attribute that is replaced."""

    owner: str
    """The dotted name of a module or class."""
    name: str
    replacement: Any
    why: str

    def owner_object(self) -> Any:
        # By its module's name first: torch.optim deletes its own attribute `optimizer`.
        found: Any = sys.modules.get(self.owner)
        if found is not None:
            return found
        found = sys.modules[self.owner.split(".")[0]]
        with options.lookups_in_words():
            for part in self.owner.split(".")[1:]:
                found = getattr(found, part)
        return found

    def has_owner(self) -> bool:
        """Whether this torch has what is to be patched."""
        try:
            self.owner_object()
        except options.TorchNotSupported:
            return False
        return True


_ABSENT = object()


@contextmanager
def apply_patches(table: Sequence[Patch]) -> Iterator[None]:
    """Every patch of `table`, and torch's list of storage loaders, for the time of the block."""
    loader = (serialization.PRIORITY, serialization.location_of, serialization.place)
    with original_of(table):
        try:
            torch_private.storage_loaders.insert(0, loader)
            torch_private.set_only_lift_cpu_tensors(True)
            yield
        finally:
            torch_private.set_only_lift_cpu_tensors(False)
            if loader in torch_private.storage_loaders:
                torch_private.storage_loaders.remove(loader)


@contextmanager
def original_of(table: Sequence[Patch]) -> Iterator[None]:
    """Every patch of `table` for the time of the block."""
    undo: list[tuple[Any, str, Any]] = []
    try:
        for patch in table:
            owner = patch.owner_object()
            before = vars(owner).get(patch.name, _ABSENT)
            undo.append((owner, patch.name, before))
            if isinstance(patch.replacement, FunctionType) and hasattr(before, "__wrapped__"):
                # torch._dynamo, where it is imported while this stands in, looks below torch's own decorators.
                patch.replacement.__wrapped__ = before.__wrapped__  # type: ignore[attr-defined]
            setattr(owner, patch.name, patch.replacement)
        yield
    finally:
        for owner, name, before in reversed(undo):
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


def patch_all(owner: str, why: str, **replacements: Any) -> list[Patch]:
    """One row for each replaced name of `owner`."""
    return [Patch(owner, name, replacement, why) for name, replacement in replacements.items()]


_NOT_BUILT = "not built: says so instead of failing somewhere inside torch"


def refuse_classes(owner: str, *names: str) -> list[Patch]:
    """Rows for classes that say that they are not supported."""
    return _possible([Patch(owner, name, unsupported_stub(owner + "." + name), _NOT_BUILT) for name in names])


def refuse(owner: str, *names: str) -> list[Patch]:
    """Rows for functions that say that they are not supported."""
    return _possible([Patch(owner, name, refused_function(owner + "." + name), _NOT_BUILT) for name in names])


def _possible(rows: list[Patch]) -> list[Patch]:
    """Those that this torch has a place for: an older one needs no refusal of what came later."""
    return [row for row in rows if row.has_owner()]
