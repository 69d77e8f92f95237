"""`asyncio` on the virtual clock."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import threading
import time
from typing import Any

import pytest

from gpututor.devices.virtual import virtual_gpu

S = 1_000_000_000
REAL_SLEEP = time.sleep


def ran(program: Any) -> int:
    """How far the clock went."""
    with virtual_gpu(0) as machine:
        asyncio.run(program())
        return machine.clock.host.now


def test_a_sleep_of_an_hour_moves_the_clock_by_an_hour() -> None:
    async def program() -> None:
        await asyncio.sleep(3600)

    assert ran(program) == 3600 * S


def test_a_thread_that_an_earlier_machine_left_behind_does_not_hold_the_loop_up() -> None:
    release = threading.Event()
    with virtual_gpu(0):
        left_behind = threading.Thread(target=release.wait, daemon=True)
        left_behind.start()

    async def program() -> None:
        await asyncio.sleep(3600)

    try:
        assert ran(program) == 3600 * S
    finally:
        release.set()
        left_behind.join()


def test_threads_that_multiprocessing_keeps_for_itself_do_not_either() -> None:
    async def program() -> None:
        queue: multiprocessing.Queue[int] = multiprocessing.Queue()
        queue.put(1)  # its feeder is a thread that lives on
        assert queue.get() == 1
        await asyncio.sleep(3600)
        queue.close()

    assert ran(program) == 3600 * S


def test_sleeps_beside_each_other_take_as_long_as_the_longest_and_end_in_order() -> None:
    ended = []

    async def one(seconds: float) -> None:
        await asyncio.sleep(seconds)
        ended.append((seconds, time.perf_counter_ns()))

    async def program() -> None:
        await asyncio.gather(*(one(seconds) for seconds in (3, 1, 2)))

    assert ran(program) == 3 * S + 50
    assert ended == [(1, S + 50), (2, 2 * S + 50), (3, 3 * S + 50)]


def test_a_blocking_sleep_delays_the_others() -> None:
    async def blocking() -> None:
        time.sleep(5)

    async def program() -> None:
        await asyncio.gather(asyncio.sleep(1), blocking())

    assert ran(program) == 5 * S


def test_time_limits_hold() -> None:
    async def program() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.sleep(100), 3)
        await asyncio.wait_for(asyncio.sleep(2), 3)
        async with asyncio.timeout(10):
            await asyncio.sleep(4)

    assert ran(program) == 9 * S


def test_the_loops_time_is_the_hosts() -> None:
    async def program() -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        time.sleep(2)
        assert loop.time() - before == 2
        done = loop.create_future()
        loop.call_at(loop.time() + 7, done.set_result, None)
        await done

    assert ran(program) == 9 * S


def test_work_in_a_thread_is_waited_for() -> None:
    async def program() -> None:
        await asyncio.to_thread(time.sleep, 2)
        await asyncio.gather(asyncio.to_thread(time.sleep, 3), asyncio.to_thread(time.sleep, 1))
        assert await asyncio.wait_for(asyncio.to_thread(_really_busy), 60) == "done"

    assert ran(program) == 5 * S


def _really_busy() -> str:
    REAL_SLEEP(0.02)
    return "done"


def test_a_sleep_beside_a_connection_ends_and_moves_the_clock() -> None:
    async def program() -> None:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.05)
        theirs.send(b"x")
        assert await asyncio.wait_for(reader.read(1), 60) == b"x"
        writer.close()
        theirs.close()

    assert ran(program) == 50_000_000


def test_a_program_of_another_process_is_waited_for() -> None:
    async def program() -> None:
        child = await asyncio.create_subprocess_exec("sleep", "0.05")
        assert await asyncio.wait_for(child.wait(), 60) == 0

    assert ran(program) == 0


def test_a_loop_that_is_older_than_the_machine_keeps_real_time() -> None:
    async def program() -> int:
        with virtual_gpu(0) as machine:
            await asyncio.sleep(0.001)
            return machine.clock.host.now

    assert asyncio.run(program()) == 0
