"""Ground of the suite: a judge for each isolation, and watches over everything that members must not touch."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpututor import paths
from gpututor.course.loader import load_course
from gpututor.errors import GradingError
from gpututor.grading.client import QUICKEST, GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Report
from gpututor.processes import descendants
from tests.hostile.members import Member
from tests.hostile.tiny_course import lay_out
from tests.support.gradings import judge_of

HANGS_AFTER_S = 240.0
"""Seconds after which a grading hung the judge: the limits of all exercises are far shorter, even on a busy machine."""
SETTLES_WITHIN_S = 20.0
BECOMES_IDLE_WITHIN_S = 3.0
PORTS = (47311, 47312)
"""Ports on which members listen."""
SHARED_MEMORY = Path("/dev/shm")


@dataclass
class Ground:
    """Folders with secrets, a listener that no member may reach, and judges that were started near those secrets."""

    folder: Path
    secret: str
    exercises: dict[str, Path]
    victim: Path
    listener: socket.socket
    seed: int = 7
    _clients: dict[str, GradingClient] = field(default_factory=dict)
    _idle: dict[str, int] = field(default_factory=dict)
    _traces: set[str] = field(default_factory=lambda: _traces())

    @property
    def watched(self) -> Path:
        return self.folder / "watched"

    def grade(self, member: Member, isolation: str) -> Report:
        """Grade a member. Raises `AssertionError` if the judge hangs, `GradingError` if it broke."""
        exercise = self.exercises[member.attacks]
        text = self._placed(member.text, exercise)
        return self.grade_text(text, exercise, isolation, member.file_name, member.device, member.is_of_class)

    def grade_text(
        self,
        text: str,
        exercise: Path,
        isolation: str,
        file_name: str = "a.py",
        device: str = "virtual",
        is_of_class: bool = False,
    ) -> Report:
        client = self.client(isolation)
        request = GradeRequest(str(exercise), text, file_name, device, seed=self.seed, reviews_source=is_of_class)
        watch = threading.Timer(HANGS_AFTER_S, client.cancel)
        watch.start()
        try:
            *_, end = client.grade(request)
            assert isinstance(end, GradingFinished), f"the judge was still at it after {HANGS_AFTER_S:.0f} s"
        except (AssertionError, GradingError):
            self._clients.pop(isolation).close()  # the next file has another judge, and a fault of its own or none
            raise
        finally:
            watch.cancel()
        return end.report

    def honest(self, isolation: str) -> Report:
        """Grade a right solution, which a harmed judge cannot do."""
        folder = self.exercises["label"]
        return self.grade_text((folder / "solution.py").read_text(encoding="utf-8"), folder, isolation)

    def client(self, isolation: str) -> GradingClient:
        """Return the judge of that isolation; start it at its first use."""
        if isolation not in self._clients:
            self._clients[isolation] = GradingClient(isolation, QUICKEST)  # type: ignore[arg-type]
            self.honest(isolation)
            time.sleep(BECOMES_IDLE_WITHIN_S)  # the next worker is being made ready
            self._idle[isolation] = len(descendants(self.judge(isolation)))
        return self._clients[isolation]

    def judge(self, isolation: str) -> int:
        """Return the process id of that judge."""
        return judge_of(self._clients[isolation])

    def outlived(self, isolation: str) -> list[str]:
        """Return what an ended grading left behind: processes, scratch folders, listeners, shared memory."""
        judge = self.judge(isolation)

        def leftovers() -> list[str]:
            family = descendants(judge)
            left = [f"processes {family}"] if len(family) > self._idle[isolation] else []
            scratch = [path.name for path in Path(tempfile.gettempdir()).glob(f"gpututor-{judge}-*")]
            left += [f"scratch folders {scratch}"] if len(scratch) > self._idle[isolation] else []
            left += [f"a listener on port {port}" for port in PORTS if _listens(port)]
            return left + sorted(_traces() - self._traces)

        deadline = time.monotonic() + SETTLES_WITHIN_S
        while (left := leftovers()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def touched(self) -> dict[str, str]:
        """Return the digest of each watched file."""
        roots = (self.watched, self.folder / "home", self.folder / "course", self.victim)
        files = [path for root in roots for path in sorted(root.rglob("*")) if path.is_file() or path.is_symlink()]
        return {str(path): _digest(path) for path in files}

    def was_reached(self) -> bool:
        """Return True if a process connected to the listener."""
        with contextlib.suppress(BlockingIOError):
            self.listener.accept()[0].close()
            return True
        return False

    def leaked(self, report: Report) -> bool:
        """Return True if the report contains the secret."""
        return self.secret in json.dumps(report.to_json())

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self.listener.close()
        shutil.rmtree(self.victim, ignore_errors=True)  # a test in this process may have removed all of its scratch

    def _placed(self, text: str, exercise: Path) -> str:
        """Replace the marks in the text by what an attacker could learn about the machine: paths and a port."""
        facts = {
            "@home@": self.folder / "home",
            "@watched@": self.watched,
            "@exercise@": exercise,
            "@victim@": self.victim,
            '"@brackets@"': "(" * 5000 + "1" + ")" * 5000,  # too much for tools that read all Python files
            '"@signs@"': "-" * 8000 + "1",
            "@port@": self.listener.getsockname()[1],
        }
        for mark, fact in facts.items():
            text = text.replace(mark, str(fact))
        return text


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Ground]:
    """Yield a ground in `folder`; end its judges afterwards."""
    secret = f"canary-{secrets.token_hex(16)}"
    for name in ("home", "watched"):
        (folder / name).mkdir(parents=True)
        (folder / name / "secret.txt").write_text(f"{secret}\n")
    # Beside the scratch folders of this judge's workers, called as another's would be.
    victim = Path(tempfile.mkdtemp(prefix=f"gpututor-{os.getpid()}-"))
    (victim / "somebody_elses.py").write_text(f"# {secret}\n")
    exercises = {exercise.slug: exercise.folder for exercise in load_course(paths.builtin_course()).exercises}
    exercises |= lay_out(folder / "course", secret)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    kept = {name: os.environ.get(name) for name in ("HOSTILE_SECRET", "GPUTUTOR_HOME")}
    os.environ |= {"HOSTILE_SECRET": secret, "GPUTUTOR_HOME": str(folder / "gpututor")}
    ground = Ground(folder, secret, exercises, victim, listener)
    try:
        yield ground
    finally:
        ground.close()
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _traces() -> set[str]:
    """Return the files of members outside their scratch folders."""
    return {str(path) for place in (SHARED_MEMORY, Path(tempfile.gettempdir())) for path in place.glob("hostile-*")}


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"a link to {os.readlink(path)}"
    return hashlib.sha256(path.read_bytes()).hexdigest()
