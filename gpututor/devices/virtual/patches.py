"""Changes torch while the virtual GPU is on, and undoes all of it when it goes off; `patch_table` says what."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from gpututor.devices.virtual import private, versions
from gpututor.devices.virtual.saving import serialisation


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
        with versions.lookups_in_words():
            for part in self.owner.split(".")[1:]:
                found = getattr(found, part)
        return found

    def has_owner(self) -> bool:
        """Whether this torch has what is to be patched."""
        try:
            self.owner_object()
        except versions.TorchNotSupported:
            return False
        return True


_ABSENT = object()


@contextmanager
def applied(table: Sequence[Patch]) -> Iterator[None]:
    """Every patch of `table`, and torch's list of storage loaders, for the time of the block."""
    loader = (serialisation.PRIORITY, serialisation.location_of, serialisation.place)
    with replaced(table):
        try:
            private.storage_loaders.insert(0, loader)
            private.set_only_lift_cpu_tensors(True)
            yield
        finally:
            private.set_only_lift_cpu_tensors(False)
            if loader in private.storage_loaders:
                private.storage_loaders.remove(loader)


@contextmanager
def replaced(table: Sequence[Patch]) -> Iterator[None]:
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
