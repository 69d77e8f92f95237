"""Triton on the virtual GPU, without importing Triton: the program imports it, and a hook prepares it then."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from gpututor.devices.virtual.after_import import AfterImport
from gpututor.hardware.packages import PACKAGES, PackageNotSupported, install_command

TRITON = PACKAGES["triton"]


@contextmanager
def triton_kernels() -> Iterator[None]:
    """Run Triton's kernels on the active machine inside the block, whenever the program imports Triton."""
    with ExitStack() as undo:

        def prepare() -> None:
            try:
                _check_version()
                from gpututor.devices.virtual.triton_kernels import launcher  # imports Triton's parts
            except PackageNotSupported as error:
                # The program may never launch a kernel: PyTorch imports Triton too.
                undo.enter_context(_refusing(error))
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


@contextmanager
def _refusing(error: PackageNotSupported) -> Iterator[None]:
    """Raise `error` at each launch inside the block."""

    def run(*args: Any, **kwargs: Any) -> None:
        raise error

    jit = getattr(sys.modules["triton"], "JITFunction", None)
    before = getattr(jit, "run", None)
    if before is None:
        yield
        return
    try:
        jit.run = run  # type: ignore[union-attr]
        yield
    finally:
        jit.run = before  # type: ignore[union-attr]


def _check_version() -> None:
    """Raise `PackageNotSupported` if this Triton is outside the range."""
    version = str(getattr(sys.modules["triton"], "__version__", "0"))
    if not TRITON.works_in(version):
        raise PackageNotSupported(
            f"The virtual GPU runs kernels of Triton {TRITON.versions}, and this is Triton {version}.",
            f"Run `{install_command('triton')}`.",
        )
