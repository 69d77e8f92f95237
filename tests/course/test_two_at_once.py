"""Two gpututors may work in one workspace at once: no text is lost, and no starter that was handed out forgotten."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from gpututor.course.loader import load_course
from gpututor.course.workspace import MARKER, make_workspace
from tests.support import ROOT
from tests.support.tiny_course import write_course

RESETTER = """
import sys
from pathlib import Path
from gpututor.course.loader import load_course
from gpututor.course.workspace import Workspace
workspace = Workspace(Path(sys.argv[2]))
for exercise in load_course(Path(sys.argv[1])).exercises[int(sys.argv[3])::2]:
    workspace.write(exercise, f"mine = {exercise.label}\\n")
    workspace.reset(exercise)
"""


def test_two_processes_in_one_workspace_lose_no_text_and_forget_no_starter(tmp_path: Path) -> None:
    course_folder = write_course(tmp_path / "course", exercises=15, lessons=4)
    exercises = load_course(course_folder).exercises
    workspace, _ = make_workspace(tmp_path / "mine", load_course(course_folder))
    (workspace.folder / MARKER).write_text("{}")
    command = [sys.executable, "-c", RESETTER, str(course_folder), str(workspace.folder)]
    resetters = [subprocess.Popen([*command, str(number)], cwd=ROOT) for number in range(2)]
    assert [resetter.wait(timeout=60) for resetter in resetters] == [0, 0]
    backups = sorted(path.read_text() for path in (workspace.folder / ".backups").iterdir())
    assert backups == sorted(f"mine = {exercise.label}\n" for exercise in exercises)
    handed_out = json.loads((workspace.folder / MARKER).read_text())["handed_out"]
    assert set(handed_out) == {exercise.key for exercise in exercises}
