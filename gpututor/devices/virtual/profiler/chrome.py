"""A profile as the file that Perfetto and chrome://tracing show, as Kineto writes it (libkineto's output_json.cpp)."""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine
from gpututor.devices.virtual.profiler import session
from gpututor.devices.virtual.profiler.events import spread_of, stack_of
from gpututor.devices.virtual.profiler.tree import ProfileNode, ProfileTree, RuntimeCall

Json = dict[str, Any]
_CATEGORIES = {"operator": "cpu_op", "range": "user_annotation", "call": "cuda_runtime", "memory": "cpu_instant_event"}


def save(path: str, results: Any, tree: ProfileTree, machine: VirtualMachine, *, with_cpu: bool, memory: bool) -> None:
    """Write the profile. Metadata and everything else but the events comes from torch's own profile of the CPU."""
    with TemporaryDirectory() as folder:
        draft = Path(folder, "trace.json")
        results.save(str(draft))
        data = _heading(draft.read_text(encoding="utf-8", errors="replace"))
    data["deviceProperties"] = [_properties(gpu) for gpu in machine.gpus]
    data["traceEvents"] = _Lanes(tree, machine, with_cpu=with_cpu, memory=memory).events()
    data["traceName"] = path
    Path(path).write_text(json.dumps(data, indent=1), encoding="utf-8")


def _heading(text: str) -> Json:
    """Return the lines before the events, except invalid JSON, which Kineto writes because it escapes no keys."""
    entries: Json = {}
    for line in text.partition('"traceEvents"')[0].splitlines():
        try:
            entries |= json.loads("{" + line.strip().rstrip(",") + "}")
        except ValueError:
            continue
    return entries


def _properties(gpu: VirtualGpu) -> Json:
    spec = gpu.spec
    major, minor = spec.capability
    return {
        "id": gpu.index,
        "name": spec.reported_name,
        "totalGlobalMem": gpu.memory.total,
        "computeMajor": major,
        "computeMinor": minor,
        "numSms": spec.multiprocessors,
        "virtual": True,
    }


class _Lanes:
    """The events of a file. Times are microseconds since the machine was switched on."""

    def __init__(self, tree: ProfileTree, machine: VirtualMachine, *, with_cpu: bool, memory: bool) -> None:
        self._tree = tree
        self._machine = machine
        self._with_cpu = with_cpu
        self._memory = memory
        self._process = os.getpid()
        self._numbers = count(1)
        self._written: list[Json] = []
        self._streams: set[tuple[int, int]] = set()
        self._threads: set[int] = set()

    def events(self) -> list[Json]:
        for node in self._tree.nodes():
            self._node(node)
        for call in self._tree.loose:
            self._work(call, next(self._numbers), {})
        for row in self._tree.frees if self._with_cpu and self._memory else ():
            self._instant(row.launched, -row.size_bytes, 0)
        return [*self._labels(), *self._written]

    def _node(self, node: ProfileNode) -> None:
        if node.what != "call" and not self._with_cpu:
            return
        self._threads.add(node.thread)
        if node.what == "memory":
            if self._memory:
                self._instant(node.begin, node.device_bytes, node.thread)
            return
        args: Json = {}
        if node.event is not None:
            args = {"External id": node.event.correlation_id()}
            if shapes := node.event.shapes():
                args["Input Dims"] = shapes
            if stack := stack_of(node.event):
                args["Call stack"] = ";".join(stack)
        number = next(self._numbers)
        if node.what == "call":
            args = {"correlation": number, "cbid": 0}
            if node.parent is not None and node.parent.event is not None:
                args["External id"] = node.parent.event.correlation_id()
        category = _CATEGORIES[node.what]
        self._add(category, node.name, node.begin, node.end, self._process, node.thread, args)
        if node.what == "call" and any(call.work for call in node.calls):
            self._flow("s", number, node.begin, self._process, node.thread)
            for place, call in enumerate(node.calls):
                self._work(call, number, args, arrow=place == 0)
        elif node.what == "range":
            for (index, stream), (begin, end) in spread_of(node).items():
                lane = session.stream_number(stream)
                self._streams.add((index, stream))
                self._add("gpu_user_annotation", node.name, begin, end, index, lane, {})

    def _work(self, call: RuntimeCall, number: int, args: Json, *, arrow: bool = False) -> None:
        row = call.row
        if row is None:
            return
        lane = session.stream_number(row.stream)
        self._streams.add((call.device_index, row.stream))
        is_copy = session.is_copy(call.work)
        details: Json = {**args, "device": call.device_index, "context": 1, "stream": lane, "correlation": number}
        details.pop("cbid", None)
        seconds = (row.end - row.start) / 1e9
        if row.size_bytes:
            details["bytes"] = row.size_bytes
            details["memory bandwidth (GB/s)"] = round(row.size_bytes / 1e9 / seconds, 3) if seconds else 0
        if row.flops:
            details["flops"] = row.flops
        if row.line:
            details["line"] = f"{row.file}:{row.line}"
        category = "gpu_memcpy" if is_copy else "kernel"
        self._add(category, call.work, row.start, row.end, call.device_index, lane, details)
        if arrow:
            self._flow("f", number, row.start, call.device_index, lane)

    def _add(self, category: str, name: str, begin: int, end: int, process: int, thread: int, args: Json) -> None:
        times = {"ts": begin / 1000, "dur": (end - begin) / 1000}
        self._written.append(
            {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, **times, "args": args}
        )

    def _flow(self, phase: str, number: int, moment: int, process: int, thread: int) -> None:
        event = {"ph": phase, "id": number, "pid": process, "tid": thread, "ts": moment / 1000}
        ending = {"bp": "e"} if phase == "f" else {}
        self._written.append({**event, "cat": "ac2g", "name": "ac2g", **ending})

    def _instant(self, moment: int, size_bytes: int, thread: int) -> None:
        args = {"Bytes": size_bytes, "Device Type": 1}
        where = {"pid": self._process, "tid": thread, "ts": moment / 1000}
        self._written.append(
            {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", **where, "args": args}
        )

    def _labels(self) -> list[Json]:
        labels = [
            self._label("process_name", self._process, 0, name="python"),
            self._label("process_labels", self._process, 0, labels="CPU"),
            self._label("process_sort_index", self._process, 0, sort_index=self._process),
        ]
        for thread in sorted(self._threads):
            labels.append(self._label("thread_name", self._process, thread, name=f"thread {thread} (python)"))
        for index in sorted({index for index, _ in self._streams}):
            name = self._machine.gpus[index].spec.reported_name
            labels += [
                self._label("process_name", index, 0, name="python"),
                self._label("process_labels", index, 0, labels=f"GPU {index} ({name})"),
                self._label("process_sort_index", index, 0, sort_index=5_000_000 + index),
            ]
        for index, stream in sorted(self._streams):
            lane = session.stream_number(stream)
            labels.append(self._label("thread_name", index, lane, name=f"stream {lane} "))
            labels.append(self._label("thread_sort_index", index, lane, sort_index=lane))
        return labels

    def _label(self, what: str, process: int, thread: int, **args: Any) -> Json:
        return {
            "name": what,
            "ph": "M",
            "ts": self._tree.begin / 1000,
            "pid": process,
            "tid": thread,
            "args": args,
        }
