"""Schedules of `torch.profiler` and the Chrome traces that it writes."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.profiler import profile, record_function, schedule, tensorboard_trace_handler

from gpututor.devices.virtual.profiler.tree import looks_like_python
from tests.support.profiles import BOTH, ON_CUDA, rows

pytestmark = pytest.mark.usefixtures("two_gpus")


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup", "ignore:Warning. Profiler clears events")
def test_on_trace_ready_is_called_once_for_each_cycle(tmp_path: Path) -> None:
    x = torch.ones(8, 8, device="cuda")
    seen: list[tuple[int, Counter[str]]] = []

    def ready(profiler: Any) -> None:
        seen.append(
            (profiler.step_num, Counter(event.name for event in profiler.events() if event.device_type != ON_CUDA))
        )

    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(activities=BOTH, schedule=plan, on_trace_ready=ready) as whole:
        for _ in range(10):
            x @ x
            whole.step()
    assert [number for number, _ in seen] == [4, 8]
    assert [names["aten::mm"] for _, names in seen] == [2, 2]
    assert [names["ProfilerStep*"] for _, names in seen] == [2, 2]

    handler = tensorboard_trace_handler(str(tmp_path), worker_name="me")
    with profile(activities=BOTH, schedule=schedule(wait=0, warmup=0, active=1), on_trace_ready=handler) as short:
        x @ x
        short.step()
        x @ x
    files = [json.loads(path.read_text()) for path in tmp_path.glob("me.*.pt.trace.json")]
    assert [sum(entry.get("cat") == "kernel" for entry in file["traceEvents"]) for file in files] == [1, 1]


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
def test_events_of_several_cycles_can_be_kept() -> None:
    x = torch.ones(8, 8, device="cuda")
    plan = schedule(wait=0, warmup=0, active=1, repeat=3)
    with profile(activities=BOTH, schedule=plan, acc_events=True) as seen:
        for _ in range(3):
            x @ x
            seen.step()
    assert rows(seen)["aten::mm"].count == 3


def test_a_chrome_file_has_a_lane_per_stream_and_arrows_to_kernels(tmp_path: Path) -> None:
    x = torch.ones(64, 64, device="cuda")
    side = torch.cuda.Stream()
    with profile(activities=BOTH, record_shapes=True) as seen:
        seen.add_metadata("lesson", "one")
        seen.add_metadata('no "JSON', "no \\ JSON")
        with record_function("work"):
            x @ x
            with torch.cuda.stream(side):
                x + x
        x.cpu()
    seen.export_chrome_trace(str(tmp_path / "trace.json"))
    data = json.loads((tmp_path / "trace.json").read_text())
    assert data["lesson"] == "one"
    assert data["deviceProperties"][0]["name"] == "Tesla T4"
    by_category: dict[str, list[Any]] = {}
    for event in data["traceEvents"]:
        by_category.setdefault(event.get("cat", event["ph"]), []).append(event)
    assert [event["name"] for event in by_category["kernel"]] == ["virtual::mm", "virtual::add"]
    assert [event["name"] for event in by_category["gpu_memcpy"]] == ["Memcpy DtoH (Device -> Pageable)"]
    assert len({event["tid"] for event in by_category["kernel"]}) == 2
    assert by_category["kernel"][0]["tid"] == 7, "CUDA's number of the default stream"
    assert {event["name"] for event in by_category["cpu_op"]} >= {"aten::matmul", "aten::mm", "aten::add"}
    assert [event["name"] for event in by_category["user_annotation"]] == ["work"]
    assert {event["name"] for event in by_category["gpu_user_annotation"]} == {"work"}
    arrows = by_category["ac2g"]
    calls = {event["args"]["correlation"]: event for event in by_category["cuda_runtime"]}
    for kernel in [*by_category["kernel"], *by_category["gpu_memcpy"]]:
        begin, end = [event for event in arrows if event["id"] == kernel["args"]["correlation"]]
        assert (begin["ph"], end["ph"], end["ts"], end["tid"]) == ("s", "f", kernel["ts"], kernel["tid"])
        assert calls[kernel["args"]["correlation"]]["ts"] == begin["ts"] <= kernel["ts"]
    labels = [event["args"] for event in by_category["M"]]
    assert {"labels": "GPU 0 (Tesla T4)"} in labels
    assert {"name": "stream 7 "} in labels
    assert "gpututor" not in json.dumps([event["name"] for event in data["traceEvents"]])


def test_a_compressed_chrome_file_and_stacks(tmp_path: Path) -> None:
    x = torch.ones(8, device="cuda")
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
    with profile(activities=BOTH, with_stack=True, experimental_config=verbose) as seen:
        x + x
    (add,) = [event for event in seen.events() if event.name == "aten::add"]
    assert any("test_a_compressed_chrome_file_and_stacks" in line for line in add.stack)
    assert not any("gpututor/devices" in line for line in add.stack)
    seen.export_stacks(str(tmp_path / "stacks.txt"), "self_cuda_time_total")
    assert "test_chrome.py" in (tmp_path / "stacks.txt").read_text()
    seen.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    data = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    assert any(event.get("cat") == "kernel" for event in data["traceEvents"])


@pytest.mark.skipif(
    not hasattr(torch._C._autograd._KinetoEvent, "is_python_function"), reason="this PyTorch cannot tell"
)
def test_python_calls_are_recognized_by_name() -> None:
    layer, x = nn.Linear(4, 4, device="cuda"), torch.ones(2, 4, device="cuda")
    with profile(activities=BOTH, with_stack=True) as seen:
        layer(x).sum().backward()
        torch.optim.SGD(layer.parameters()).step()
    recorded = seen.profiler.kineto_results.events()
    python = [event.name() for event in recorded if event.is_python_function()]
    assert python
    assert all(looks_like_python(name) for name in python)
    assert not any(looks_like_python(event.name()) for event in recorded if not event.is_python_function())
