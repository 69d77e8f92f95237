"""Looking at what a worker uses while it runs: memory, processes, threads, its scratch folder."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpututor.processes import descendants, read_of_kernel, tree
from gpututor.worker.limits import PROCESSES, SCRATCH_BYTES, SCRATCH_FILES, THREADS, resident_limit_bytes

EVERY_S = 0.05 if sys.platform == "linux" else 1.0
"""Between two looks: 0.2 ms where there is /proc, a child process `ps` elsewhere."""
AT_LEAST_EVERY_S = 0.5
"""Also where looking takes long: who makes it slow is not left alone for it."""
MOST_LOOKED_AT = PROCESSES + 16
"""Processes: more than may be there, those of the isolation included."""
_FIELD = re.compile(rb"^(RssAnon|RssShmem|Threads):\s*(\d+)", re.MULTILINE)
_SHARE = re.compile(rb"^Pss_(?:Anon|Shmem):\s*(\d+)", re.MULTILINE)

What = Literal["memory", "processes", "threads", "scratch bytes", "scratch files"]


class OverLimit(Exception):
    """A worker took more of the machine than it may; `amount` and `limit` are in bytes, or counted."""

    def __init__(self, what: What, amount: int, limit: int) -> None:
        super().__init__(f"{what}: {amount} of {limit}")
        self.what: What = what
        self.amount = amount
        self.limit = limit


@dataclass(frozen=True)
class Use:
    """What a tree of processes uses."""

    resident_bytes: int
    """Anonymous and shared pages, summed: pages that a fork shares with its parent count for both."""
    processes: int
    threads: int


class Watch:
    """Looks at the tree of processes that begins at `root`, and at the folder `scratch` where the judge can see it."""

    def __init__(self, root: int, scratch: Path | None) -> None:
        self._root = root
        self._scratch = scratch
        self._fresh = Use(0, 0, 0)
        self._next_look = 0.0
        self._resident_limit = resident_limit_bytes()

    def begin(self) -> None:
        """From now on: what is used at this moment is what a fresh worker has, and is not counted."""
        self._fresh = use_of(self._root)

    def look(self) -> None:
        """Raises `OverLimit`. To be called often: it does something every `EVERY_S`."""
        now = time.monotonic()
        if now < self._next_look:
            return
        use = use_of(self._root)
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
        raise OverLimit(what, amount, limit)


def use_of(root: int) -> Use:
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
    return Use(resident_kib << 10, processes, threads)


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


def _use_by_ps(root: int) -> Use:
    listing = subprocess.run(["ps", "-axo", "pid=,rss="], capture_output=True, text=True, check=False).stdout
    pairs = (line.split() for line in listing.splitlines())
    resident_kib = {int(pid): int(kib) for pid, kib in pairs}
    members = [root, *descendants(root)]
    return Use(sum(resident_kib.get(pid, 0) for pid in members) << 10, len(members), len(members))


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
