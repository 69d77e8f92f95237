"""Makes Dynamo capture frames for the active virtual GPU, even if the program imports Dynamo later.

Dynamo and Inductor take seconds to import, so nothing here imports them before the program does. This file is named
after Dynamo's own: Dynamo cuts its tracebacks at files whose names contain "convert_frame".
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from gpututor.devices.virtual.after_import import AfterImport
from gpututor.devices.virtual.execution.host_work import not_counted
from gpututor.devices.virtual.machine import is_on

_MODULE = "torch._dynamo.convert_frame"
_RULES = "torch._dynamo.trace_rules"


@contextmanager
def watch_dynamo() -> Iterator[None]:
    """Capture frames for the virtual GPU inside the block."""
    with ExitStack() as undo:

        def change(module: Any) -> None:
            callback = module.CatchErrorsWrapper
            undo.callback(_forget_rules)
            undo.callback(setattr, callback, "__call__", callback.__call__)
            callback.__call__ = _capturing(callback.__call__)
            _forget_rules()

        finder = AfterImport(_MODULE, change)
        undo.callback(finder.remove)
        if _MODULE in sys.modules:
            change(sys.modules[_MODULE])
        else:
            finder.install()
        yield


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
    """Clear Dynamo's cache of torch's functions, which it identifies by `id`: patches have replaced many of them."""
    rules = getattr(sys.modules.get(_RULES), "get_torch_obj_rule_map", None)
    if rules is not None:
        rules.cache_clear()
