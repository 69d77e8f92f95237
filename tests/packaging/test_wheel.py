"""The wheel of `make dist`, installed in a fresh environment: app, grading, verification and version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from gpututor import __version__
from tests.support import ROOT

EXERCISE = "tensors_on_the_device/born_on_the_device"
USE_THE_APP = f"""
import asyncio, json, pathlib
import gpututor
from gpututor.app.app import GpututorApp
from gpututor.app.main.screen import MainScreen
from gpututor.course.loader import load_course
from gpututor.course.workspace import make_workspace
from gpututor.grading.client import GradingClient
from gpututor.paths import builtin_course, default_workspace, progress_file
from gpututor.progress.store import ProgressStore

async def use(app, progress):
    async with app.run_test(size=(80, 24)) as pilot:
        async def until(holds):
            async with asyncio.timeout(240):
                while not holds():
                    await pilot.pause(0.05)
        await until(lambda: isinstance(app.screen, MainScreen) and app.screen.is_ready and app.focused)
        screen = app.screen
        screen.navigator.open_exercise(screen.learner.course.find({EXERCISE!r}), screen.panes.current)
        await pilot.press("e")
        screen.panes.editor.load_text(screen.exercise.solution)
        await pilot.press("ctrl+s")
        await until(lambda: progress.summary().get({EXERCISE!r}))
        await until(lambda: not screen.running)
        await pilot.press("ctrl+q")
        await until(lambda: app.return_code is not None or not app.is_running)

course, progress, client = load_course(builtin_course()), ProgressStore(progress_file()), GradingClient()
app = GpututorApp(
    course=course, workspace=make_workspace(default_workspace(), course)[0], progress=progress, client=client
)
asyncio.run(use(app, progress))
client.close()
print(json.dumps({{
    "package": gpututor.__file__, "course": str(course.folder), "problems": len(course.problems),
    "exercises": [exercise.key for exercise in course.exercises],
    "passed": progress.summary()[{EXERCISE!r}].passed, "code": app.return_code,
}}))
"""
"""Program that starts the app under a pilot, opens an exercise, runs its solution and quits."""

Run = Callable[..., str]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build as `make dist` does: the wheel comes from the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    ended([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)], folder)
    return folder


@pytest.fixture(scope="module")
def environment(dist: Path) -> Path:
    """Return a fresh environment with the wheel. The other packages are those of the running environment."""
    folder = dist / "environment"
    venv.create(folder, with_pip=False, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "installed_base": str(folder)}))
    # Python reads no .pth file below a folder that a .pth file names: an editable gpututor there is not seen.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (wheel,) = dist.glob("*.whl")
    install = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    ended([sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), *install], dist)
    return folder


@pytest.fixture
def run(environment: Path, tmp_path: Path) -> Run:
    """Run a program of the environment, in a folder that is no clone; return its output."""
    return lambda program, *words: ended([str(environment / "bin" / program), *words], tmp_path)


def ended(command: list[str], folder: Path) -> str:
    """Run a command, which must succeed; return its output."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.long
def test_the_app_of_the_wheel_grades_the_solution_of_its_own_course(environment: Path, run: Run) -> None:
    result = json.loads(run("python", "-I", "-c", USE_THE_APP).splitlines()[-1])
    assert Path(result["package"]).is_relative_to(environment)
    assert Path(result["course"]).is_relative_to(environment)
    solutions = ROOT.glob("exercises/*/*/solution.py")
    assert set(result["exercises"]) == {f"{path.parts[-3][3:]}/{path.parts[-2][3:]}" for path in solutions}
    assert (result["problems"], result["passed"], result["code"]) == (0, True, 0)


@pytest.mark.long
def test_the_verbs_of_the_wheel_grade_and_verify(environment: Path, run: Run) -> None:
    (solution,) = environment.glob("lib/python*/site-packages/gpututor/exercises/*/*_born_on_the_device/solution.py")
    report = json.loads(run("gpututor", "grade", EXERCISE, "--file", str(solution), "--isolation", "process", "--json"))
    assert report["outcome"] == "passed"
    run("gpututor", "verify", str(solution.parent))
    assert run("gpututor", "--version") == f"gpututor {__version__}\n"


@pytest.mark.long
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git lists the files, and this is no clone")
def test_the_source_archive_has_what_make_and_the_tests_need(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    kept = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {name for name in kept.split("\0") if name and not name.startswith(".")} <= names
