"""Answers that come unasked, twice, early or late are noticed at once; the judge never waits forever."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import pytest

from gpututor.judge.channel import Channel, DeadlinePassed, WorkerSession
from gpututor.protocol.frames import EndOfFrames, Frame, FrameError, read_frame, write_frame
from gpututor.protocol.messages import SMALL, TICKET
from tests.support.threads import started
from tests.support.timeouts import wait_for

Behavior = Callable[[BinaryIO, Frame], object]
ANSWER = {"event": "returned"}
HALF_A_FRAME = struct.pack(">4sI", b"GPT1", 1000) + b"{"
LARGE_BUFFER = json.dumps({"buffers": [1 << 40]}).encode()


class Peer:
    """A worker that does as a test says, once for each request."""

    def __init__(self) -> None:
        here, self._there = socket.socketpair()
        printed, self._printing = os.pipe()
        self.channel = Channel(here, printed)
        self.channel.begin(time.monotonic() + 5, 1 << 10)
        self.session = WorkerSession(self.channel)
        self.stream: Any = self._there.makefile("rwb")
        self._threads: list[threading.Thread] = []

    def ask(self, *behaviors: Behavior) -> Frame:
        def serve() -> None:
            request = read_frame(self.stream)
            for behavior in behaviors:
                behavior(self.stream, request)

        self._threads.append(started(serve))
        return self.session.ask({"op": "call"})

    def hang_up(self, *_: object) -> None:
        self.stream.close()
        self._there.close()

    def end(self) -> None:
        for thread in self._threads:
            thread.join(10)
        self.hang_up()
        self.channel.close()
        os.close(self._printing)


def test_the_newest_line_is_reported_while_the_judge_waits(peer: Peer) -> None:
    newest: list[str] = []
    peer.channel.look = lambda: None
    peer.channel.on_output = newest.append

    def prints(stream: BinaryIO, request: Frame) -> None:
        os.write(peer._printing, b"epoch 1\n" * 1000 + b"epoch \xff2\n\n")
        wait_for(lambda: newest)

    peer.ask(prints, answers())
    peer.channel.begin(time.monotonic() + 5, 1 << 10)
    peer.ask(lambda *_: os.write(peer._printing, b"of another run"), lambda *_: time.sleep(0.6), answers())
    assert newest == ["epoch �2"]


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.end()


def answers(**more: object) -> Behavior:
    """Return the behavior of an honest worker, with `more` fields in its answer."""
    return lambda stream, request: write_frame(stream, {**ANSWER, TICKET: request.header[TICKET], **more})


def writes(content: bytes) -> Behavior:
    """Return a behavior that writes bytes instead of a frame."""

    def write(stream: BinaryIO, request: Frame) -> None:
        stream.write(content)
        stream.flush()

    return write


def test_answers_are_accepted_without_tickets_and_changed_names_collected(peer: Peer) -> None:
    for _ in range(2):
        assert peer.ask(answers()).header == ANSWER
    peer.session.check_silence()
    peer.ask(answers(changed=["torch.zeros"]))
    peer.ask(answers(changed=["torch.zeros", "\x1b[31mtime.time"]))
    first, second = peer.session.changed
    assert first == "torch.zeros"
    assert "\x1b" not in second


@pytest.mark.parametrize(
    "header", [{}, *({TICKET: ticket} for ticket in (None, "", "0" * 32, 7, ["0" * 32], {"a": 1}))]
)
def test_an_answer_with_another_ticket_is_refused(peer: Peer, header: dict[str, object]) -> None:
    with pytest.raises(FrameError):
        peer.ask(lambda stream, request: write_frame(stream, {**ANSWER, **header}))


def test_a_repeated_answer_is_refused(peer: Peer) -> None:
    tickets: list[str] = []

    def repeat(stream: BinaryIO, request: Frame) -> None:
        tickets.append(request.header[TICKET])
        write_frame(stream, {**ANSWER, TICKET: tickets[0]})

    peer.ask(repeat)
    with pytest.raises(FrameError):
        peer.ask(repeat)
    assert len(set(tickets)) == 2


def test_an_answer_before_the_request_is_refused(peer: Peer) -> None:
    write_frame(peer.stream, {**ANSWER, TICKET: "0" * 32})
    with pytest.raises(FrameError):
        peer.session.ask({"op": "call"})


@pytest.mark.parametrize(
    "more", [answers(), *map(writes, (b"x", b"GPT1", struct.pack(">4sI", b"GPT1", 1 << 31)))], ids=range(4)
)
def test_anything_after_an_answer_is_noticed(peer: Peer, more: Behavior) -> None:
    peer.ask(answers(), more)
    wait_for(peer.channel.has_unread)
    for ask in (peer.session.check_silence, lambda: peer.session.ask({"op": "leave"})):
        with pytest.raises(FrameError):
            ask()


def test_half_an_answer_passes_the_deadline(peer: Peer) -> None:
    peer.channel.begin(time.monotonic() + 0.2, 1 << 10)
    with pytest.raises(DeadlinePassed):
        peer.ask(writes(HALF_A_FRAME))


def test_only_waits_count_and_all_together(peer: Peer) -> None:
    peer.channel.begin(time.monotonic() + 0.5, 1 << 10)
    for _ in range(3):
        time.sleep(0.4)
        peer.ask(answers())
    peer.channel.begin(time.monotonic() + 0.5, 1 << 10)
    late = (lambda *_: time.sleep(0.3), answers())
    peer.ask(*late)
    with pytest.raises(DeadlinePassed):
        peer.ask(*late)


def test_half_an_answer_and_the_end_is_a_truncated_frame(peer: Peer) -> None:
    with pytest.raises(FrameError) as error:
        peer.ask(writes(HALF_A_FRAME), peer.hang_up)
    assert not isinstance(error.value, EndOfFrames)


def test_a_worker_that_is_gone_has_its_own_error(peer: Peer) -> None:
    peer.hang_up()
    with pytest.raises(EndOfFrames):
        peer.session.ask({"op": "call"})


@pytest.mark.parametrize(
    ("header_bytes", "header"),
    [(SMALL.header_bytes + 1, b""), (len(LARGE_BUFFER), LARGE_BUFFER)],
    ids=["header", "buffer"],
)
def test_an_announced_excess_is_refused_before_it_is_read(peer: Peer, header_bytes: int, header: bytes) -> None:
    with pytest.raises(FrameError):
        peer.ask(writes(struct.pack(">4sI", b"GPT1", header_bytes) + header))


@pytest.mark.parametrize(
    "field",
    [
        *({"changed": names} for names in ("torch.zeros", {"a": 1}, [1], None)),
        *({"outside": lines} for lines in (3, ["3"], [True], [-1], [1 << 40])),
    ],
)
def test_reports_about_the_worker_are_names_and_lines(peer: Peer, field: dict[str, object]) -> None:
    with pytest.raises(FrameError):
        peer.ask(answers(**field))
