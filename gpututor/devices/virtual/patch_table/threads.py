"""Threads: their modes, and their clocks where they wait for each other."""

from __future__ import annotations

import queue

from gpututor.devices.virtual.parallel import handing_over, pools, queues, threads
from gpututor.devices.virtual.patch_table.rows import each
from gpututor.devices.virtual.patches import Patch

_CLOCKS = "each thread has a clock, and who waits goes on no earlier than what it waited for was ready"

PATCHES: tuple[Patch, ...] = (
    *each(
        "threading.Thread",
        "torch's modes belong to one thread, and so does its clock",
        start=threads.thread_start,
        join=threads.thread_join,
        _bootstrap_inner=threads.thread_bootstrap,
    ),
    *each("_thread", "torch's modes belong to one thread", start_new_thread=threads.start_new_thread),
    *each("concurrent.futures.thread._WorkItem", "a pool's threads may be older than the machine", run=pools.run_item),
    *each(
        "multiprocessing.pool.ThreadPool",
        "a pool's threads may be older than the machine",
        **{name: pools.giver_of_work(name) for name in ("apply_async", "_map_async", "imap", "imap_unordered")},
    ),
    *each("multiprocessing.pool.ApplyResult", _CLOCKS, wait=pools.result_wait),
    *each("concurrent.futures.thread.ThreadPoolExecutor", _CLOCKS, submit=pools.submit),
    *each(
        "concurrent.futures._base.Future",
        _CLOCKS,
        set_result=pools.future_set_result,
        set_exception=pools.future_set_exception,
        result=pools.future_result,
        exception=pools.future_exception,
    ),
    *each(
        "threading.Event",
        _CLOCKS,
        set=handing_over.event_set,
        wait=handing_over.event_wait,
        is_set=handing_over.event_is_set,
        isSet=handing_over.event_is_set,
    ),
    *each(
        "threading.Condition",
        _CLOCKS,
        __enter__=handing_over.condition_enter,
        wait=handing_over.condition_wait,
        wait_for=handing_over.condition_wait_for,
        notify=handing_over.condition_notify,
    ),
    *each("threading.Barrier", _CLOCKS, wait=handing_over.barrier_wait),
    *each(
        "threading.Semaphore",
        _CLOCKS,
        acquire=handing_over.semaphore_acquire,
        __enter__=handing_over.semaphore_enter,
        release=handing_over.semaphore_release,
    ),
    *each("threading.BoundedSemaphore", _CLOCKS, release=handing_over.bounded_release),
    *each(
        "queue.Queue",
        _CLOCKS,
        get=queues.queue_get,
        put=queues.queue_put,
        task_done=queues.task_done,
        join=queues.queue_join,
        **queues.with_times(queue.Queue),
    ),
    *each("queue.LifoQueue", _CLOCKS, **queues.with_times(queue.LifoQueue)),
    *each("queue.PriorityQueue", _CLOCKS, **queues.with_times(queue.PriorityQueue)),
    *each("queue", _CLOCKS, SimpleQueue=queues.SimpleQueue),
)
