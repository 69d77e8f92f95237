"""Stand-ins for what is not built: each use says so, by name; `refuses` tells which call that is."""

from __future__ import annotations

from typing import Any

from gpututor.devices.virtual import errors


def refused(call: str) -> Any:
    """A class whose every use says that `call` is not supported; it can be named in annotations and isinstance."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise errors.unsupported(call)

    body = {"__new__": refuse, "__init__": refuse, "__module__": "torch.cuda", "refuses": call}
    return type(call.rsplit(".", 1)[-1], (), body)


def refused_function(call: str) -> Any:
    """A function that says that `call` is not supported."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise errors.unsupported(call)

    refuse.refuses = call  # type: ignore[attr-defined]
    return refuse
