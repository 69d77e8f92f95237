"""The real app in a real terminal, with a client that answers at once: `start`.

It makes a file called `ready` beside the workspace once the keys of an editor are answered.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from gpututor.app.app import GpututorApp
from gpututor.app.main.screen import MainScreen
from gpututor.course.loader import load_course
from gpututor.course.workspace import Workspace
from gpututor.paths import progress_file
from gpututor.progress.store import ProgressStore
from tests.support import ROOT
from tests.support.scripted_client import ScriptedClient
from tests.support.terminals import Terminal


def ready_file(workspace: Path) -> Path:
    return workspace.parent / "ready"


def launch(course: Path, workspace: Path, environment: Mapping[str, str], size: tuple[int, int] = (80, 24)) -> Terminal:
    """Start the app in its own terminal, before its first paint; use it in a `with`."""
    words = ["-m", "tests.support.app_in_terminal", str(course), str(workspace)]
    return Terminal(words, {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", **environment}, size)


def start(
    course: Path,
    workspace: Path,
    environment: Mapping[str, str],
    size: tuple[int, int] = (80, 24),
    patience_s: float = 60,
) -> Terminal:
    """Start the app in its own terminal, and wait until it is ready for keys; use it in a `with`."""
    ready_file(workspace).unlink(missing_ok=True)
    terminal = launch(course, workspace, environment, size)
    deadline = time.monotonic() + patience_s
    while not ready_file(workspace).exists():
        assert terminal.read(0.02), terminal.grid.text
        assert time.monotonic() < deadline, terminal.grid.text
    return terminal


def main() -> None:
    course, workspace = load_course(Path(sys.argv[1])), Workspace(Path(sys.argv[2]))
    progress = ProgressStore(progress_file())
    app = GpututorApp(course=course, workspace=workspace, progress=progress, client=ScriptedClient())

    def tell_when_ready() -> None:
        while not any(isinstance(screen, MainScreen) and screen.is_ready for screen in list(app._screen_stack)):
            time.sleep(0.01)
        ready_file(workspace.folder).touch()

    threading.Thread(target=tell_when_ready, daemon=True).start()
    app.run()
    progress.close()


if __name__ == "__main__":
    main()
