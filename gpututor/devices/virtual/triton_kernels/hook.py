"""A hook that prepares Triton for the virtual GPU when the program imports it. Imports no Triton itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from gpututor.devices.virtual.after_import import AfterImport
from gpututor.hardware.packages import PACKAGES, PackageNotSupported, install_command

TRITON = PACKAGES["triton"]


@contextmanager
def triton_kernels() -> Iterator[None]:
    """Run Triton's kernels on the active machine inside the block, even if the program imports Triton later."""
    with ExitStack() as undo:

        def prepare() -> None:
            try:
                _check_version()
                from gpututor.devices.virtual.triton_kernels import launcher  # imports more of Triton
            except PackageNotSupported as error:
                # Only a launch raises the error: PyTorch imports Triton too, and may not need it.
                _refuse(error, undo)
            else:
                undo.enter_context(launcher.installed())

        if "triton" in sys.modules:
            if hasattr(sys.modules["triton"], "jit"):
                prepare()
            yield
            return
        finder = AfterImport("triton", lambda _: prepare())
        finder.install()
        undo.callback(finder.remove)
        yield


def _refuse(error: PackageNotSupported, undo: ExitStack) -> None:
    """Raise `error` at each launch, until `undo` is closed."""

    def run(*args: Any, **kwargs: Any) -> None:
        raise error

    jit = getattr(sys.modules["triton"], "JITFunction", None)
    if hasattr(jit, "run"):
        undo.enter_context(patch.object(jit, "run", run))


def _check_version() -> None:
    """Raise `PackageNotSupported` if this Triton is outside the range."""
    version = str(getattr(sys.modules["triton"], "__version__", "0"))
    if not TRITON.works_in(version):
        raise PackageNotSupported(
            f"The virtual GPU runs kernels of Triton {TRITON.versions}, but this is Triton {version}.",
            f"Run `{install_command('triton')}`.",
        )
