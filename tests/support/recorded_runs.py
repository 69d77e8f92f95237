"""Recorded runs for the device screen: a file of several lines, a baseline, memory that runs out."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot

from gpututor.app.screens.trace import DeviceScreen
from gpututor.grading.events import GradeRequest
from gpututor.grading.report import Report
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.apps import AppEnv, main_screen, run_checks, until, until_on
from tests.support.recordings import GPU, make_recording, small_trace
from tests.support.scripted_client import ScriptedClient, report, verdict

SOURCE = """\
import torch

def twice(number):
    x = torch.ones(number, device="cuda")
    for step in range(3):
        x = work(x, step)  # the most is held here
        print(x.sum().item())
    return 2 * number
"""
TABS = ("timeline", "memory", "times", "lines", "hazards")
US, MIB = 1000, 1 << 20


def loop_trace(file: str, *, steps: int = 3, refused: bool = True, hazard: bool = False) -> Trace:
    """Return the trace of a loop that takes more and more memory, computes and waits."""
    trace = Trace()
    held, now = 16 * MIB, 0

    def memory(kind: Kind, size: int, line: int, partner: int = -1) -> int:
        nonlocal held
        held += {Kind.ALLOCATE: size, Kind.FREE: -size}.get(kind, 0)
        return trace.add(
            kind, "aten::empty", GPU, size_bytes=size, allocated=held, file=file, line=line, launched=now, start=now,
            end=now, partner=partner,
        )  # fmt: skip

    memory(Kind.ALLOCATE, 8 * MIB, 4)
    trace.add(
        Kind.TRANSFER, "aten::copy_", GPU, size_bytes=8 * MIB, file=file, line=4, launched=2 * US, start=4 * US,
        end=704 * US, source="cpu", target=GPU,
    )  # fmt: skip
    now = 705 * US
    taken = []
    for step in range(steps):
        taken.append(memory(Kind.ALLOCATE, (16 << step) * MIB, 6))
        kernel = trace.add(
            Kind.KERNEL, "aten::mm", GPU, size_bytes=8 * MIB, launched=now, start=now + 3 * US, end=now + 400 * US,
            file=file, line=6,
        )  # fmt: skip
        now += 401 * US
        trace.add(
            Kind.TRANSFER, "aten::_local_scalar_dense", GPU, size_bytes=4, source=GPU, target="cpu", launched=now,
            start=now + US, end=now + 9 * US, file=file, line=7,
        )  # fmt: skip
        trace.add(Kind.SYNCHRONISE, "aten::_local_scalar_dense", GPU, start=now, end=now + 10 * US, file=file, line=7)
        now += 11 * US
        if hazard:
            trace.add(
                Kind.HAZARD, "read after write", GPU, stream=1, launched=now, start=now, end=now, partner=kernel,
                file=file, line=7,
            )  # fmt: skip
        if step:
            memory(Kind.FREE, (16 << step - 1) * MIB, 6, taken[step - 1])
    if refused:
        memory(Kind.OUT_OF_MEMORY, 256 * MIB, 6)
    return trace


class Timed(ScriptedClient):
    """A client that records two calls and a baseline that takes twice as long; its checks compare them."""

    def __init__(self) -> None:
        super().__init__(_judged)
        self.hazard = True

    def record(self, folder: Path, request: GradeRequest) -> None:
        steps = request.submission.count("range(3)") * 3 or 1
        traces = (
            loop_trace(request.file_name, steps=steps, hazard=self.hazard),
            loop_trace(request.file_name, steps=1, refused=False),
        )
        make_recording(folder, *traces, baseline=small_trace(file="baseline.py", factor=5), file=request.file_name)


def _judged(request: GradeRequest) -> Report:
    speed = verdict("speed", measured="0.42 × the baseline's time: 3.89 ms against 9.24 ms for all 2 calls (modelled)")
    sentence = "It takes at most 0.75 × the time of the baseline"
    return report(request, verdict("loads"), type(speed)(**{**vars(speed), "sentence": sentence}))


async def run(pilot: Pilot[None], env: AppEnv, source: str = SOURCE) -> None:
    """Grade a text, and wait for its recording."""
    screen = main_screen(pilot)
    before = len(screen.attempts.recordings.ids())
    screen.panes.editor.load_text(source)
    await run_checks(pilot)
    await until(pilot, lambda: len(screen.attempts.recordings.ids()) > before, "for the recording")


async def open_device(pilot: Pilot[None], key: str = "d") -> DeviceScreen:
    """Open the device screen, and wait until it shows the recording."""
    await pilot.press(key)
    screen = await until_on(pilot, DeviceScreen)
    await until(pilot, lambda: is_read(screen), "for the tab")
    await pilot.pause()
    return screen


def is_read(screen: DeviceScreen) -> bool:
    return screen.view is None or (screen.tabs.tab is not None and screen.view.loaded is not None)


async def see(pilot: Pilot[None], tab: str) -> DeviceScreen:
    """Open the device screen at a tab, with its traces read."""
    screen = await open_device(pilot)
    await until(pilot, lambda: screen.view is not None and is_read(screen), "for the traces")
    await pilot.press(str(TABS.index(tab) + 1))
    await until(pilot, lambda: screen.tabs.number == TABS.index(tab) and screen.tabs.tab is not None, "for the tab")
    await pilot.pause()
    return screen


async def run_and_open(pilot: Pilot[None]) -> DeviceScreen:
    await run_checks(pilot)
    return await open_device(pilot)
