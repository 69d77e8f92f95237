"""Options of the virtual GPU, and the versions of torch that it supports. Imports no torch."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpututor.errors import TutorError
from gpututor.hardware.packages import TORCH

MAX_GPUS = 8
DEFAULT_MODEL = "T4"
_BYTES = {"B": 1, "KB": 10**3, "KIB": 2**10, "MB": 10**6, "MIB": 2**20, "GB": 10**9, "GIB": 2**30}


def parse_count(word: object) -> int:
    """Parse a number of GPUs. Raises `ValueError` for an invalid number."""
    number = str(word).strip()
    if not (number.isascii() and number.isdigit() and int(number) <= MAX_GPUS):
        raise ValueError(f"a machine has 0 to {MAX_GPUS} virtual GPUs, not {word}")
    return int(number)


def parse_size(word: object) -> int:
    """Parse a size such as `512MiB` or `16 GB` to bytes. Raises `ValueError` for an invalid size."""
    text = str(word).strip()
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", text)
    if parts is not None and not parts[2]:
        raise ValueError(f"{text!r} has no unit: write 512MiB or 16GiB")
    size = float(parts[1]) * _BYTES.get(parts[2].upper(), 0) if parts else 0
    if size < 1:
        raise ValueError(f"{text!r} is not a size of memory: write 512MiB or 16GiB")
    return int(size)


def check_arguments(count: object, model: object, memory_bytes: object) -> None:
    """Raise `TypeError` or `ValueError`, naming the argument, for invalid arguments of `virtual_gpu`."""
    if type(count) is not int:
        hint = f" The model is another argument: virtual_gpu(model={count!r})." if isinstance(count, str) else ""
        raise TypeError(f"count is the number of GPUs: an int from 0 to {MAX_GPUS}, not {count!r}.{hint}")
    if not 0 <= count <= MAX_GPUS:
        raise ValueError(f"count: a virtual machine has 0 to {MAX_GPUS} GPUs, not {count}")
    if not isinstance(model, str):
        raise TypeError(f"model is the name of a GPU, such as 'T4' or 'H100', not {model!r}")
    if memory_bytes is None:
        return
    if type(memory_bytes) is not int:
        raise TypeError(
            f"memory_bytes is the memory of each GPU in bytes: a positive int, such as 1 << 30, not {memory_bytes!r}"
        )
    if memory_bytes <= 0:
        raise ValueError(f"memory_bytes is the memory of each GPU in bytes: a positive int, not {memory_bytes}")


class UntestedTorch(UserWarning):
    """Warning: this torch is older or newer than the tested versions."""


class TorchNotSupported(TutorError):
    """This torch lacks something that the virtual GPU is built on."""


def warn_if_untested(version: str) -> None:
    """Warn `UntestedTorch` for a version, such as `2.14.1+cpu`, outside the tested range."""
    if not TORCH.works_in(version):
        words = f"gpututor's virtual GPU was tested with torch {TORCH.versions}, but this is torch {version}."
        warnings.warn(f"{words} Its behavior may differ from CUDA's.", UntestedTorch, stacklevel=4)


@contextmanager
def explain_missing_names() -> Iterator[None]:
    """Raise `TorchNotSupported` instead of an `AttributeError` or `ImportError` for a name that this torch lacks."""
    try:
        yield
    except AttributeError as error:
        owner: Any = error.obj
        where = f"{owner.__module__}.{owner.__name__}" if isinstance(owner, type) else getattr(owner, "__name__", "")
        if not where.startswith("torch"):
            raise
        raise _lacking(f"{where}.{error.name}") from error
    except ImportError as error:
        if not (error.name or "").startswith("torch."):
            raise
        raise _lacking(f"{error.name}: {error.msg}") from error


def _lacking(name: str) -> TorchNotSupported:
    """Return the error for a `name` that this torch lacks."""
    import torch

    return TorchNotSupported(
        f"torch {torch.__version__} has no {name}, which the virtual GPU needs.",
        f"It was tested with torch {TORCH.versions}: install one of these versions.",
    )
