"""The front end never imports torch; a plain verb never imports Textual. Examined in fresh processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

TORCH_FREE = [
    "gpututor.cli.main",
    "gpututor.cli.grade",
    "gpututor.cli.run",
    "gpututor.app.app",
    "gpututor.app.start",
    "gpututor.app.classroom.app",
    "gpututor.grading.client",
    "gpututor.hardware.inventory",
    "gpututor.course.loader",
    "gpututor.course.workspace",
    "gpututor.authoring.verify",
    "gpututor.authoring.scaffold",
    "gpututor.cli.verify",
    "gpututor.progress.store",
    "gpututor.trace.columns",
    "gpututor.trace.events",
    "gpututor.trace.serialization",
    "gpututor.devices.recorder",
    "gpututor.protocol.frames",
    "gpututor.protocol.messages",
    "gpututor.hardware.gpus",
    "gpututor.pytest_plugin",
]


def modules_after(code: str) -> set[str]:
    """Return the names in `sys.modules` of a fresh interpreter that ran `code`."""
    printed = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return set(printed.split())


@pytest.mark.parametrize("module", TORCH_FREE)
def test_torch_and_outside_the_app_textual_are_not_imported_by(module: str) -> None:
    heavy = {"torch", "numpy"} if module.startswith("gpututor.app") else {"torch", "numpy", "textual"}
    assert not modules_after(f"import {module}") & heavy


@pytest.mark.parametrize("module", ["gpututor.devices.virtual.session", "gpututor.worker.submission"])
def test_neither_textual_nor_the_judge_is_imported_by(module: str) -> None:
    assert not modules_after(f"import {module}") & {"textual", "gpututor.judge", "gpututor.checks"}
