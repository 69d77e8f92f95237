"""Workers in bubblewrap: no network, no other process, and only the files that Python, torch and the worker need."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from gpututor.errors import NotGradableHere
from gpututor.paths import PACKAGE
from gpututor.protocol.messages import SCRATCH_BYTES

DISTRIBUTIONS = ("torch", "numpy", "safetensors", "platformdirs")
"""With all that these need in turn."""
PARTS = ("devices", "hardware", "protocol", "trace", "worker")
MODULES = ("__init__", "errors", "files", "paths", "processes", "text")
"""Of gpututor: what a worker imports. The course, the judge and the checks are not among them."""
_MOST_LINKS = 40


@dataclass
class Mounts:
    """Folders and files that a process is to see, each at its own place, and the symbolic links that lead there."""

    system: dict[Path, Path] = field(default_factory=dict)
    """Place inside → what is bound there: the interpreter and shared libraries."""
    covered: set[Path] = field(default_factory=set)
    """Folders of installed packages inside those: seen empty."""
    packages: dict[Path, Path] = field(default_factory=dict)
    """Place inside → what is bound there: in the interpreter's folder of packages."""
    links: dict[Path, str] = field(default_factory=dict)

    def add(self, path: Path) -> None:
        """A folder or file of the system, at its own place; nothing where there is none."""
        if not path.exists():
            return
        real = follow(path, self.links)
        self.system[real] = real
        if real.is_dir():
            for pattern in ("*-packages", "python3*/*-packages"):
                self.covered.update(
                    folder for folder in real.glob(pattern) if folder.name in ("site-packages", "dist-packages")
                )

    def arguments(self) -> list[str]:
        """bubblewrap's. The root of the file system is to be made read-only after them."""
        said: list[str] = []
        for inside, source in sorted(self.system.items()):
            if not self._bound(inside.parent):
                said += ["--ro-bind", str(source), str(inside)]
        for folder in sorted(self.covered):
            said += ["--tmpfs", str(folder)]
        for inside, source in sorted(self.packages.items()):
            said += ["--ro-bind", str(source), str(inside)]
        for folder in sorted(self.covered):
            said += ["--remount-ro", str(folder)]
        for link, target in self.links.items():
            if not self._bound(link.parent):
                said += ["--symlink", target, str(link)]
        return said

    def _bound(self, folder: Path) -> bool:
        return any(parent in self.system for parent in (folder, *folder.parents))


def follow(path: Path, links: dict[Path, str]) -> Path:
    """The real path of `path`; each symbolic link on the way there is added to `links`, with what it says."""
    at, waiting = Path("/"), list(path.absolute().parts[1:])
    for _ in range(_MOST_LINKS):
        while waiting:
            name = waiting.pop(0)
            if (at / name).is_symlink():
                target = Path(os.readlink(at / name))
                links[at / name] = str(target)
                at = Path("/") if target.is_absolute() else at
                waiting[:0] = [part for part in target.parts if part != "/"]
                break
            at = at.parent if name == ".." else at / name
        else:
            return at
    raise OSError(f"{path}: too many symbolic links")


def worker_mounts() -> Mounts:
    """What a worker needs."""
    mounts = Mounts()
    for path in _interpreter():
        mounts.add(path)
    place = follow(Path(sysconfig.get_path("purelib")), mounts.links)
    for name, source in _installed(DISTRIBUTIONS):
        mounts.packages.setdefault(place / name, source)
    for part in PARTS:
        mounts.packages[place / "gpututor" / part] = PACKAGE / part
    for module in MODULES:
        mounts.packages[place / "gpututor" / f"{module}.py"] = PACKAGE / f"{module}.py"
    return mounts


def _interpreter() -> Iterator[Path]:
    """The executable, the standard library, and the folders of shared libraries that both and torch look into."""
    yield Path(sys.executable)
    yield Path(sys.prefix, "pyvenv.cfg")
    base = Path(sys.base_prefix)
    yield Path(sysconfig.get_path("stdlib"))
    yield Path(sysconfig.get_path("platstdlib", vars={"platbase": str(base)}))
    yield base / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if (base / "conda-meta").is_dir():
        yield base / "lib"
    yield from (base / "lib").glob("libpython*.so*")
    triplet = sysconfig.get_config_var("MULTIARCH")
    if triplet:
        yield Path("/lib", triplet)
        yield Path("/usr/lib", triplet)
    yield Path("/lib64")
    yield Path("/usr/lib64")
    yield Path("/usr/lib/wsl/lib")
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)):
        yield Path(folder)
    yield Path("/etc/ld.so.cache")
    # Asked by torch for how many cores there are.
    yield Path("/sys/devices/system/cpu")


def _installed(names: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """(name, where it is) of each folder and file at the top of the named distributions and all that they need."""
    waiting, seen = list(names), set[str]()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # not needed on this system; what was is named by the worker that fails to import it
        needed = [line for line in distribution.requires or () if not re.search(r"\bextra\b", line)]
        waiting += [re.split(r"[^\w.-]", line.strip(), maxsplit=1)[0] for line in needed]
        for top in sorted(_tops(distribution)):
            place = Path(str(distribution.locate_file(top)))
            if place.exists():
                yield top, place.resolve()


def _tops(distribution: metadata.Distribution) -> set[str]:
    record = distribution.read_text("RECORD")
    if record is None:
        tops = {file.parts[0] for file in distribution.files or ()}
    else:
        # Thousands of lines: three times as fast as the module that reads them by the rules.
        lines = record.splitlines()
        tops = {line.partition("/")[0] if "/" in line else line.partition(",")[0] for line in lines}
    return {top for top in tops if top not in ("", "..", "__pycache__") and not top.endswith(".pth")}


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
    from gpututor.judge.workers.pool import worker_environment

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
