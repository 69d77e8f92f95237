"""A finder that calls a function after a module's import, shared by the hooks of torch, Dynamo and Triton.

Imports no torch.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class AfterImport(MetaPathFinder):
    """Finder that calls `call(module)` after the first import of the module `name` that succeeds."""

    def __init__(self, name: str, call: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._call = call
        self._is_searching = False

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            loader, execute = spec.loader, spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                loader.exec_module = execute  # type: ignore[method-assign]
                execute(module)
                self.remove()
                self._call(module)

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
