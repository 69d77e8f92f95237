"""Makes Dynamo capture frames for the virtual GPU while one is on, whenever Dynamo is imported.

Dynamo and Inductor take seconds to import: nothing here imports them before a program does. Dynamo cuts the tracebacks
that it shows at files whose names contain "convert_frame", as its own file's does.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from gpututor.devices.virtual.execution.host_work import not_counted
from gpututor.devices.virtual.machine import is_on

_MODULE = "torch._dynamo.convert_frame"
_RULES = "torch._dynamo.trace_rules"


@contextmanager
def watch_dynamo() -> Iterator[None]:
    """Capture frames for the virtual GPU inside the block."""
    finder = _Finder()
    module = sys.modules.get(_MODULE)
    if module is None:
        sys.meta_path.insert(0, finder)
    else:
        finder.change(module)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        finder.undo()


class _Finder(importlib.abc.MetaPathFinder):
    """Replaces Dynamo's callback for frames as soon as its module is imported."""

    def __init__(self) -> None:
        self._class: Any = None
        self._real: Any = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def change(self, module: Any) -> None:
        self._class = module.CatchErrorsWrapper
        self._real = self._class.__call__
        self._class.__call__ = _capturing(self._real)
        _forget_rules()

    def undo(self) -> None:
        if self._class is not None:
            self._class.__call__ = self._real
            _forget_rules()


def _capturing(real: Any) -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_on():
            return real(self, *args, **kwargs)
        from torch._dynamo.types import ConvertFrameReturn

        with not_counted():
            try:
                from gpututor.devices.virtual.compiler.inductor import capturing  # imports Inductor
            except (ImportError, AttributeError) as error:  # another version of PyTorch: see `pt2_private`
                warnings.warn(f"torch.compile runs eagerly on the virtual GPU. {error}", stacklevel=2)
                return ConvertFrameReturn()
            with capturing():
                return real(self, *args, **kwargs)

    return call


def _forget_rules() -> None:
    """Make Dynamo look up torch's functions again: it knows them by identity, and many are replaced now."""
    rules = getattr(sys.modules.get(_RULES), "get_torch_obj_rule_map", None)
    if rules is not None:
        rules.cache_clear()
