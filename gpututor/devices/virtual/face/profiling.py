"""`torch.profiler`: with CUDA, times are the virtual clock's; a profile of the CPU alone is torch's own, as ever."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.profiler.profiler

from gpututor.devices.virtual import errors, private
from gpututor.devices.virtual.machine import active
from gpututor.devices.virtual.profiler import chrome
from gpututor.devices.virtual.profiler.events import Events, Maker
from gpututor.devices.virtual.profiler.session import Session, current
from gpututor.devices.virtual.profiler.tree import Tree

_CUDA = torch.profiler.ProfilerActivity.CUDA
_real_activities: Callable[[], set[Any]] = torch.profiler.supported_activities
_real_init: Any = private.OldProfiler.__init__
_real_exit: Any = private.OldProfiler.__exit__
_real_export: Any = private.OldProfiler.export_chrome_trace
_real_toggle: Any = private.OldProfiler.toggle_collection_dynamic
_real_timeline: Any = private.Profiler.export_memory_timeline
_Events: Any = Events
_STATE = "_of_virtual_gpu"


class _State:
    """What a profile with CUDA has more than torch's own."""

    def __init__(self, profile: Any, *, with_cpu: bool) -> None:
        self.profile = profile
        self.with_cpu = with_cpu
        self.session: Session | None = None
        self._tree: tuple[Any, Tree] | None = None

    def tree(self) -> Tree | None:
        """What happened; None for a profile that never ran."""
        results = self.profile.kineto_results
        if results is None or self.session is None:
            return None
        if self._tree is None or self._tree[0] is not results:
            self._tree = results, Tree(self.session, results.events())
        return self._tree[1]


def _state_of(profile: Any) -> _State | None:
    found: _State | None = vars(profile).get(_STATE)
    return found


def supported_activities() -> set[Any]:
    """Stands in for `torch.profiler.supported_activities`: what is profiled where nobody says what."""
    return _real_activities() | {_CUDA} if active().gpus else _real_activities() - {_CUDA}


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
    """Stands in for the making of every `torch.autograd.profiler.profile`, on which `torch.profiler` is built.

    Torch's C++ is never told of CUDA: it knows none here.
    """
    if not enabled or not (use_cuda or use_device == "cuda") or not active().gpus:
        given = {"use_cuda": use_cuda, "use_device": use_device, "use_cpu": use_cpu, "use_kineto": use_kineto}
        _real_init(self, enabled, **given, **options)
        return
    if use_cuda:
        words = "The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead."
        warnings.warn(words, FutureWarning, stacklevel=2)
    if not use_cpu and not use_kineto:
        raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
    if _CUDA in (options.get("activity_filters") or {}):
        raise errors.unsupported("torch.profiler's choice among CUDA activities", "Ask for ProfilerActivity.CUDA.")
    _real_init(self, use_kineto=True, **options)
    self.use_cuda, self.use_device, self.use_cpu = use_cuda, "cuda", use_cpu
    setattr(self, _STATE, _State(self, with_cpu=use_cpu))


def start_trace(self: Any) -> None:
    """Stands in for the moment when a profile begins to record."""
    private.start_profile(self)
    state = _state_of(self)
    if state is not None:
        state.session = Session(active(), self)
        state.session.start()


def leave(self: Any, *exception: Any) -> Any:
    """Stands in for `profile.__exit__`; torch waits for the GPU there, as on CUDA."""
    state = _state_of(self)
    try:
        return _real_exit(self, *exception)
    finally:
        if state is not None and state.session is not None:
            state.session.stop()


def build_events(self: Any) -> None:
    """Stands in for what makes the events of a profile when they are first asked for."""
    state = _state_of(self)
    if state is None or self._function_events is not None or getattr(self.experimental_config, "trace_only", False):
        private.build_profile(self)
        return
    self._needs_processing = False
    tree = state.tree()
    made = [] if tree is None else Maker(tree, with_cpu=state.with_cpu).events()
    found: Any = _Events(made, use_device="cuda", profile_memory=self.profile_memory, with_flops=self.with_flops)
    found.build()
    if self._old_function_events and self.acc_events:
        found.extend(self._old_function_events)
        self._old_function_events = None
    self._function_events = found


def export_chrome_trace(self: Any, path: str, *args: Any, **options: Any) -> Any:
    """Stands in for `profile.export_chrome_trace`, which the newer profiler calls."""
    state = _state_of(self)
    if state is None or state.session is None:
        return _real_export(self, path, *args, **options)
    tree = state.tree()
    assert tree is not None
    chrome.save(path, self.kineto_results, tree, state.session.machine, with_cpu=state.with_cpu)
    return None


def toggle_collection_dynamic(self: Any, enabled: bool, activities: Any) -> Any:
    """Stands in for the profiler's pause."""
    if _state_of(self) is not None:
        raise errors.unsupported("torch.profiler.profile.toggle_collection_dynamic", "Use a schedule.")
    return _real_toggle(self, enabled, activities)


def export_memory_timeline(self: Any, *args: Any, **options: Any) -> Any:
    """Stands in for a picture of memory, for which torch needs to know each block of the GPU."""
    if self.use_device == "cuda" and active().gpus:
        advice = "Use profile_memory=True and key_averages(), or torch.cuda.memory_stats()."
        raise errors.unsupported("torch.profiler.profile.export_memory_timeline", advice)
    return _real_timeline(self, *args, **options)


def emit_nvtx(self: Any) -> Any:
    """Stands in for the entering of `torch.autograd.profiler.emit_nvtx`."""
    raise errors.unsupported("torch.autograd.profiler.emit_nvtx", "Use torch.cuda.nvtx.range or record_function.")


def stop_what_runs() -> None:
    """A profile that was started and not stopped ends with its machine."""
    session = current()
    if session is not None:
        leave(session.profile, None, None, None)
