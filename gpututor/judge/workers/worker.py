"""The judge's side of a worker: pipes, scratch folder, resource limits, and its end."""

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
from gpututor.processes import descendants, is_alive, read_proc, resume, stop_tree, tree
from gpututor.protocol.frames import Bounds, FrameError
from gpututor.protocol.messages import PROCESSES, SCRATCH_BYTES, SCRATCH_FILES, THREADS, resident_limit_bytes

LOOK_EVERY_S = 0.05 if sys.platform == "linux" else 1.0
"""Seconds between two looks. A look takes 0.2 ms with /proc; elsewhere it starts `ps`."""
SLOWEST_LOOK_EVERY_S = 0.5
"""Most seconds between looks that are slow, so that a submission cannot avoid looks by making them slow."""
MAX_LOOKED_AT = PROCESSES + 16
"""Most processes to look at: more than a submission may have, plus those of the isolation."""
_FIELD = re.compile(rb"^(RssAnon|RssShmem|Threads):\s*(\d+)", re.MULTILINE)
_SHARE = re.compile(rb"^Pss_(?:Anon|Shmem):\s*(\d+)", re.MULTILINE)

Resource = Literal["memory", "processes", "threads", "scratch bytes", "scratch files"]


class LimitExceeded(Exception):
    """A worker used too much of the machine. `amount` and `limit` are bytes or counts."""

    def __init__(self, resource: Resource, amount: int, limit: int) -> None:
        super().__init__(f"{resource}: {amount} of {limit}")
        self.resource: Resource = resource
        self.amount = amount
        self.limit = limit


@dataclass(frozen=True)
class ResourceUsage:
    """Resources of a process tree."""

    resident_bytes: int
    """Anonymous and shared pages: pages that a fork shares with its parent count for both."""
    processes: int
    threads: int


class ResourceMonitor:
    """Limits on the tree below `root`, and on `scratch` if the judge sees it. A fresh worker's usage does not count."""

    def __init__(self, root: int, scratch: Path | None) -> None:
        self._root, self._scratch = root, scratch
        self._initial = measure_usage(root)
        self._next_look = 0.0
        self._resident_limit = resident_limit_bytes()

    def look(self) -> None:
        """Check the limits, at most every `LOOK_EVERY_S`. Raises `LimitExceeded`."""
        now = time.monotonic()
        if now < self._next_look:
            return
        usage = measure_usage(self._root)
        # Processes of bubblewrap or the fork server do not count: a fresh worker has them too.
        extra = max(0, self._initial.processes - 1)
        _check_limit("processes", usage.processes - extra, PROCESSES)
        _check_limit("threads", usage.threads - extra, THREADS)
        grown = usage.resident_bytes - self._initial.resident_bytes
        if grown > self._resident_limit:
            _check_limit("memory", min(grown, proportional_bytes(self._root)), self._resident_limit)
        if self._scratch is not None:
            held, files = scratch_use(self._scratch)
            _check_limit("scratch bytes", held, SCRATCH_BYTES)
            _check_limit("scratch files", files, SCRATCH_FILES)
        # A look at very many processes is slow. Then look less often.
        done = time.monotonic()
        self._next_look = done + max(LOOK_EVERY_S, min(2 * (done - now), SLOWEST_LOOK_EVERY_S))


def _check_limit(resource: Resource, amount: int, limit: int) -> None:
    if amount > limit:
        raise LimitExceeded(resource, amount, limit)


def measure_usage(root: int) -> ResourceUsage:
    """Return the resources of `root` and all its descendants."""
    if sys.platform != "linux":
        return _usage_by_ps(root)
    resident_kib = processes = threads = 0
    for pid in tree(root, MAX_LOOKED_AT):
        with contextlib.suppress(OSError):  # the process has ended
            fields = dict(_FIELD.findall(read_proc(f"/proc/{pid}/status")))
            resident_kib += int(fields.get(b"RssAnon", 0)) + int(fields.get(b"RssShmem", 0))
            processes += 1
            threads += int(fields.get(b"Threads", 1))
    return ResourceUsage(resident_kib << 10, processes, threads)


def proportional_bytes(root: int) -> int:
    """Return the bytes of the tree's pages, each shared page divided by its sharers. Takes 5 ms for each GiB.

    Return `sys.maxsize` if the kernel does not allow reading them.
    """
    total_kib = 0
    for pid in tree(root, MAX_LOOKED_AT):
        try:
            text = read_proc(f"/proc/{pid}/smaps_rollup")
        except PermissionError:
            return sys.maxsize
        except OSError:
            continue  # the process has ended
        total_kib += sum(int(share) for share in _SHARE.findall(text))
    return total_kib << 10


def _usage_by_ps(root: int) -> ResourceUsage:
    listing = subprocess.run(["ps", "-axo", "pid=,rss="], capture_output=True, text=True, check=False).stdout
    pairs = (line.split() for line in listing.splitlines())
    resident_kib = {int(pid): int(kib) for pid, kib in pairs}
    members = [root, *descendants(root)]
    return ResourceUsage(sum(resident_kib.get(pid, 0) for pid in members) << 10, len(members), len(members))


def scratch_use(folder: Path) -> tuple[int, int]:
    """Return (bytes on the disk, files and folders) below `folder`, without following links; stops at the limits.

    A folder that cannot be read, or is nested too deeply, could hide any number of files: it counts as too many.
    """
    held = files = 0
    waiting = [os.fspath(folder)]
    while waiting and held <= SCRATCH_BYTES and files <= SCRATCH_FILES:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    files += 1
                    if files > SCRATCH_FILES:
                        break
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                            held += entry.stat(follow_symlinks=False).st_blocks * 512
        except (FileNotFoundError, NotADirectoryError):
            continue  # removed or replaced meanwhile
        except OSError:
            files = SCRATCH_FILES + 1
    return held, files


STACK_WAIT_S = 3.0
"""Seconds until a worker must begin to write its stack: on a busy machine, it may have to wait for a processor."""
STACK_WRITE_S = 0.2
"""Seconds in which it writes the rest."""
READY_WITHIN_S = 120.0
"""Seconds for a cold import of torch from a slow disk."""


class WorkerLost(GradingError):
    """The worker is gone through no fault of its submission: the grading can be repeated."""


class WorkerProcess(Protocol):
    """The processes of one worker."""

    @property
    def pid(self) -> int:
        """Process id of the topmost process, as the judge sees it; 0 until it is known."""

    def wait_for_pid(self) -> None:
        """Wait until `pid` is known. Raises `GradingError` if it never will be."""

    def has_ended(self) -> bool:
        """Return True if the topmost process is gone."""

    def exit_status(self) -> int:
        """Return the exit code of the submission's process, or minus a signal's number. Waits briefly for it.

        Raises `WorkerLost` if the process was lost with its fork server.
        """

    def dump_stack(self) -> None:
        """Make the submission's process write its stack to the stack pipe."""

    def kill(self) -> None:
        """Kill the whole tree. Safe from any thread and repeatedly, until `reap`."""

    def reap(self, keep: set[int]) -> None:
        """After `kill`: wait until the tree is gone. `keep`: children of the judge that live on."""


@dataclass(frozen=True)
class Scratch:
    """The folder that a worker may write to."""

    inside: Path
    outside: Path | None
    """Path as the judge sees it; None if the judge cannot see it."""


class Worker:
    """A worker process, used for a single submission."""

    def __init__(self, process: WorkerProcess, channel: Channel, stack_descriptor: int, scratch: Scratch) -> None:
        self.channel = channel
        self.devices: tuple[dict[str, object], ...] = ()
        self.torch_version = ""
        self.suspended: list[int] = []
        self._process, self._stack_descriptor, self._scratch = process, stack_descriptor, scratch
        self._ended = False
        self._ending = threading.Lock()
        os.set_blocking(stack_descriptor, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Wait until the worker has imported torch. Raises `GradingError` with the end of its output if it died."""
        if self.torch_version:
            return
        self.channel.begin(time.monotonic() + READY_WITHIN_S, 64 << 10)
        try:
            ready = self.channel.receive(Bounds()).header
        except (FrameError, DeadlinePassed) as error:
            self.kill()
            self.channel.drain_printed()
            output = self.channel.printed.text.strip()[-2000:]
            raise GradingError(f"A worker did not start: {output or error}", "Run `gpututor doctor`.") from error
        self._process.wait_for_pid()
        self.devices = tuple(ready["devices"])
        self.torch_version = ready["torch"]
        self.channel.look = ResourceMonitor(self.pid, self._scratch.outside).look

    def check(self) -> None:
        """Raise `GradingError` if the waiting worker died or lost its scratch folder."""
        folder = self._scratch.outside
        if self._process.has_ended() or not (folder is None or folder.is_dir()):
            raise GradingError("A waiting worker has ended.", "Try again.")

    def exit_status(self) -> int:
        """Return the exit status, as `WorkerProcess.exit_status`; the channel has ended."""
        return self._process.exit_status()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let the worker's processes run only during the block, in which the judge monitors their resources."""
        resume(self.suspended)
        self.suspended = []
        yield
        with self._ending:
            if not self._ended:
                self.suspended = stop_tree(self.pid)

    def stack_line(self, file_name: str) -> int | None:
        """Return the line of the learner's file at which a worker hangs; None if the worker cannot report it."""
        submission = re.escape(str(self._scratch.inside / file_name))
        dump = b""
        self._process.dump_stack()
        give_up = time.monotonic() + STACK_WAIT_S
        while time.monotonic() < give_up:
            with contextlib.suppress(OSError):
                more = os.read(self._stack_descriptor, 1 << 16)
                if not dump:
                    give_up = min(give_up, time.monotonic() + STACK_WRITE_S)
                dump = (dump + more)[-1 << 17 :]
            match = re.search(rf'"{submission}", line (\d{{1,7}}) in ', dump.decode("utf-8", "replace"))
            if match:
                return int(match[1])
            time.sleep(0.005)
        return None

    def kill(self) -> None:
        """Kill the process and everything that it started. Safe from any thread, and repeatedly."""
        with self._ending:
            if not self._ended:
                self._process.kill()

    def end(self, keep: set[int]) -> None:
        """Kill, reap and close everything. `keep`: children of the judge that live on."""
        self.kill()
        with self._ending:
            if self._ended:
                return
            self._ended = True
            try:
                self._process.reap(keep)
            finally:
                self.channel.close()
                os.close(self._stack_descriptor)


PREFIX = "gpututor-"
"""Start of a scratch folder's name; the judge's process id follows."""


def make_scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def remove_scratch(folder: Path) -> None:
    """Remove a folder and everything in it, unreadable parts included. Does nothing if it is gone."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        with contextlib.suppress(OSError):  # still being written to: `sweep_scratch` of a later judge removes it
            _remove_flat(folder)


def _remove_flat(folder: Path) -> None:
    """Remove a folder without descending: inner folders are moved to the top first, so no path gets long.

    Only root can empty a folder without permissions, so they are set first.
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
    for empty_folder in reversed(emptied):
        empty_folder.rmdir()


def remove_own_scratch() -> None:
    """Remove all scratch folders of this judge."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*"):
        remove_scratch(folder)


def sweep_scratch() -> None:
    """Remove the scratch folders of judges that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not is_alive(int(owner)) and folder.stat().st_uid == os.getuid():
            remove_scratch(folder)


@dataclass
class WorkerPipes:
    """Pipes of a worker that is about to start."""

    scratch: Scratch
    connection: socket.socket
    """The worker's end, like `printed` (its output) and `stack` (its stack dumps)."""
    printed: int
    stack: int
    judge_connection: socket.socket
    _channel: Channel
    _stack: int
    started: bool = False

    def worker(self, process: WorkerProcess) -> Worker:
        """Return the worker of a started process; it closes the judge's ends when it ends."""
        self.started = True
        return Worker(process, self._channel, self._stack, self.scratch)


@contextlib.contextmanager
def open_pipes(isolation: Isolation) -> Iterator[WorkerPipes]:
    """Open pipes and a scratch folder. Closes the worker's ends after the block, and everything if no worker started.

    Raises `GradingError`, also in place of an `OSError` inside the block.
    """
    try:
        with contextlib.ExitStack() as worker_ends, contextlib.ExitStack() as judge_ends:
            outside = None if isolation.own_scratch else make_scratch()
            if outside is not None:
                judge_ends.callback(remove_scratch, outside)
            scratch = Scratch(isolation.own_scratch or outside or Path(tempfile.gettempdir()), outside)
            stack, their_stack = _pipe(judge_ends, worker_ends)
            with contextlib.ExitStack() as channel_ends:
                connection, their_connection = socket.socketpair()
                channel_ends.enter_context(connection)
                worker_ends.enter_context(their_connection)
                printed, their_printed = _pipe(channel_ends, worker_ends)
                channel = Channel(connection, printed)
                channel_ends.pop_all()
            judge_ends.callback(channel.close)
            pipes = WorkerPipes(scratch, their_connection, their_printed, their_stack, connection, channel, stack)
            yield pipes
            if pipes.started:
                judge_ends.pop_all()
    except OSError as error:
        raise GradingError(f"A worker could not be started: {error}", "Run `gpututor doctor`.") from error


def _pipe(reading: contextlib.ExitStack, writing: contextlib.ExitStack) -> tuple[int, int]:
    """Return a new pipe whose ends the two stacks close."""
    pipe = os.pipe()
    reading.callback(os.close, pipe[0])
    writing.callback(os.close, pipe[1])
    return pipe
