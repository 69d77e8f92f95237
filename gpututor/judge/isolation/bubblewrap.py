"""Workers in bubblewrap: no network, no other process, and only the files of Python, torch and the worker."""

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
from typing import Any

from gpututor.errors import NotGradableHere
from gpututor.hardware.packages import PACKAGES
from gpututor.paths import PACKAGE
from gpututor.protocol.messages import SCRATCH_BYTES

DISTRIBUTIONS = ("torch", "numpy", "safetensors", "platformdirs", *PACKAGES)
"""Installed packages of a worker, without their dependencies."""
PARTS = ("devices", "hardware", "protocol", "trace", "worker")
MODULES = ("__init__", "errors", "files", "paths", "processes", "text")
"""Modules of gpututor that a worker imports. The course, the judge and the checks are not mounted."""
_MOST_LINKS = 40


@dataclass
class Mounts:
    """Folders and files that a process sees, each at its own path, and the symbolic links that lead there."""

    system: dict[Path, Path] = field(default_factory=dict)
    """Path inside → source: the interpreter and shared libraries."""
    covered: set[Path] = field(default_factory=set)
    """Folders of installed packages inside `system`, mounted empty."""
    packages: dict[Path, Path] = field(default_factory=dict)
    """Path inside → source: in the interpreter's folder of packages."""
    links: dict[Path, str] = field(default_factory=dict)

    def add(self, path: Path) -> None:
        """Add a folder or file of the system at its own path; nothing if it does not exist."""
        if not path.exists():
            return
        real = follow(path, self.links)
        self.system[real] = real
        for pattern in ("site-packages", "dist-packages", "python3*/site-packages", "python3*/dist-packages"):
            self.covered.update(real.glob(pattern))

    def arguments(self) -> list[str]:
        """Return the arguments of bubblewrap. They leave the root of the file system writable."""
        arguments: list[str] = []
        for inside, source in sorted(self.system.items()):
            if not self._bound(inside.parent):
                arguments += ["--ro-bind", str(source), str(inside)]
        for folder in sorted(self.covered):
            arguments += ["--tmpfs", str(folder)]
        for inside, source in sorted(self.packages.items()):
            arguments += ["--ro-bind", str(source), str(inside)]
        for folder in sorted(self.covered):
            arguments += ["--remount-ro", str(folder)]
        for link, target in self.links.items():
            if not self._bound(link.parent):
                arguments += ["--symlink", target, str(link)]
        return arguments

    def _bound(self, folder: Path) -> bool:
        return any(parent in self.system for parent in (folder, *folder.parents))


def follow(path: Path, links: dict[Path, str]) -> Path:
    """Return the real path of `path`; add each symbolic link on the way to `links`, with its target."""
    real, parts = Path("/"), list(path.absolute().parts[1:])
    for _ in range(_MOST_LINKS):
        while parts:
            name = parts.pop(0)
            if (real / name).is_symlink():
                target = Path(os.readlink(real / name))
                links[real / name] = str(target)
                real = Path("/") if target.is_absolute() else real
                parts[:0] = [part for part in target.parts if part != "/"]
                break
            real = real.parent if name == ".." else real / name
        else:
            return real
    raise OSError(f"{path}: too many symbolic links")


def worker_mounts() -> Mounts:
    """Return the mounts of a worker."""
    mounts = Mounts()
    for path in _interpreter():
        mounts.add(path)
    place = follow(Path(sysconfig.get_path("purelib")), mounts.links)
    for name, source in _installed_packages(DISTRIBUTIONS):
        mounts.packages.setdefault(place / name, source)
    for name in (*PARTS, *(f"{module}.py" for module in MODULES)):
        mounts.packages[place / "gpututor" / name] = PACKAGE / name
    return mounts


def _interpreter() -> Iterator[Path]:
    """Yield the executable, the standard library, and the folders of shared libraries."""
    base = Path(sys.base_prefix)
    yield from (Path(sys.executable), Path(sys.prefix, "pyvenv.cfg"), Path(sysconfig.get_path("stdlib")))
    yield Path(sysconfig.get_path("platstdlib", vars={"platbase": str(base)}))
    yield base / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if (base / "conda-meta").is_dir():
        yield base / "lib"
    yield from (base / "lib").glob("libpython*.so*")
    if triplet := sysconfig.get_config_var("MULTIARCH"):
        yield Path("/lib", triplet)
        yield Path("/usr/lib", triplet)
    folders = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    yield from map(Path, ("/lib64", "/usr/lib64", "/usr/lib/wsl/lib", *folders, "/etc/ld.so.cache"))
    yield Path("/sys/devices/system/cpu")  # torch reads the number of cores there


def _installed_packages(names: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Yield (name, path) of each top-level folder and file of the distributions and their dependencies."""
    names, seen = list(names), set[str]()
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # not needed on this system; a worker that needs it names it
        needed = [line for line in distribution.requires or () if not re.search(r"\bextra\b", line)]
        names += [re.split(r"[^\w.-]", line.strip(), maxsplit=1)[0] for line in needed]
        for top in sorted(_top_names(distribution)):
            place = Path(str(distribution.locate_file(top)))
            if place.exists():
                yield top, place.resolve()


def _top_names(distribution: metadata.Distribution) -> set[str]:
    record = distribution.read_text("RECORD")
    if record is None:
        tops = {file.parts[0] for file in distribution.files or ()}
    else:
        # Thousands of lines: three times as fast as `distribution.files`.
        lines = record.splitlines()
        tops = {line.partition("/")[0] if "/" in line else line.partition(",")[0] for line in lines}
    return {top for top in tops if top not in ("", "..", "__pycache__") and not top.endswith(".pth")}


SCRATCH = Path("/scratch")
"""The only writable folder, with /dev/shm: both are in memory and end with the worker."""
USER = 1000
"""User id inside the namespace; outside, it is the judge's user."""
NESTING = ("gpututor.worker.fork_server",)
"""Modules that put each of their workers into its own namespaces, which must be allowed."""
DEVICES = ("nvidia*", "dri", "kfd", "dxg")
NEEDED = ("--disable-userns", "--size", "--clearenv")
INSTEAD = (
    "If you trust the file as your own, use `--isolation process`: it has limits and cleanup, but the file can read "
    "what you can read."
)
_TRIAL_TIMEOUT_S = 20.0
TOO_SLOW = 124
TRY_AGAIN = "Try again when the machine is idle."


class Bubblewrap:
    """Isolation in Linux namespaces that contain only what a worker needs."""

    name = "bubblewrap"
    own_scratch = SCRATCH
    wrappers = 2
    """bubblewrap outside, which waits, and bubblewrap inside, the first process there."""

    def command(self, module: str, *arguments: str) -> list[str]:
        return [*bwrap_command(module in NESTING), sys.executable, "-I", "-u", "-m", module, *arguments]


def bwrap_command(nesting: bool = False) -> list[str]:
    """Return the first part of a command: bubblewrap and its arguments. Raises `NotGradableHere`."""
    return _bwrap_arguments(_find_bwrap(), nesting)


@functools.cache
def _find_bwrap() -> str:
    """Return bubblewrap's path after a trial. 40 ms."""
    if sys.platform != "linux":
        raise NotGradableHere("bubblewrap, in which other people's files run, exists on Linux only.", INSTEAD)
    tool = shutil.which("bwrap")
    if tool is None:
        advice = f"Install it, for example with `apt install bubblewrap`. {INSTEAD}"
        raise NotGradableHere("bubblewrap, in which other people's files run, is not installed.", advice)
    help_text = run([tool, "--help"]).stdout
    if lacking := [option for option in NEEDED if option not in help_text]:
        advice = f"Version 0.8 or later is needed. {INSTEAD}"
        raise NotGradableHere(f"{tool} is too old: it does not know {', '.join(lacking)}.", advice)
    trial = run([*_bwrap_arguments(tool, nesting=False), sys.executable, "-I", "-S", "-c", "print('works')"])
    if trial.returncode == TOO_SLOW:
        raise NotGradableHere(f"bubblewrap did not start within {_TRIAL_TIMEOUT_S:.0f} s.", TRY_AGAIN)
    if trial.stdout.strip() != "works":
        raise NotGradableHere(*_explain_failure(tool, trial.stderr.strip()))
    return tool


def run(command: list[str], timeout_s: float = _TRIAL_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Run a command without input. If it does not start, stderr has the system's error.

    A command that does not end in time is killed; its exit code is `TOO_SLOW`.
    """
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
    try:
        return subprocess.run(command, timeout=timeout_s, check=False, **options)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, TOO_SLOW, "", f"it did not end within {timeout_s:g} s")
    except OSError as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _explain_failure(tool: str, stderr: str) -> tuple[str, str]:
    """Return title and advice for bubblewrap's error message."""
    last_line = stderr.rpartition("\n")[2][-500:]
    if any(sign in stderr for sign in ("namespace", "uid map", "No permissions", "Operation not permitted")):
        advice = (
            "Start the container so that it allows user namespaces. On Ubuntu, AppArmor needs a "
            "profile for bwrap; elsewhere look at `sysctl kernel.unprivileged_userns_clone user.max_user_namespaces`. "
        )
        return f"bubblewrap cannot make user namespaces here: {last_line}", advice + INSTEAD
    return f"{tool} does not work here: {last_line or 'it printed nothing'}", INSTEAD


@functools.cache
def _bwrap_arguments(tool: str, nesting: bool) -> list[str]:
    # The worker can read bubblewrap's own environment.
    arguments = ["/usr/bin/env", "-i", tool]
    arguments += ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    arguments += ["--uid", str(USER), "--gid", str(USER), "--hostname", "worker"]
    if not nesting:
        # In its own user namespace a submission could mount a tmpfs without a limit.
        arguments += ["--disable-userns"]
    arguments += ["--clearenv"]
    for name, value in _environment().items():
        arguments += ["--setenv", name, value]
    arguments += ["--proc", "/proc", *_protect_proc(nesting), "--dev", "/dev", *_bind_devices()]
    arguments += ["--size", str(SCRATCH_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    for name in ("keys", "key-users"):  # they list the keys of the judge's user
        arguments += ["--ro-bind-try", "/dev/null", f"/proc/{name}"] if Path("/proc", name).exists() else []
    mounted = worker_mounts().arguments()
    arguments += mounted
    arguments += ["--ro-bind", str(Path(__file__).with_name("hosts")), "/etc/hosts"]
    arguments += ["--size", str(SCRATCH_BYTES), "--tmpfs", str(SCRATCH)]
    # If torch or gpututor is installed below /tmp, that stays a read-only folder.
    if not any(argument.startswith("/tmp/") for argument in mounted):
        arguments += ["--symlink", str(SCRATCH), "/tmp"]
    return [*arguments, "--remount-ro", "/", "--chdir", str(SCRATCH), "--"]


def _environment() -> dict[str, str]:
    from gpututor.judge.workers.pool import worker_environment

    return {**worker_environment(SCRATCH), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}


def _protect_proc(nesting: bool) -> Iterator[str]:
    """Make settings of the system read-only: to files of /proc, root is root even without capabilities.

    A process that makes namespaces has to write below its own number, so only the rest is covered then.
    """
    if not nesting:
        yield from ("--remount-ro", "/proc")
        return
    for entry in sorted(Path("/proc").iterdir()):
        if not entry.name.isdigit() and not entry.is_symlink() and (entry.is_dir() or entry.stat().st_mode & 0o222):
            yield from ("--ro-bind", str(entry), str(entry))


def _bind_devices() -> Iterator[str]:
    """Bind accelerators, if there are any, and their drivers' files in /sys."""
    devices = [path for pattern in DEVICES for path in sorted(Path("/dev").glob(pattern))]
    for path in devices:
        yield from ("--dev-bind", str(path), str(path))
    if devices:
        yield from ("--ro-bind", "/sys", "/sys")
