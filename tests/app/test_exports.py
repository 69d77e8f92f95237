"""Traces for Perfetto and pictures of the screen, in the learner's folder."""

from __future__ import annotations

import errno
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import TextIO

import pytest
from textual.pilot import Pilot

from gpututor.app.screens.trace import export
from gpututor.errors import WorkspaceError
from gpututor.trace.columns import Trace
from tests.support.apps import AppEnv, until, until_shown
from tests.support.recorded_runs import Timed, run, see
from tests.support.screens import screen_text


def exported(env: AppEnv, ending: str) -> list[Path]:
    return sorted((env.workspace_folder / "exports").glob(f"*{ending}"))


async def files(pilot: Pilot[None], env: AppEnv, ending: str, number: int = 1) -> list[Path]:
    """Wait for so many written files, and for the news of them."""
    await until(pilot, lambda: len(exported(env, ending)) == number, "for the file")
    await until_shown(pilot, "Written:")
    return exported(env, ending)


async def test_a_trace_is_written_as_perfetto_reads_it(env: AppEnv) -> None:
    env.client = Timed()
    async with env.start((140, 40)) as pilot:
        await run(pilot, env)
        await see(pilot, "timeline")
        await pilot.press("X")
        (path,) = await files(pilot, env, ".json")
        assert path.name.startswith("1.1-attempt-1-call-1-")
        assert "ui.perfetto.dev" in screen_text(pilot.app)
    told = json.loads(path.read_text())
    events = told["traceEvents"]
    assert all({"ph", "name", "pid"} <= event.keys() for event in events)
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in events if event["ph"] == "X")
    begun = {event["id"] for event in events if event["ph"] == "s"}
    ended = {event["id"] for event in events if event["ph"] == "f"}
    assert begun == ended != set()
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in events if event["ph"] in "Xsf"} <= named
    assert {event["name"] for event in events if event["ph"] == "C"} == {"allocated memory"}


async def test_no_export_replaces_another(env: AppEnv) -> None:
    env.client = Timed()
    async with env.start() as pilot:
        await run(pilot, env)
        await see(pilot, "timeline")
        for number in (1, 2, 3):
            await pilot.press("X")
            await files(pilot, env, ".json", number)


async def test_the_main_screen_exports_the_newest_trace(env: AppEnv) -> None:
    env.client = Timed()
    async with env.start() as pilot:
        await pilot.press("X")
        await until_shown(pilot, "Nothing was recorded yet that could be exported")
        await run(pilot, env)
        await pilot.press("X")
        (path,) = await files(pilot, env, ".json")
        assert json.loads(path.read_text())["traceEvents"]


async def test_an_attempt_without_device_work_is_not_exported(env: AppEnv) -> None:
    env.client.traces = lambda request: [Trace()]
    async with env.start() as pilot:
        await run(pilot, env)
        await pilot.press("X")
        await until_shown(pilot, "No device did anything in this call")
        await pilot.press("escape")
        await see(pilot, "timeline")
        await pilot.press("X")
        await until_shown(pilot, "nothing was written")
    assert exported(env, ".json") == []


async def test_a_picture_of_the_screen_is_an_svg_with_its_text(env: AppEnv) -> None:
    async with env.start() as pilot:
        await pilot.press("S")
        (path,) = await files(pilot, env, ".svg")
    words = "".join(ElementTree.parse(path).getroot().itertext()).replace("\xa0", " ")
    assert "1.1 Twice 1" in words


async def test_pictures_of_the_device_screen_and_the_comparison_are_saved(env: AppEnv) -> None:
    env.client = Timed()
    async with env.start((100, 30)) as pilot:
        await run(pilot, env)
        await see(pilot, "memory")
        await pilot.press("S")
        (path,) = await files(pilot, env, ".svg")
        assert "peak" in "".join(ElementTree.parse(path).getroot().itertext())
        await pilot.press("V")
        await until_shown(pilot, "Attempt 1 beside baseline.py")
        await pilot.press("S")
        await files(pilot, env, ".svg", 2)


async def test_a_failed_export_is_reported(env: AppEnv) -> None:
    env.client = Timed()
    async with env.start() as pilot:
        (env.workspace_folder / "exports").write_text("in the way")
        await pilot.press("S")
        await until_shown(pilot, "cannot be written")
        await pilot.press("escape")
        await run(pilot, env)
        await see(pilot, "timeline")
        await pilot.press("X")
        await until_shown(pilot, "cannot be written")


def test_of_a_full_disk_nothing_is_left(tmp_path: Path) -> None:
    def write(stream: TextIO) -> None:
        stream.write("half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(WorkspaceError, match="No space left on device"):
        export(tmp_path, "1.1", ".json", write)
    assert list(tmp_path.iterdir()) == []


def test_names_are_short_and_safe(tmp_path: Path) -> None:
    path = export(tmp_path / "new", "1.1 ../two GPUs", ".svg", lambda stream: None)
    assert path.parent == tmp_path / "new"
    assert path.name.startswith("1.1-..-two-GPUs-2")
