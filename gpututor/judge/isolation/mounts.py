"""What a worker in bubblewrap finds of this machine: Python, torch and what torch needs, gpututor's worker, no more."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from gpututor.paths import PACKAGE

DISTRIBUTIONS = ("torch", "numpy", "safetensors", "platformdirs")
"""With all that these need in turn."""
PARTS = ("devices", "trace", "wire", "worker")
MODULES = ("__init__", "errors", "files", "paths", "plain_text", "processes")
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
