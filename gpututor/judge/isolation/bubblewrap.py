"""Workers in bubblewrap: no network, none of the machine's files but what runs them, nothing of other processes."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from gpututor.errors import NotGradableHere
from gpututor.judge.isolation.mounts import worker_mounts
from gpututor.worker.limits import SCRATCH_BYTES

SCRATCH = Path("/scratch")
"""The only place, with /dev/shm, where a worker can write: both in memory, both gone with it."""
USER = 1000
"""Inside. Outside it is whoever runs the judge."""
NESTING = ("gpututor.worker.fork_server",)
"""Modules that put each of their workers into namespaces of its own, and so must be let."""
DEVICES = ("nvidia*", "dri", "kfd", "dxg")
"""In /dev."""
NEEDED = ("--disable-userns", "--size", "--clearenv")
INSTEAD = (
    "Where you trust the file as you trust your own, `--isolation process` grades it without: "
    "with limits and cleanup, but it can read what you can read."
)
_TRIAL_TIMEOUT_S = 20.0


class Bubblewrap:
    """Each process in namespaces of its own, in which only what runs a worker exists. Linux."""

    name = "bubblewrap"
    own_scratch = SCRATCH
    wrappers = 2
    """bubblewrap outside, which waits, and bubblewrap inside, which is the first process there."""

    def command(self, module: str, *arguments: str) -> list[str]:
        """What to start. Raises `NotGradableHere` with the reason where bubblewrap cannot work."""
        return [*enclosed(module in NESTING), *_python("-u", "-m", module), *arguments]


def enclosed(nesting: bool = False) -> list[str]:
    """The beginning of a command: bubblewrap and all that it is told. Raises `NotGradableHere`."""
    return _told(_tool(), nesting)


def _python(*options: str) -> list[str]:
    return [sys.executable, "-I", *options]


@functools.cache
def _tool() -> str:
    """bubblewrap's path, once it has shown that it works. 40 ms."""
    if sys.platform != "linux":
        raise NotGradableHere("bubblewrap, which grades other people's files, exists on Linux only.", INSTEAD)
    tool = shutil.which("bwrap")
    if tool is None:
        advice = f"`apt install bubblewrap` or the like brings it. {INSTEAD}"
        raise NotGradableHere("bubblewrap, which grades other people's files, is not installed.", advice)
    told = _run([tool, "--help"]).stdout
    if lacking := [option for option in NEEDED if option not in told]:
        advice = f"Version 0.8 or later is needed. {INSTEAD}"
        raise NotGradableHere(f"{tool} is too old: it does not know {', '.join(lacking)}.", advice)
    tried = _run([*_told(tool, nesting=False), *_python("-S", "-c", "print('works')")])
    if tried.stdout.strip() != "works":
        raise NotGradableHere(*_why_not(tool, tried.stderr.strip()))
    return tool


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_TIMEOUT_S,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _why_not(tool: str, said: str) -> tuple[str, str]:
    """Title and advice, from bubblewrap's own words."""
    words = said.rpartition("\n")[2][-500:]
    if any(sign in said for sign in ("namespace", "uid map", "No permissions", "Operation not permitted")):
        advice = (
            "In a container, it has to be started so that user namespaces may be made. On Ubuntu, AppArmor needs a "
            "profile for bwrap; elsewhere look at `sysctl kernel.unprivileged_userns_clone user.max_user_namespaces`. "
        )
        return f"bubblewrap may make no user namespaces here: {words}", advice + INSTEAD
    return f"{tool} does not work here: {words or 'it said nothing'}", INSTEAD


@functools.cache
def _told(tool: str, nesting: bool) -> list[str]:
    # What is inside can read bubblewrap's own environment.
    told = ["/usr/bin/env", "-i", tool]
    told += ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    told += ["--uid", str(USER), "--gid", str(USER), "--hostname", "worker"]
    if not nesting:
        # In a user namespace of its own a submission could mount a tmpfs without a limit.
        told += ["--disable-userns"]
    told += ["--clearenv"]
    for name, value in _environment().items():
        told += ["--setenv", name, value]
    told += ["--proc", "/proc", *_unchangeable(nesting), "--dev", "/dev", *_devices()]
    told += ["--size", str(SCRATCH_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    for name in ("keys", "key-users"):  # they name the keys of whoever runs the judge
        told += ["--ro-bind-try", "/dev/null", f"/proc/{name}"] if Path("/proc", name).exists() else []
    mounts = worker_mounts().arguments()
    told += mounts
    told += ["--ro-bind", str(Path(__file__).with_name("hosts")), "/etc/hosts"]
    told += ["--size", str(SCRATCH_BYTES), "--tmpfs", str(SCRATCH)]
    # Where torch or gpututor itself lies below /tmp, that stays a folder that nobody can write to.
    if not any(argument.startswith("/tmp/") for argument in mounts):
        told += ["--symlink", str(SCRATCH), "/tmp"]
    return [*told, "--remount-ro", "/", "--chdir", str(SCRATCH), "--"]


def _environment() -> dict[str, str]:
    from gpututor.judge.workers.spares import worker_environment

    return {**worker_environment(SCRATCH), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}


def _unchangeable(nesting: bool) -> Iterator[str]:
    """No setting of the system can be changed: to the files of /proc, root is root also without any rights.

    Who makes more namespaces has to write below its own number, so there only all else is covered.
    """
    if not nesting:
        yield from ("--remount-ro", "/proc")
        return
    for entry in sorted(Path("/proc").iterdir()):
        if not entry.name.isdigit() and not entry.is_symlink() and (entry.is_dir() or entry.stat().st_mode & 0o222):
            yield from ("--ro-bind", str(entry), str(entry))


def _devices() -> Iterator[str]:
    """Accelerators, where there are some, and what their drivers tell in /sys."""
    found = [path for pattern in DEVICES for path in sorted(Path("/dev").glob(pattern))]
    for path in found:
        yield from ("--dev-bind", str(path), str(path))
    if found:
        yield from ("--ro-bind", "/sys", "/sys")
