"""A worker as the judge sees it: its pipes, scratch folder, resources, and how it ends."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from gpututor.errors import GradingError
from gpututor.judge.channel import Channel, DeadlinePassed
from gpututor.judge.isolation import Isolation
from gpututor.processes import descendants, is_alive, read_of_kernel, resume, stop_tree, tree
from gpututor.protocol.frames import Bounds, FrameError
from gpututor.protocol.messages import PROCESSES, SCRATCH_BYTES, SCRATCH_FILES, THREADS, resident_limit_bytes

EVERY_S = 0.05 if sys.platform == "linux" else 1.0
"""Between two looks: 0.2 ms where there is /proc, a child process `ps` elsewhere."""
AT_LEAST_EVERY_S = 0.5
"""Also where looking takes long: who makes it slow is not left alone for it."""
MOST_LOOKED_AT = PROCESSES + 16
"""Processes: more than may be there, those of the isolation included."""
_FIELD = re.compile(rb"^(RssAnon|RssShmem|Threads):\s*(\d+)", re.MULTILINE)
_SHARE = re.compile(rb"^Pss_(?:Anon|Shmem):\s*(\d+)", re.MULTILINE)

What = Literal["memory", "processes", "threads", "scratch bytes", "scratch files"]


class LimitExceeded(Exception):
    """A worker took more of the machine than it may; `amount` and `limit` are in bytes, or counted."""

    def __init__(self, what: What, amount: int, limit: int) -> None:
        super().__init__(f"{what}: {amount} of {limit}")
        self.what: What = what
        self.amount = amount
        self.limit = limit


@dataclass(frozen=True)
class ResourceUsage:
    """What a tree of processes uses."""

    resident_bytes: int
    """Anonymous and shared pages, summed: pages that a fork shares with its parent count for both."""
    processes: int
    threads: int


class ResourceMonitor:
    """Looks at the tree of processes that begins at `root`, and at the folder `scratch` where the judge can see it."""

    def __init__(self, root: int, scratch: Path | None) -> None:
        self._root = root
        self._scratch = scratch
        self._fresh = ResourceUsage(0, 0, 0)
        self._next_look = 0.0
        self._resident_limit = resident_limit_bytes()

    def begin(self) -> None:
        """From now on: what is used at this moment is what a fresh worker has, and is not counted."""
        self._fresh = measure_usage(self._root)

    def look(self) -> None:
        """Raises `OverLimit`. To be called often: it does something every `EVERY_S`."""
        now = time.monotonic()
        if now < self._next_look:
            return
        use = measure_usage(self._root)
        # A keeper or bubblewrap's own processes, which a fresh worker has too, are not the submission's.
        extra = max(0, self._fresh.processes - 1)
        _compare("processes", use.processes - extra, PROCESSES)
        _compare("threads", use.threads - extra, THREADS)
        grown = use.resident_bytes - self._fresh.resident_bytes
        if grown > self._resident_limit:
            _compare("memory", min(grown, own_share_of(self._root)), self._resident_limit)
        if self._scratch is not None:
            held, files = scratch_use(self._scratch)
            _compare("scratch bytes", held, SCRATCH_BYTES)
            _compare("scratch files", files, SCRATCH_FILES)
        # Looking at very many processes takes long: then more seldom, so that the looking itself does not slow all.
        done = time.monotonic()
        self._next_look = done + max(EVERY_S, min(2 * (done - now), AT_LEAST_EVERY_S))


def _compare(what: What, amount: int, limit: int) -> None:
    if amount > limit:
        raise LimitExceeded(what, amount, limit)


def measure_usage(root: int) -> ResourceUsage:
    """Of `root` and all that descends from it."""
    if sys.platform != "linux":
        return _use_by_ps(root)
    resident_kib = processes = threads = 0
    for pid in tree(root, MOST_LOOKED_AT):
        with contextlib.suppress(OSError):
            fields = dict(_FIELD.findall(read_of_kernel(f"/proc/{pid}/status")))
            resident_kib += int(fields.get(b"RssAnon", 0)) + int(fields.get(b"RssShmem", 0))
            processes += 1
            threads += int(fields.get(b"Threads", 1))
    return ResourceUsage(resident_kib << 10, processes, threads)


def own_share_of(root: int) -> int:
    """Bytes of the tree's anonymous and shared pages, each divided by how many processes share it.

    Costs about 5 ms for each GiB. Infinite where it cannot be read.
    """
    total_kib = 0
    for pid in tree(root, MOST_LOOKED_AT):
        try:
            text = read_of_kernel(f"/proc/{pid}/smaps_rollup")
        except PermissionError:
            return sys.maxsize
        except OSError:
            continue
        total_kib += sum(int(share) for share in _SHARE.findall(text))
    return total_kib << 10


def _use_by_ps(root: int) -> ResourceUsage:
    listing = subprocess.run(["ps", "-axo", "pid=,rss="], capture_output=True, text=True, check=False).stdout
    pairs = (line.split() for line in listing.splitlines())
    resident_kib = {int(pid): int(kib) for pid, kib in pairs}
    members = [root, *descendants(root)]
    return ResourceUsage(sum(resident_kib.get(pid, 0) for pid in members) << 10, len(members), len(members))


def scratch_use(folder: Path) -> tuple[int, int]:
    """(bytes on the disk, files and folders) under `folder`, links not followed; stops counting at the limits."""
    held = files = 0
    waiting = [os.fspath(folder)]
    while waiting and held <= SCRATCH_BYTES and files <= SCRATCH_FILES:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                files += 1
                if files > SCRATCH_FILES:
                    break
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    with contextlib.suppress(OSError):
                        held += entry.stat(follow_symlinks=False).st_blocks * 512
    return held, files


READY_WITHIN_S = 120.0
"""A cold import of torch from a slow disk takes a while."""


class WorkerLost(GradingError):
    """A worker is gone through no fault of its submission: worth another try."""


class Body(Protocol):
    """The processes of one worker."""

    @property
    def pid(self) -> int:
        """Of the topmost of them, as the judge sees it; 0 as long as it is not known."""

    def wait_until_started(self) -> None:
        """Until `pid` is known. Raises `GradingError` when it never will be."""

    def has_ended(self) -> bool:
        """Whether the topmost is gone."""

    def exit_status(self) -> int:
        """Of the process that runs the submission: its exit code, or minus a signal's number. Waits a moment for it.

        Raises `WorkerLost` when the worker went because what keeps it broke.
        """

    def ask_where(self) -> None:
        """Have the process that runs the submission write its stack to the stack pipe."""

    def kill(self) -> None:
        """End all of it. Safe from any thread, and more than once, until `collect`."""

    def collect(self, keep: set[int]) -> None:
        """After `kill`: wait until all of it is gone. `keep`: children of the judge that live on."""


@dataclass(frozen=True)
class Scratch:
    """The folder that a worker may write to."""

    inside: Path
    """As the worker sees it."""
    outside: Path | None
    """As the judge sees it; None when the judge cannot."""


class Worker:
    """One worker: started, got ready, used for one submission, ended."""

    def __init__(self, body: Body, channel: Channel, stack_descriptor: int, scratch: Scratch) -> None:
        self.channel = channel
        self.devices: tuple[dict[str, object], ...] = ()
        self.torch_version = ""
        self._body = body
        self._stack_descriptor = stack_descriptor
        self._scratch = scratch
        self._still: list[int] = []
        self._ended = False
        self._ending = threading.Lock()
        os.set_blocking(stack_descriptor, False)

    @property
    def pid(self) -> int:
        return self._body.pid

    def wait_until_ready(self) -> None:
        """Returns when torch is imported there. Raises `GradingError` with its last words when it died instead."""
        if self.torch_version:
            return
        self.channel.begin(time.monotonic() + READY_WITHIN_S, 64 << 10)
        try:
            ready = self.channel.receive(Bounds()).header
        except (FrameError, DeadlinePassed) as error:
            self.kill()
            self.channel.drain_printed()
            words = self.channel.printed.text.strip()[-2000:]
            raise GradingError(f"A worker did not start: {words or error}", "Run `gpututor doctor`.") from error
        self._body.wait_until_started()
        self.devices = tuple(ready["devices"])
        self.torch_version = ready["torch"]
        watch = ResourceMonitor(self.pid, self._scratch.outside)
        watch.begin()
        self.channel.look = watch.look

    def check(self) -> None:
        """Raises `GradingError` for a worker that is not what it was when it got ready."""
        folder = self._scratch.outside
        if self._body.has_ended() or not (folder is None or folder.is_dir()):
            raise GradingError("A worker that waited is gone.", "Try again.")

    def exit_status(self) -> int:
        """Of a worker whose channel ended: its exit code, or minus a signal's number. Waits a moment for it.

        Raises `WorkerLost` when it went because what keeps it broke.
        """
        return self._body.exit_status()

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Its processes run in the block; when that ended well, all of them stand still, until the next block.

        For the time in which the judge does something else and nobody looks at what they use.
        """
        resume(self._still)
        self._still = []
        yield
        with self._ending:
            if not self._ended:
                self._still = stop_tree(self.pid)

    @property
    def stands_still(self) -> bool:
        return bool(self._still)

    def stack_line(self, file_name: str) -> int | None:
        """The line of the learner's file that a worker past its deadline is at, where it can still tell."""
        submission = re.escape(str(self._scratch.inside / file_name))
        said = b""
        self._body.ask_where()
        give_up = time.monotonic() + 0.2
        while time.monotonic() < give_up:
            with contextlib.suppress(OSError):
                said = (said + os.read(self._stack_descriptor, 1 << 16))[-1 << 17 :]
            at = re.search(rf'"{submission}", line (\d{{1,7}}) in ', said.decode("utf-8", "replace"))
            if at:
                return int(at[1])
            time.sleep(0.005)
        return None

    def kill(self) -> None:
        """End the process and all that it started. Safe from any thread, and more than once."""
        with self._ending:
            if not self._ended:
                self._body.kill()

    def end(self, keep: set[int]) -> None:
        """Kill, collect the remains, close everything. `keep`: children of ours that live on."""
        self.kill()
        with self._ending:
            if self._ended:
                return
            self._ended = True
            try:
                self._body.collect(keep)
            finally:
                self.channel.close()
                os.close(self._stack_descriptor)


PREFIX = "gpututor-"
"""Of a scratch folder's name; its judge's process id follows."""


def make_scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def remove_scratch(folder: Path) -> None:
    """With all that is in it, also what was made unreadable. Nothing happens where it is gone."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        with contextlib.suppress(OSError):
            _remove_flat(folder)


def _remove_flat(folder: Path) -> None:
    """Remove it without descending: what is deep inside comes to the top first, so no path is ever long.

    A folder without rights cannot be emptied by who owns it, unless that is root.
    """
    waiting, emptied = [folder], []
    while waiting:
        top = waiting.pop()
        top.chmod(0o700)
        for name in os.listdir(top):
            inner = top / name
            if inner.is_symlink() or not inner.is_dir():
                inner.unlink()
                continue
            inner.chmod(0o700)
            waiting.append(inner.rename(folder / secrets.token_hex(16)))
        emptied.append(top)
    for one in reversed(emptied):
        one.rmdir()


def remove_own_scratch() -> None:
    """All scratch folders of this judge."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*"):
        remove_scratch(folder)


def sweep_scratch() -> None:
    """Remove the scratch folders of judges that were killed before they could do so themselves."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not is_alive(int(owner)) and folder.stat().st_uid == os.getuid():
            remove_scratch(folder)


@dataclass
class WorkerPipes:
    """Of one worker that is about to start."""

    scratch: Scratch
    connection: socket.socket
    """The worker's end, as the next two: of the pipe that it prints to, and of the one for stacks."""
    printed: int
    stack: int
    judges: socket.socket
    """The judge's end of the connection."""
    _channel: Channel
    _judges_stack: int
    taken: bool = False

    def worker(self, body: Body) -> Worker:
        """Now there is one; the judge's ends are closed when it is ended."""
        self.taken = True
        return Worker(body, self._channel, self._judges_stack, self.scratch)


@contextlib.contextmanager
def open_pipes(isolation: Isolation) -> Iterator[WorkerPipes]:
    """The worker's ends are closed after the block; so are the judge's, and its scratch folder goes, unless it lives.

    Raises `GradingError` where there is none to be had, and in place of an `OSError` inside.
    """
    try:
        with contextlib.ExitStack() as after, contextlib.ExitStack() as ours:
            outside = None if isolation.own_scratch else make_scratch()
            if outside is not None:
                ours.callback(remove_scratch, outside)
            scratch = Scratch(isolation.own_scratch or outside or Path(tempfile.gettempdir()), outside)
            stack, their_stack = _pipe(ours, after)
            with contextlib.ExitStack() as not_joined:
                connection, their_connection = socket.socketpair()
                not_joined.enter_context(connection)
                after.enter_context(their_connection)
                printed, their_printed = _pipe(not_joined, after)
                channel = Channel(connection, printed)
                not_joined.pop_all()
            ours.callback(channel.close)
            ends = WorkerPipes(scratch, their_connection, their_printed, their_stack, connection, channel, stack)
            yield ends
            if ends.taken:
                ours.pop_all()
    except OSError as error:
        raise GradingError(f"A worker could not be started: {error}", "Run `gpututor doctor`.") from error


def _pipe(reading: contextlib.ExitStack, writing: contextlib.ExitStack) -> tuple[int, int]:
    """A new pipe, whose ends are closed with these."""
    ends = os.pipe()
    reading.callback(os.close, ends[0])
    writing.callback(os.close, ends[1])
    return ends
