"""Grading of the same attempt on another virtual GPU, as a row of a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpututor.app.trace_view.model import RunView, cases_of, model_of
from gpututor.grading.client import GradingService
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.recording import Recording, RunRecording, read_recording
from gpututor.grading.report import Report
from gpututor.hardware.gpus import gpu_spec
from gpututor.trace.formatting import size
from gpututor.trace.serialization import read_trace
from gpututor.trace.summary import Summary, summary
from gpututor.trace.text import LAUNCH_BOUND, Candidate

MODELS = ("T4", "A100 40", "H100")
"""Models to offer, after the model that an attempt ran on."""
_NO_WORK = "nothing ran on the GPU, so there are no times"
_NOT_RECORDED = "no figures, because the run could not be recorded"


def compared_run(view: RunView) -> RunRecording:
    """Return the shown run; if it had no virtual GPU, the first run with one."""
    runs = (view.run, *view.recording.runs)
    return next((run for run in runs if model_of(run.device)), view.run)


def offered_models(view: RunView) -> list[str]:
    """Return the model of the attempt and models to compare it with."""
    own = model_of(compared_run(view).device)
    return list(dict.fromkeys([*([own] if own else []), *MODELS]))


def read_models(words: str) -> list[str]:
    """Return the models that a list with commas names. Raises `UsageError` for an unknown name."""
    return list(dict.fromkeys(gpu_spec(name.strip()).name for name in words.split(",") if name.strip()))


def grade_on(
    model: str, request: GradeRequest, client: GradingService, scenario: str, folder: Path | None
) -> Candidate | None:
    """Grade a request on a model; return the figures of a scenario, or None if the grading was cancelled.

    `folder` is empty, for the recording. Blocks: for a thread. Raises `GradingError`.
    """
    recorded = None if folder is None else str(folder)
    for event in client.grade(replace(request, gpu=model, recording_folder=recorded)):
        if isinstance(event, GradingFinished):
            return _candidate(model, event.report, scenario, folder)
    return None


def _candidate(model: str, report: Report, scenario: str, folder: Path | None) -> Candidate:
    verdict = {0: "passed", 1: "failed"}.get(report.outcome.exit_code, "-")
    failure = report.first_failure
    note = failure.sentence if failure is not None else report.reason
    if verdict == "-":
        note = ": ".join(filter(None, [report.outcome.value, note]))
    nothing = Candidate(model, None, 0.0, 0, 0, None, note, verdict=verdict)
    try:
        recording = read_recording(folder) if folder is not None else None
    except (OSError, ValueError):
        recording = None
    if recording is None:  # if there is no other reason, the disk may be full
        return replace(nothing, note=note or _NOT_RECORDED)
    run = next((run for run in recording.runs if run.scenario == scenario), None)
    return nothing if run is None else _with_figures(nothing, recording, run)


def _with_figures(row: Candidate, recording: Recording, run: RunRecording) -> Candidate:
    """Add the figures of a run. The trace of each call is read: processes of one call ran at the same time."""
    cases = [[_summary(recording, call.trace) for call in case.calls] for case in cases_of(run)]
    read = [summary for case in cases for summary in case if summary is not None]
    busy = sum(max((_busy(summary) for summary in case), default=0) for case in cases)
    refused = [failed for summary in read for device in summary.devices for failed in device.out_of_memory]
    stopped = any(call.stopped for call in run.calls)
    time = (run.elapsed_ns or None) if run.times == "modelled" and not stopped else None
    launches = any(
        advice.rule == "launches" and advice.share >= LAUNCH_BOUND for summary in read for advice in summary.advice
    )
    note = f"out of memory: {size(refused[-1].size_bytes)} asked for" if refused else row.note
    if time is None and not stopped:
        note = "; ".join(filter(None, [note, _NO_WORK]))
    return replace(
        row,
        time=time,
        busy_share=busy / time if time else 0.0,
        peak_bytes=run.peak_bytes,
        memory_bytes=run.memory_bytes or gpu_spec(row.name).memory_bytes,
        fits=not refused,
        note=note,
        launch_bound=launches,
    )


def _summary(recording: Recording, trace: str) -> Summary | None:
    """Return the summary of a call's trace; None if the trace was left out or cannot be read."""
    try:
        return summary(read_trace(str(Path(recording.folder) / trace))) if trace else None
    except (OSError, ValueError):
        return None


def _busy(call: Summary | None) -> int:
    return max((device.busy for device in call.devices), default=0) if call is not None else 0
