"""Ranks: a submission that runs in several processes at once, each on its own machine.

They are forked from a worker that has imported torch but computed nothing. So it has no threads, which a fork would
lose. The worker never enters the machine: it passes each request on, and returns the answers in the order of ranks.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import secrets
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import torch

from gpututor.processes import close_all_but, die_with_parent, run_and_exit
from gpututor.protocol.frames import Frame, FrameError, read_frame, write_frame
from gpututor.protocol.messages import SENT_BY_OTHERS, TICKET, Failure, FailureKind, Sizes, signal_name
from gpututor.worker.connection import Connection, failed
from gpututor.worker.files import collect_files, remove_written
from gpututor.worker.submission import GivenFailed, SubmissionFailed


def begin_rank(
    number: int, count: int, connection: socket.socket, stack_pipe: int, serve: Callable[[BinaryIO], int]
) -> NoReturn:
    """Serve as rank `number` of `count` after a fork. SIGUSR1 writes the stack to `stack_pipe`."""

    def run() -> int:
        die_with_parent()
        close_all_but(0, 1, 2, connection.fileno(), stack_pipe)
        faulthandler.register(signal.SIGUSR1, file=stack_pipe)
        # As torchrun does; the ranks communicate over the loopback interface only.
        os.environ.update(RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE=str(count), GLOO_SOCKET_IFNAME=_LOOPBACK)
        stream: BinaryIO = connection.makefile("rwb")  # type: ignore[assignment]
        return serve(stream)

    run_and_exit(run)  # skips `atexit` functions of the worker


_LOOPBACK = "lo" if sys.platform == "linux" else "lo0"


def device_of(rank: int | None, device: str, gpus: int) -> torch.device:
    """Return the device of a rank: its own if there are enough."""
    if rank is None or not device.startswith("cuda") or gpus < 2:
        return torch.device(device)
    return torch.device("cuda", rank % gpus)


def destroy_process_group() -> dict[str, Any]:
    """Destroy the process group; return a field with True if there was one."""
    distributed = torch.distributed
    left = distributed.is_available() and distributed.is_initialized()
    if left:
        distributed.destroy_process_group()
    return {"group_left": left}


GRACE_S = 0.5
"""Seconds to wait for the other ranks after one failed: the first to fail need not be the cause."""
_LINE = 'File "{}", line (\\d{{1,7}}) in '
_CONSEQUENCE = re.compile("onnection|gloo|timed out|peer", re.IGNORECASE)
"""Words in the errors of ranks that failed because another rank is gone."""

Serve = Callable[[BinaryIO, Path], int]


class _Rank:
    """A rank, as the worker sees it."""

    def __init__(self, number: int, pid: int, connection: socket.socket, stack: int) -> None:
        self.number = number
        self.pid = pid
        self.stream: BinaryIO = connection.makefile("rwb")  # type: ignore[assignment]
        self.connection = connection
        self.stack = stack

    def end(self, patience_s: float = 0.0) -> int:
        """Return its exit code, or minus a signal's number; kill it unless it ends within `patience_s`."""
        ends = time.monotonic() + patience_s
        while not (ended := os.waitpid(self.pid, os.WNOHANG))[0] and time.monotonic() < ends:
            time.sleep(0.005)
        if not ended[0]:
            os.kill(self.pid, signal.SIGKILL)
            ended = os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):  # the rank may have closed its end already
            self.stream.close()
        self.connection.close()
        os.close(self.stack)
        return os.waitstatus_to_exitcode(ended[1])

    def line_of(self, path: Path) -> int | None:
        """Return the current line of the rank in the learner's file."""
        os.kill(self.pid, signal.SIGUSR1)
        if not select.select([self.stack], [], [], 0.3)[0]:
            return None
        time.sleep(0.05)
        dump = os.read(self.stack, 1 << 16).decode("utf-8", "replace")
        match = re.search(_LINE.format(re.escape(str(path))), dump)
        return None if match is None else int(match[1])


class Ranks:
    """All ranks. `ask` raises `SubmissionFailed` if one of them fails; then all are gone."""

    def __init__(self, count: int, scratch: Path, path: Path, within_s: float, serve: Serve) -> None:
        self._count, self._path = count, path
        self._left_s = within_s
        """Seconds left for answers; the judge's own time between requests does not count."""
        self.changed: dict[str, None] = {}
        """Names of code that was replaced in any rank."""
        self.outside: dict[int, None] = {}
        """Lines at which a rank used a device between calls."""
        self._ranks: list[_Rank] = []
        for number in range(count):
            ours, theirs = socket.socketpair()
            stack, stack_pipe = os.pipe()
            pid = os.fork()
            if pid == 0:
                begin_rank(number, count, theirs, stack_pipe, lambda stream: serve(stream, scratch))
            theirs.close()
            os.close(stack_pipe)
            self._ranks.append(_Rank(number, pid, ours, stack))

    def ask(self, headers: list[dict[str, Any]], buffers: tuple[bytes, ...] = ()) -> list[Frame]:
        """Return the answer of each rank. Raises `SubmissionFailed`; `RuntimeError` if gpututor failed."""
        tickets = [secrets.token_hex(8) for _ in headers]
        answers: dict[int, Frame] = {}
        lost: list[int] = []
        began = time.monotonic()
        for rank, header, ticket in zip(self._ranks, headers, tickets, strict=True):
            with contextlib.suppress(OSError):  # reported below: it does not answer
                write_frame(rank.stream, {**header, TICKET: ticket}, buffers)
        ends = began + self._left_s
        while len(answers) + len(lost) < self._count and (left := ends - time.monotonic()) > 0:
            waiting = [rank for rank in self._ranks if rank.number not in answers and rank.number not in lost]
            readable, _, _ = select.select([rank.connection for rank in waiting], [], [], left)
            for rank in [rank for rank in waiting if rank.connection in readable]:
                try:
                    frame = read_frame(rank.stream)
                    good = frame.header.pop(TICKET, None) == tickets[rank.number]
                except (FrameError, OSError):
                    good = False
                if not good:
                    lost.append(rank.number)
                    ends = min(ends, time.monotonic() + GRACE_S)
                    continue
                answers[rank.number] = frame
                self.changed |= dict.fromkeys(map(str, frame.header.pop("changed", [])))
                self.outside |= dict.fromkeys(map(int, frame.header.pop("outside", [])))
                if frame.header.get("event") == "failed":
                    ends = min(ends, time.monotonic() + GRACE_S)
        self._left_s -= time.monotonic() - began
        failure = self._failure(answers, lost)
        if failure is not None:
            self.end()
            raise SubmissionFailed(failure)
        return [answers[number] for number in range(self._count)]

    def end(self) -> None:
        ranks, self._ranks = self._ranks, []
        for rank in ranks:
            rank.end()

    def _failure(self, answers: dict[int, Frame], lost: list[int]) -> Failure | None:
        for frame in answers.values():
            if frame.header.get("event") == "broken":
                words = f"a rank broke:\n{frame.header.get('words')}"
                given = frame.header.get("given")
                raise RuntimeError(words) if given is None else GivenFailed(given)
        if lost:
            # A rank closes its connection before it exits.
            status = self._ranks.pop(lost[0]).end(patience_s=2.0)
            how = f"was ended by {signal_name(-status)}" if status < 0 else f"ended, with exit status {status}"
            kind: FailureKind = "rank killed" if -status in SENT_BY_OTHERS else "rank ended"
            return Failure(kind, "", f"rank {lost[0]} of {self._count} {how}", None, "")
        failures = {
            number: Failure.from_json(frame.header["failure"])
            for number, frame in answers.items()
            if frame.header.get("event") == "failed"
        }
        if failures:
            messages = {failure.message for failure in failures.values()}
            number = min(failures, key=lambda rank: bool(_CONSEQUENCE.search(failures[rank].message)))
            where = f"rank {number} of {self._count}"
            if len(failures) == self._count and len(messages) == 1:
                number, where = 0, "every rank"
            return replace(failures[number], message=f"{failures[number].message} (in {where})")
        hanging = [rank for rank in self._ranks if rank.number not in answers]
        if not hanging:
            return None
        names = " and ".join(f"rank {rank.number}" for rank in hanging)
        words = f"{names} of {self._count} still ran" + ("; the others had returned" if answers else "")
        return Failure("rank hangs", "", words, hanging[0].line_of(self._path), "")


def serve_ranks(connection: Connection, scratch: Path, load: dict[str, Any], serve: Serve) -> None:
    """Serve one `load` and its calls up to `leave`, each answered by all ranks together."""
    count, within_s = load.pop("processes"), load["within_s"]
    sizes = connection.sizes = Sizes(**load["sizes"])
    of_a_rank = replace(sizes, result_bytes=sizes.result_bytes // count, events=sizes.events // count)
    path = scratch / load["file_name"]
    path.write_text(load["source"], encoding="utf-8")
    ranks = Ranks(count, scratch, path, within_s, serve)
    connection.changes = lambda: {"changed": [*ranks.changed], "outside": [*ranks.outside]}
    try:
        request = {**load, "sizes": asdict(of_a_rank), "files": []}
        connection.answer(*_ask_all(ranks, [{**request, "rank": number} for number in range(count)], (), "loaded"))
        calls = 0
        while (frame := connection.next()).header["op"] == "call":
            store = scratch / f".ranks-{calls}"
            calls += 1
            more = {"world_size": count, "init_method": f"file://{store}"}
            requests = [{**frame.header, "more": {"rank": number, **more}} for number in range(count)]
            remove_written(scratch, load["files"], path.name)
            header, buffers = _ask_all(ranks, requests, frame.buffers, "returned")
            with contextlib.suppress(OSError):
                store.unlink()
            if header["event"] == "returned":
                listing, contents = collect_files(scratch, load["files"], sizes, path.name)
                header, buffers = header | listing, buffers + contents
            connection.answer(header, buffers)
        if frame.header["op"] != "leave":
            raise ValueError(f"ranks cannot {frame.header['op']}")
    finally:
        ranks.end()
    connection.answer({"event": "left"})
    connection.changes = None


def _ask_all(
    ranks: Ranks, requests: list[dict[str, Any]], buffers: tuple[bytes, ...], event: str
) -> tuple[dict[str, Any], list[bytes]]:
    try:
        frames = ranks.ask(requests, buffers)
    except SubmissionFailed as error:
        return failed(error.failure), []
    header = {
        "event": event,
        "ranks": [frame.header for frame in frames] if event == "returned" else [],
        "buffers_of": [len(frame.buffers) for frame in frames],
    }
    return header, [buffer for frame in frames for buffer in frame.buffers]
