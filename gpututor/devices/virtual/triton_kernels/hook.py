"""Triton on the virtual GPU, without importing Triton: the program imports it, and a hook prepares it then."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from gpututor.hardware.packages import PACKAGES, PackageNotSupported, install_command

TRITON = PACKAGES["triton"]


class _AfterImport:
    """Finder that prepares Triton as soon as the program has imported it."""

    def __init__(self, prepare: Callable[[], None]) -> None:
        self._prepare = prepare
        self._is_searching = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name != "triton" or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._prepare)  # type: ignore[assignment]
        return spec


class _Loader:
    """Loader that runs Triton's own, and then `prepare`."""

    def __init__(self, loader: Any, prepare: Callable[[], None]) -> None:
        self._loader, self._prepare = loader, prepare

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._prepare()


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
        finder = _AfterImport(prepare)
        sys.meta_path.insert(0, finder)
        undo.callback(sys.meta_path.remove, finder)
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
