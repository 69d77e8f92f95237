"""Which versions of torch the virtual GPU was tested with, and words for all others. Imports no torch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpututor.errors import TutorError

OLDEST, NEWEST = "2.9", "2.13"
"""Tried with these and with every version between them; docs/virtual-gpu.md has the outcomes."""


class UntestedTorch(UserWarning):
    """This torch is older or newer than those that the virtual GPU was tested with."""


class TorchNotSupported(TutorError):
    """This torch lacks something that the virtual GPU is built on."""


def warn_of(version: str) -> None:
    """Warns `UntestedTorch` for a version, such as `2.14.1+cpu`, outside the tested range."""
    if not _numbers(OLDEST) <= _numbers(version) <= _numbers(NEWEST):
        words = f"gpututor's virtual GPU was tested with torch {OLDEST} to {NEWEST}, and this is torch {version}."
        warnings.warn(f"{words} It may do something else than CUDA there.", UntestedTorch, stacklevel=4)


@contextmanager
def lookups_in_words() -> Iterator[None]:
    """A name that this torch does not have becomes `TorchNotSupported`, which says its name."""
    try:
        yield
    except AttributeError as error:
        lacks: Any = error.obj
        where = f"{lacks.__module__}.{lacks.__name__}" if isinstance(lacks, type) else getattr(lacks, "__name__", "")
        if not where.startswith("torch"):
            raise
        raise lacking(f"{where}.{error.name}") from error
    except ImportError as error:
        if not (error.name or "").startswith("torch."):
            raise
        raise lacking(f"{error.name}: {error.msg}") from error


def lacking(name: str) -> TorchNotSupported:
    """This torch has no `name`."""
    import torch

    return TorchNotSupported(
        f"torch {torch.__version__} has no {name}, which the virtual GPU needs.",
        f"It was tested with torch {OLDEST} to {NEWEST}: install one of those.",
    )


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int("".join(digit for digit in minor if digit.isdigit()) or 0)
