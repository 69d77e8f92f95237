"""Ranks: a submission that runs in several processes at once, each on a machine of its own.

They are forked from a worker that has imported torch and computed nothing, so that they have no threads to lose. The
worker itself never enters the machine: it hands each question on, and puts the answers together in the order of ranks.
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
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import torch

from gpututor.processes import die_with_parent
from gpututor.protocol.frames import Frame, FrameError, read_frame, write_frame
from gpututor.protocol.messages import OPEN_FILES, SENT_BY_OTHERS, TICKET, Failure, FailureKind, Sizes, signal_name
from gpututor.worker.connection import Connection
from gpututor.worker.files import remove_written, written
from gpututor.worker.given import GivenBroke


def begin_rank(
    number: int, count: int, connection: socket.socket, told: int, serve: Callable[[BinaryIO], int]
) -> NoReturn:
    """Be rank `number` of `count`, right after the fork, until the worker closes `connection`.

    `told`: where it writes its stack on SIGUSR1. Of what else the worker has open nothing stays but what prints.
    """
    code = 1
    try:
        die_with_parent()
        first, second = sorted((connection.fileno(), told))
        os.closerange(3, first)
        os.closerange(first + 1, second)
        os.closerange(second + 1, OPEN_FILES)
        faulthandler.register(signal.SIGUSR1, file=told)
        # As a launcher does it. The way to the others leads over this machine alone.
        os.environ.update(RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE=str(count), GLOO_SOCKET_IFNAME=_LOOPBACK)
        stream: BinaryIO = connection.makefile("rwb")  # type: ignore[assignment]
        code = serve(stream)
    except BaseException:  # the worker sees that it ended
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        # Nothing of the worker's is to be ended here.
        os._exit(code)


_LOOPBACK = "lo" if sys.platform == "linux" else "lo0"


def device_of(rank: int | None, device: str, gpus: int) -> torch.device:
    """The device that is meant for a rank: one of its own where there are enough."""
    if rank is None or not device.startswith("cuda") or gpus < 2:
        return torch.device(device)
    return torch.device("cuda", rank % gpus)


def let_go() -> dict[str, Any]:
    """Whether a process group is still there; it is not any more."""
    distributed = torch.distributed
    left = distributed.is_available() and distributed.is_initialized()
    if left:
        distributed.destroy_process_group()
    return {"group_left": left}


GRACE_S = 0.5
"""How long the others are waited for when one rank has failed: the first to speak need not be the cause."""
_LINE = 'File "{}", line (\\d{{1,7}}) in '
_SECOND_HAND = re.compile("onnection|gloo|timed out|peer", re.IGNORECASE)
"""In errors of ranks whose partner is gone."""

Serve = Callable[[BinaryIO, Path], int]


class _Rank:
    """One process, as the worker knows it."""

    def __init__(self, number: int, pid: int, connection: socket.socket, stack: int) -> None:
        self.number = number
        self.pid = pid
        self.stream: BinaryIO = connection.makefile("rwb")  # type: ignore[assignment]
        self.connection = connection
        self.stack = stack

    def end(self, patience_s: float = 0.0) -> int:
        """Its exit code, or minus a signal's number. Unless it ends by itself within `patience_s`, it is killed."""
        ends = time.monotonic() + patience_s
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        while not pid and time.monotonic() < ends:
            time.sleep(0.005)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):
            self.stream.close()
        self.connection.close()
        os.close(self.stack)
        return os.waitstatus_to_exitcode(status)

    def line_of(self, path: Path) -> int | None:
        """The line of the learner's file where it is now."""
        os.kill(self.pid, signal.SIGUSR1)
        if not select.select([self.stack], [], [], 0.3)[0]:
            return None
        time.sleep(0.05)
        said = os.read(self.stack, 1 << 16).decode("utf-8", "replace")
        found = re.search(_LINE.format(re.escape(str(path))), said)
        return None if found is None else int(found[1])


class Ranks:
    """All of them. `ask` raises `RankFailed` when one of them does not answer well; then all are gone."""

    def __init__(self, count: int, scratch: Path, path: Path, within_s: float, serve: Serve) -> None:
        self._count = count
        self._path = path
        self._left_s = within_s
        """In which they have to answer: what the judge does between two questions takes nothing of it."""
        self.changed: dict[str, None] = {}
        """What was replaced in any of them."""
        self.outside: dict[int, None] = {}
        """At which lines any of them used a device between calls."""
        self._ranks: list[_Rank] = []
        for number in range(count):
            ours, theirs = socket.socketpair()
            stack, told = os.pipe()
            pid = os.fork()
            if pid == 0:
                begin_rank(number, count, theirs, told, lambda stream: serve(stream, scratch))
            theirs.close()
            os.close(told)
            self._ranks.append(_Rank(number, pid, ours, stack))

    def ask(self, headers: list[dict[str, Any]], buffers: tuple[bytes, ...] = ()) -> list[Frame]:
        """The answer of each rank to its question. Raises `RankFailed`; `RuntimeError` when ours broke."""
        tickets = [secrets.token_hex(8) for _ in headers]
        answers: dict[int, Frame] = {}
        dead: list[int] = []
        began = time.monotonic()
        for rank, header, ticket in zip(self._ranks, headers, tickets, strict=True):
            with contextlib.suppress(OSError):  # told below: it does not answer
                write_frame(rank.stream, {**header, TICKET: ticket}, buffers)
        ends = began + self._left_s
        while len(answers) + len(dead) < self._count and (left := ends - time.monotonic()) > 0:
            waiting = [rank for rank in self._ranks if rank.number not in answers and rank.number not in dead]
            for rank in _ready(waiting, left):
                try:
                    frame = read_frame(rank.stream)
                    good = frame.header.pop(TICKET, None) == tickets[rank.number]
                except (FrameError, OSError):
                    good = False
                if not good:
                    dead.append(rank.number)
                    ends = min(ends, time.monotonic() + GRACE_S)
                    continue
                answers[rank.number] = frame
                self.changed |= dict.fromkeys(map(str, frame.header.pop("changed", [])))
                self.outside |= dict.fromkeys(map(int, frame.header.pop("outside", [])))
                if frame.header.get("event") == "failed":
                    ends = min(ends, time.monotonic() + GRACE_S)
        self._left_s -= time.monotonic() - began
        failure = self._failure(answers, dead)
        if failure is not None:
            self.end()
            raise RankFailed(failure)
        return [answers[number] for number in range(self._count)]

    def end(self) -> None:
        """All are gone."""
        ranks, self._ranks = self._ranks, []
        for rank in ranks:
            rank.end()

    def _failure(self, answers: dict[int, Frame], dead: list[int]) -> Failure | None:
        for frame in answers.values():
            if frame.header.get("event") == "broken":
                words = f"a rank broke:\n{frame.header.get('words')}"
                given = frame.header.get("given")
                raise RuntimeError(words) if given is None else GivenBroke(given)
        if dead:
            # Its end of the connection is closed before it is gone.
            status = self._ranks.pop(dead[0]).end(patience_s=2.0)
            how = f"was ended by {signal_name(-status)}" if status < 0 else f"ended, with exit status {status}"
            kind: FailureKind = "rank killed" if -status in SENT_BY_OTHERS else "rank ended"
            return Failure(kind, "", f"rank {dead[0]} of {self._count} {how}", None, "")
        failed = {
            number: Failure.from_json(frame.header["failure"])
            for number, frame in answers.items()
            if frame.header.get("event") == "failed"
        }
        if failed:
            messages = {failure.message for failure in failed.values()}
            number = min(failed, key=lambda one: bool(_SECOND_HAND.search(failed[one].message)))
            where = f"rank {number} of {self._count}"
            if len(failed) == self._count and len(messages) == 1:
                number, where = 0, "every rank"
            return replace(failed[number], message=f"{failed[number].message} (in {where})")
        hanging = [rank for rank in self._ranks if rank.number not in answers]
        if not hanging:
            return None
        names = " and ".join(f"rank {rank.number}" for rank in hanging)
        words = f"{names} of {self._count} still ran" + (", the others had returned" if answers else "")
        return Failure("rank hangs", "", words, hanging[0].line_of(self._path), "")


class RankFailed(Exception):
    """One of the ranks did not do what it was asked for."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _ready(ranks: list[_Rank], left_s: float) -> list[_Rank]:
    found, _, _ = select.select([rank.connection for rank in ranks], [], [], left_s)
    return [rank for rank in ranks if rank.connection in found]


def serve_ranks(line: Connection, scratch: Path, load: dict[str, Any], serve: Serve) -> None:
    """One `load` and its `call`s, up to the `leave` that ends them, each answered by all ranks together."""
    count, within_s = load.pop("processes"), load["within_s"]
    sizes = line.sizes = Sizes.from_json(load["sizes"])
    each = replace(sizes, result_bytes=sizes.result_bytes // count, events=sizes.events // count)
    path = scratch / load["file_name"]
    path.write_text(load["source"], encoding="utf-8")
    ranks = Ranks(count, scratch, path, within_s, serve)
    line.noticed = lambda: {"changed": [*ranks.changed], "outside": [*ranks.outside]}
    try:
        question = {**load, "sizes": each.to_json(), "files": []}
        line.answer(*_together(ranks, [{**question, "rank": number} for number in range(count)], (), "loaded"))
        calls = 0
        while (frame := line.next()).header["op"] == "call":
            store = scratch / f".ranks-{calls}"
            calls += 1
            more = {"world_size": count, "init_method": f"file://{store}"}
            questions = [{**frame.header, "more": {"rank": number, **more}} for number in range(count)]
            remove_written(scratch, load["files"], path.name)
            header, buffers = _together(ranks, questions, frame.buffers, "returned")
            with contextlib.suppress(OSError):
                store.unlink()
            if header["event"] == "returned":
                found, contents = written(scratch, load["files"], sizes, path.name)
                header, buffers = header | found, buffers + contents
            line.answer(header, buffers)
        if frame.header["op"] != "leave":
            raise ValueError(f"ranks cannot {frame.header['op']}")
    finally:
        ranks.end()
    line.answer({"event": "left"})
    line.noticed = None


def _together(
    ranks: Ranks, questions: list[dict[str, Any]], buffers: tuple[bytes, ...], event: str
) -> tuple[dict[str, Any], list[bytes]]:
    try:
        frames = ranks.ask(questions, buffers)
    except RankFailed as failed:
        return {"event": "failed", "failure": failed.failure.to_json()}, []
    header = {
        "event": event,
        "ranks": [frame.header for frame in frames] if event == "returned" else [],
        "buffers_of": [len(frame.buffers) for frame in frames],
    }
    return header, [buffer for frame in frames for buffer in frame.buffers]
