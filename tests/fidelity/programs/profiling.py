"""`torch.profiler`: which rows there are, how often, and what nests in what."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.cuda import nvtx
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from tests.fidelity.program import gives

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
KINETO = "torch/csrc/autograd/profiler_kineto.cpp, third_party/kineto: output of CUPTI's activities"
COPY = "aten/src/ATen/native/cuda/Copy.cu, third_party/kineto/libkineto/src/CuptiActivity.cpp"
DOCS = "docs/source/profiler.md"


def on_device(event: Any) -> bool:
    return event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation  # type: ignore[attr-defined]


def counts(seen: Any, prefix: str) -> dict[str, int]:
    return dict(Counter(event.name for event in seen.events() if event.name.startswith(prefix)))


def warm() -> torch.Tensor:
    """CUDA is started, and cuBLAS has its workspace."""
    x = torch.ones(64, 64, device="cuda")
    (x @ x).sum()
    torch.cuda.synchronize()
    return x


@gives({"Memcpy HtoD (Pageable -> Device)": 1, "Memcpy DtoH (Device -> Pageable)": 1}, source=COPY)
def copies_of_pageable_memory_have_these_names() -> Any:
    warm()
    with profile(activities=BOTH) as seen:
        torch.ones(1 << 16).cuda().cpu()
    return counts(seen, "Memcpy")


@gives({"Memcpy HtoD (Pinned -> Device)": 1}, source=COPY)
def a_copy_of_pinned_memory_says_so() -> Any:
    warm()
    host = torch.ones(1 << 16).pin_memory()
    with profile(activities=BOTH) as seen:
        host.cuda(non_blocking=True)
    return counts(seen, "Memcpy")


@gives({"Memcpy DtoD (Device -> Device)": 1}, source=COPY)
def a_clone_is_a_copy_on_the_device() -> Any:
    x = warm()
    with profile(activities=BOTH) as seen:
        x.clone()
    return counts(seen, "Memcpy")


@gives((1, 1, 1), source=KINETO)
def one_operator_has_one_launch_and_one_kernel() -> Any:
    x = warm()
    with profile(activities=BOTH) as seen:
        x + x
    events = seen.events() or ()
    kernels = sum(on_device(event) for event in events)
    return counts(seen, "aten::add")["aten::add"], counts(seen, "cudaLaunchKernel")["cudaLaunchKernel"], kernels


@gives(["aten::t", "aten::addmm"], source="aten/src/ATen/native/Linear.cpp")
def a_linear_layer_is_a_transpose_and_a_product() -> Any:
    x = warm()
    layer = nn.Linear(64, 64, device="cuda")
    with profile(activities=BOTH) as seen:
        layer(x)
    (linear,) = [event for event in seen.events() or () if event.name == "aten::linear"]
    return [event.name for event in linear.cpu_children]


@gives(True, source=KINETO)
def the_device_time_of_an_operator_is_that_of_its_kernels() -> Any:
    x = warm()
    with profile(activities=BOTH) as seen:
        x @ x  # PyTorch 2.11 counts the kernel twice at which its profiler asks for a buffer: the first one
        x + x
    events = seen.events() or ()
    (add,) = [event for event in events if event.name == "aten::add"]
    kernel = max((event for event in events if on_device(event)), key=lambda event: event.time_range.start)
    return bool(abs(add.device_time_total - kernel.time_range.elapsed_us()) < 1e-3 and add.device_time_total > 0)


@gives(1, source="torch/autograd/profiler.py: profile.__exit__")
def the_profiler_itself_waits_for_the_device_once() -> Any:
    x = warm()
    with profile(activities=BOTH) as seen:
        x + x
    return counts(seen, "cudaDeviceSynchronize")["cudaDeviceSynchronize"]


@gives(set(), source=DOCS)
def without_cpu_activity_there_are_no_operators() -> Any:
    x = warm()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        x + x
    return set(counts(seen, "aten::"))


@gives([4, 8], source=DOCS)
def a_schedule_hands_over_at_the_end_of_each_cycle() -> Any:
    x = warm()
    steps = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)

    def ready(profiler: Any) -> None:
        steps.append(profiler.step_num)

    with profile(activities=BOTH, schedule=plan, on_trace_ready=ready, acc_events=True) as seen:
        for _ in range(10):
            x + x
            seen.step()
    return steps


@gives((4096, -4096), source="c10/cuda/CUDACachingAllocator.cpp: reportMemoryUsageToProfiler")
def memory_is_counted_where_it_is_allocated_and_where_it_is_freed() -> Any:
    x = warm()[0]
    with profile(activities=BOTH, profile_memory=True) as seen:
        y = x.repeat(16)
        del y
    averages = {event.key: event for event in seen.key_averages()}
    return averages["aten::repeat"].device_memory_usage, averages["[memory]"].device_memory_usage


@gives(({"kernel", "cuda_runtime", "cpu_op", "user_annotation", "gpu_user_annotation", "ac2g"}, 7), source=KINETO)
def a_chrome_file_has_these_categories() -> Any:
    x = warm()
    with profile(activities=BOTH) as seen, record_function("work"):
        x + x
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        seen.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    wanted = {"kernel", "cuda_runtime", "cpu_op", "user_annotation", "gpu_user_annotation", "ac2g"}
    (kernel,) = [event for event in events if event.get("cat") == "kernel"]
    return wanted & {event.get("cat") for event in events}, kernel["tid"]


@gives((True, True, True), source="torch/autograd/profiler_util.py: _build_table")
def the_table_has_columns_of_the_device() -> Any:
    x = warm()
    with profile(activities=BOTH) as seen, contextlib.redirect_stdout(io.StringIO()):
        x @ x
    table = seen.key_averages().table(sort_by="cuda_time_total")
    return "Self CUDA" in table, "CUDA time avg" in table, "Self CUDA time total" in table


@gives([-2, -2, -2, -2, -2], source="torch/cuda/nvtx.py, NVTX: NVTX_NO_PUSH_POP_TRACKING, without a tool")
def nvtx_ranges_have_no_depth_without_a_tool() -> Any:
    return [nvtx.range_push("a"), nvtx.range_push("b"), nvtx.range_pop(), nvtx.range_pop(), nvtx.range_pop()]
