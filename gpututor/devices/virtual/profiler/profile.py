"""`torch.profiler`: with CUDA, times are the virtual clock's; a profile of the CPU alone is torch's own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.profiler.profiler

from gpututor.devices.virtual import cuda_errors
from gpututor.devices.virtual.machine import active_machine
from gpututor.devices.virtual.profiler import chrome, nccl
from gpututor.devices.virtual.profiler.events import Events, Maker
from gpututor.devices.virtual.profiler.session import Session, current
from gpututor.devices.virtual.profiler.tree import ProfileTree

_CUDA = torch.profiler.ProfilerActivity.CUDA
_OldProfiler: Any = torch.autograd.profiler.profile
_Events: Any = Events
_real_activities: Callable[[], set[Any]] = torch.profiler.supported_activities
_real_init: Any = _OldProfiler.__init__
_real_timeline: Any = torch.profiler.profile.export_memory_timeline


class CpuProfile(_OldProfiler):  # type: ignore[misc]
    """A `torch.autograd.profiler.profile` of the CPU alone, in which collectives are asynchronous as NCCL's are."""

    def _parse_kineto_results(self, *args: Any, **options: Any) -> Any:
        events = super()._parse_kineto_results(*args, **options)
        for event in events:
            event.is_async = event.is_async or event.name.startswith(nccl.TITLE)
        return events


class CudaProfile(_OldProfiler):  # type: ignore[misc]
    """A `torch.autograd.profiler.profile` with CUDA. It keeps its results after its machine is switched off."""

    _function_events: Any
    _old_function_events: Any
    _session: Session | None = None
    _tree: ProfileTree | None = None
    _with_ranges = True

    def _start_trace(self) -> None:
        super()._start_trace()
        self._session, self._tree = Session(active_machine(), self), None
        self._session.start()

    def __exit__(self, *exception: Any) -> Any:
        """Wait for the GPU, as on CUDA."""
        session = self._session
        if session is None or not session.is_running:
            return False  # the profile ended with its machine, or a later profile replaced it
        try:
            return super().__exit__(*exception)
        finally:
            session.stop()
            self._build_tree()

    def _build_tree(self) -> None:
        if self._tree is None and self._session is not None and self.kineto_results is not None:
            self._session.stop()
            self._tree = ProfileTree(self._session, self.kineto_results.events())

    def _ensure_function_events(self) -> None:
        if self._function_events is not None or getattr(self.experimental_config, "trace_only", False):
            super()._ensure_function_events()
            return
        self._needs_processing = False
        self._build_tree()  # torch calls this within `__exit__` if it accumulates events (`acc_events`)
        maker = None if self._tree is None else self._maker(self._tree)
        made = [] if maker is None else maker.events()
        events: Any = _Events(made, use_device="cuda", profile_memory=self.profile_memory, with_flops=self.with_flops)
        events.build()
        if self._old_function_events and self.acc_events:
            events.extend(self._old_function_events)
            self._old_function_events = None
        self._function_events = events

    def _maker(self, tree: ProfileTree) -> Maker:
        return Maker(tree, with_cpu=self.use_cpu, memory=self.profile_memory, ranges=self._with_ranges)

    def export_chrome_trace(self, path: str, *args: Any, **options: Any) -> Any:
        """Write the file that Perfetto and chrome://tracing show."""
        if self._tree is None or self._session is None:
            return super().export_chrome_trace(path, *args, **options)
        what = {"with_cpu": self.use_cpu, "memory": self.profile_memory}
        return chrome.save(path, self.kineto_results, self._tree, self._session.machine, **what)

    def toggle_collection_dynamic(self, enabled: bool, activities: Any) -> Any:
        raise cuda_errors.unsupported("torch.profiler.profile.toggle_collection_dynamic", "Use a schedule.")


def supported_activities() -> set[Any]:
    return _real_activities() | {_CUDA} if active_machine().gpus else _real_activities() - {_CUDA}


def init(
    self: Any,
    enabled: bool = True,
    *,
    use_cuda: bool = False,
    use_device: Any = None,
    use_cpu: bool = True,
    use_kineto: bool = False,
    **options: Any,
) -> None:
    """Stand in for `torch.autograd.profiler.profile.__init__`, on which `torch.profiler` is built.

    Torch's C++ gets no request for CUDA, which it lacks.
    """
    if not enabled or not (use_cuda or use_device == "cuda") or not active_machine().gpus:
        given = {"use_device": use_device, "use_cpu": use_cpu, "use_kineto": use_kineto}
        if use_cuda:  # torch 2.14 has no such argument
            given["use_cuda"] = use_cuda
        _real_init(self, enabled, **given, **options)
        if type(self) is _OldProfiler:
            self.__class__ = CpuProfile
        return
    if use_cuda:
        words = "The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead."
        warnings.warn(words, FutureWarning, stacklevel=2)
    if not use_cpu and not use_kineto:
        raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
    if _CUDA in (options.get("activity_filters") or {}):
        raise cuda_errors.unsupported("torch.profiler's choice among CUDA activities", "Ask for ProfilerActivity.CUDA.")
    _real_init(self, use_kineto=True, **options)
    self.use_cuda, self.use_device, self.use_cpu = use_cuda, "cuda", use_cpu
    if type(self) is _OldProfiler:
        self.__class__ = CudaProfile
        self._with_ranges = use_kineto


def export_memory_timeline(self: Any, *args: Any, **options: Any) -> Any:
    """Reject plots of memory over time: torch would show the memory of the values."""
    if self.use_device == "cuda" and active_machine().gpus:
        advice = "Use torch.cuda.memory._record_memory_history() and _dump_snapshot(), as PyTorch itself recommends."
        raise cuda_errors.unsupported("torch.profiler.profile.export_memory_timeline", advice)
    return _real_timeline(self, *args, **options)


def emit_nvtx(self: Any) -> Any:
    raise cuda_errors.unsupported("torch.autograd.profiler.emit_nvtx", "Use torch.cuda.nvtx.range or record_function.")


def stop_active_session() -> None:
    """End a profile that was started and not stopped, together with its machine."""
    session = current()
    if session is not None:
        session.profile.__exit__(None, None, None)
