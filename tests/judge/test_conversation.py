"""A worker that answers what was not asked, twice, early or late is noticed at once; nothing waits for it for ever."""

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

Stream = BinaryIO
Behaviour = Callable[[Stream, Frame], None]


class Told:
    """A conversation with a worker that behaves as told, once for each question."""

    def __init__(self) -> None:
        here, self._there = socket.socketpair()
        self._printed, self._printing = os.pipe()
        self.channel = Channel(here, self._printed)
        self.channel.begin(time.monotonic() + 5, 1 << 10)
        self.conversation = WorkerSession(self.channel)
        self.stream: Any = self._there.makefile("rwb")
        self._threads: list[threading.Thread] = []

    def ask(self, behaviour: Behaviour, header: dict[str, Any] | None = None) -> Frame:
        def serve() -> None:
            behaviour(self.stream, read_frame(self.stream))

        thread = threading.Thread(target=serve)
        thread.start()
        self._threads.append(thread)
        return self.conversation.ask(header or {"op": "call"})

    def hang_up(self) -> None:
        self.stream.close()
        self._there.close()

    def end(self) -> None:
        for thread in self._threads:
            thread.join(10)
        self.hang_up()
        self.channel.close()
        os.close(self._printing)


@pytest.fixture
def told() -> Iterator[Told]:
    made = Told()
    yield made
    made.end()


def honest(stream: Stream, asked: Frame) -> None:
    write_frame(stream, {"event": "returned", TICKET: asked.header[TICKET]})


def test_an_answer_to_the_question_is_taken_and_loses_its_ticket(told: Told) -> None:
    assert told.ask(honest).header == {"event": "returned"}
    assert told.ask(honest).header == {"event": "returned"}
    told.conversation.check_silence()


@pytest.mark.parametrize("ticket", [None, "", "0" * 32, 7, ["0" * 32], {"a": 1}])
def test_an_answer_with_another_ticket_is_refused(told: Told, ticket: object) -> None:
    with pytest.raises(FrameError, match="was not asked"):
        told.ask(lambda stream, asked: write_frame(stream, {"event": "returned", TICKET: ticket}))


def test_an_answer_without_a_ticket_is_refused(told: Told) -> None:
    with pytest.raises(FrameError, match="was not asked"):
        told.ask(lambda stream, asked: write_frame(stream, {"event": "returned"}))


def test_an_answer_that_is_said_once_more_is_refused(told: Told) -> None:
    seen: list[str] = []

    def answer(stream: Stream, asked: Frame) -> None:
        seen.append(asked.header[TICKET])
        write_frame(stream, {"event": "returned", TICKET: seen[0]})

    told.ask(answer)
    with pytest.raises(FrameError, match="was not asked"):
        told.ask(answer)
    assert len(set(seen)) == 2


def test_an_answer_that_was_written_ahead_is_refused_before_the_question_is_asked(told: Told) -> None:
    write_frame(told.stream, {"event": "returned", TICKET: "0" * 32})

    with pytest.raises(FrameError, match="nobody asked for"):
        told.conversation.ask({"op": "call"})


def test_a_second_answer_to_one_question_is_refused(told: Told) -> None:
    def twice(stream: Stream, asked: Frame) -> None:
        honest(stream, asked)
        honest(stream, asked)

    told.ask(twice)
    _until_unasked(told)
    with pytest.raises(FrameError, match="nobody asked for"):
        told.conversation.ask({"op": "leave"})


@pytest.mark.parametrize("more", [b"x", b"GPT1", struct.pack(">4sI", b"GPT1", 1 << 31)])
def test_whatever_comes_after_the_last_answer_is_noticed(told: Told, more: bytes) -> None:
    def and_more(stream: Stream, asked: Frame) -> None:
        honest(stream, asked)
        stream.write(more)
        stream.flush()

    told.ask(and_more, {"op": "leave"})
    _until_unasked(told)
    with pytest.raises(FrameError, match="nobody asked for"):
        told.conversation.check_silence()


def test_half_an_answer_and_then_nothing_is_a_deadline(told: Told) -> None:
    told.channel.begin(time.monotonic() + 0.2, 1 << 10)

    def half(stream: Stream, asked: Frame) -> None:
        stream.write(struct.pack(">4sI", b"GPT1", 1000) + b"{")
        stream.flush()

    with pytest.raises(DeadlinePassed):
        told.ask(half)


def test_what_the_judge_does_by_itself_takes_nothing_of_the_workers_time(told: Told) -> None:
    told.channel.begin(time.monotonic() + 0.5, 1 << 10)

    for _ in range(3):
        time.sleep(0.4)
        told.ask(honest)


def test_all_waiting_counts_together(told: Told) -> None:
    told.channel.begin(time.monotonic() + 0.5, 1 << 10)

    def late(stream: Stream, asked: Frame) -> None:
        time.sleep(0.3)
        honest(stream, asked)

    told.ask(late)
    with pytest.raises(DeadlinePassed):
        told.ask(late)


def test_half_an_answer_and_the_end_is_a_truncated_frame(told: Told) -> None:
    def half(stream: Stream, asked: Frame) -> None:
        stream.write(struct.pack(">4sI", b"GPT1", 1000) + b"{")
        stream.flush()
        told.hang_up()

    with pytest.raises(FrameError, match="early"):
        told.ask(half)


def test_a_worker_that_is_gone_is_told_as_such(told: Told) -> None:
    told.hang_up()
    with pytest.raises(EndOfFrames):
        told.conversation.ask({"op": "call"})


def test_more_than_the_judge_dictated_is_refused_before_it_is_read(told: Told) -> None:
    def announce(stream: Stream, asked: Frame) -> None:
        text = json.dumps({"event": "returned", TICKET: asked.header[TICKET], "buffers": [1 << 40]}).encode()
        stream.write(struct.pack(">4sI", b"GPT1", len(text)) + text)
        stream.flush()

    with pytest.raises(FrameError, match="too long"):
        told.ask(announce)


def test_a_header_over_its_bound_is_refused_before_it_is_read(told: Told) -> None:
    def announce(stream: Stream, asked: Frame) -> None:
        stream.write(struct.pack(">4sI", b"GPT1", SMALL.header_bytes + 1))
        stream.flush()

    with pytest.raises(FrameError, match="over the bound"):
        told.ask(announce)


def test_what_was_changed_is_gathered_over_all_answers(told: Told) -> None:
    def say(*names: str) -> Behaviour:
        return lambda stream, asked: write_frame(stream, {TICKET: asked.header[TICKET], "changed": list(names)})

    told.ask(say("torch.zeros"))
    told.ask(say("torch.zeros", "\x1b[31mtime.time"))
    first, second = told.conversation.changed
    assert first == "torch.zeros"
    assert "\x1b" not in second


@pytest.mark.parametrize("changed", ["torch.zeros", {"a": 1}, [1], None])
def test_what_was_changed_has_to_be_names(told: Told, changed: object) -> None:
    with pytest.raises(FrameError, match="list of names"):
        told.ask(lambda stream, asked: write_frame(stream, {TICKET: asked.header[TICKET], "changed": changed}))


def _until_unasked(told: Told) -> None:
    """What the other thread writes is there in a moment."""
    end = time.monotonic() + 60
    while not told.channel.has_unread() and time.monotonic() < end:
        time.sleep(0.001)


@pytest.mark.parametrize("lines", [3, ["3"], [True], [-1], [1 << 40]])
def test_lines_outside_of_calls_are_numbers_of_lines(told: Told, lines: object) -> None:
    with pytest.raises(FrameError, match="lines outside of calls"):
        told.ask(lambda stream, asked: write_frame(stream, {TICKET: asked.header[TICKET], "outside": lines}))
