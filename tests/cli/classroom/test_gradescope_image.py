"""The autograder zip: its setup and its run, in a folder laid out as on Gradescope."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from gpututor.classroom.gradescope_grading import with_dates
from gpututor.classroom.gradescope_submission import SubmissionMetadata, read_metadata, results_beyond_limit
from gpututor.classroom.rules import ExerciseRules, Extension, Rules
from gpututor.cli.main import main
from gpututor.errors import GradingError, UsageError
from gpututor.hardware.inventory import torch_version
from gpututor.translation import catalog
from tests.support.tiny_course import RIGHT, WRONG, write_course, write_files

RULES = """\
hidden_until_due = ["value"]
[late]
per_cent = 20
"""
DUE = "2026-03-01T23:00:00.000000-08:00"
IN_TIME = "2026-03-01T22:59:00.123456-08:00"
APT = '#!/bin/sh\necho "apt-get $*" >> "$GPUTUTOR_AUTOGRADER_ROOT/log"\n'
PYTHON = f"""\
#!/bin/sh
if [ "$2" != venv ]; then exec "{sys.executable}" "$@"; fi
"{sys.executable}" -m venv --without-pip "$3"
cp "${{0%/*}}"/*.p* "$3/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
"""
PIP = """\
import os, sys
with open(os.environ["GPUTUTOR_AUTOGRADER_ROOT"] + "/log", "a") as log:
    print("pip", *sys.argv[1:], file=log)
"""


class Autograder:
    """The folders of an autograder. Only `apt-get`, `pip` and the making of the environment are replaced."""

    def __init__(self, root: Path, image: Path) -> None:
        self.root = root
        shutil.unpack_archive(image, root / "source")
        shutil.copy(root / "source" / "run_autograder", root / "run_autograder")
        bin_folder = root / "bin"
        bin_folder.mkdir()
        (bin_folder / "pip.py").write_text(PIP)
        (bin_folder / "packages.pth").write_text(f"{Path(pytest.__file__).parent.parent}\n")  # nothing is downloaded
        for name, text in (("apt-get", APT), ("python3", PYTHON)):
            (bin_folder / name).write_text(text)
            (bin_folder / name).chmod(0o755)
        self._environment = {
            "PATH": f"{bin_folder}:/usr/bin:/bin",
            "GPUTUTOR_AUTOGRADER_ROOT": str(root),
            "HOME": str(root),
        }

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", str(self.root / script)]
        return subprocess.run(command, env=self._environment, cwd="/", capture_output=True, text=True, check=False)

    def grade(self, files: dict[str, str], created_at: str, due: str = "") -> Any:
        shutil.rmtree(self.root / "submission", ignore_errors=True)
        (self.root / "submission").mkdir()
        write_files(self.root / "submission", files)
        user: dict[str, Any] = {"email": "ada@example.org", "id": 1, "name": "Ada \U00020bb7"}
        if due:
            user["assignment"] = {"due_date": due}
        metadata = {"id": 7, "created_at": created_at, "assignment": {"due_date": DUE}, "users": [user]}
        (self.root / "submission_metadata.json").write_text(json.dumps(metadata))
        done = self.run("run_autograder")
        assert done.returncode == 0, done.stderr
        return json.loads((self.root / "results" / "results.json").read_text())


@pytest.fixture
def autograder(tmp_path: Path) -> Autograder:
    course = write_course(tmp_path / "course", exercises=2)
    (tmp_path / "rules.toml").write_text(RULES)
    image = tmp_path / "autograder.zip"
    words = ["classroom", "gradescope-image", "1.2", "--course", str(course), "-o", str(image)]
    assert main([*words, "--rules", str(tmp_path / "rules.toml")]) == 0
    assert main([*words[:-1], str(tmp_path / "rules.toml")]) == 2  # not its own zip
    autograder = Autograder(tmp_path / "autograder", image)
    done = autograder.run("source/setup.sh")
    assert done.returncode == 0, done.stderr
    return autograder


@pytest.mark.long
def test_the_image_installs_its_own_package_and_grades_a_submission(autograder: Autograder) -> None:
    log = (autograder.root / "log").read_text()
    assert f"/whl/cpu torch=={torch_version().partition('+')[0]}\n" in log
    assert "textual" in (autograder.root / "source" / "requirements.txt").read_text()
    assert "bubblewrap" in log
    assert not (autograder.root / "source" / "course" / "01_lesson_1" / "01_twice_1_1").exists()
    code = "import gpututor; print(gpututor.__file__)"
    python = str(autograder.root / "venv" / "bin" / "python")
    used = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert used.startswith(str(autograder.root / "source" / "package"))

    results = autograder.grade({"anything.py": RIGHT, "notes.txt": "Hello"}, IN_TIME)
    assert results["score"] == 1.0
    assert results["execution_time"] > 0
    tests = {test["name"]: test for test in results["tests"]}
    value = tests["1.2 Twice 2: value"]
    assert (value["score"], value["max_score"], value["status"]) == (1.0, 1.0, "passed")
    assert value["visibility"] == "after_due_date"
    assert tests["1.2 Twice 2: runs"]["visibility"] == "visible"
    assert value["tags"] == ["lesson_1/twice_1_2", "value"]


@pytest.mark.long
def test_late_extended_wrong_and_missing_submissions_have_their_points(autograder: Autograder) -> None:
    a_day_late = "2026-03-02T12:00:00-08:00"
    assert autograder.grade({"twice_1_2.py": RIGHT}, a_day_late)["score"] == 0.8
    extended = autograder.grade({"twice_1_2.py": RIGHT}, a_day_late, due="2026-03-03T23:00:00-08:00")
    assert extended["score"] == 1.0

    wrong = autograder.grade({"twice_1_2.py": WRONG}, IN_TIME)
    assert wrong["score"] == 0.0
    failed = next(test for test in wrong["tests"] if test["name"].endswith("value"))
    assert failed["status"] == "failed"

    nothing = autograder.grade({"homework.txt": "Hello"}, IN_TIME)
    assert nothing["score"] == 0.0
    assert "twice_1_2.py" in nothing["output"]


LIMITS = """\
max_attempts = 2
slip_days = 3
language = "de"
[late]
per_cent = 20
"""
FAILED = {"submission_time": "2026-03-01T08:00:00-08:00", "autograder_error": True, "score": None}
LATER = {"submission_time": "2026-04-01T08:00:00-08:00", "autograder_error": False, "score": 1.0}


def previous(day: int, score: float | str | None, tests: Sequence[str] = ()) -> dict[str, Any]:
    """Return a previous submission as Gradescope describes it, with results if it has tests."""
    results = {"tests": [{"name": name} for name in tests], "score": score, "output": "old"} if tests else None
    time = f"2026-03-0{day}T08:00:00-08:00"
    return {"submission_time": time, "autograder_error": False, "score": score, "results": results}


@pytest.mark.long
def test_attempts_are_limited_and_slip_days_are_left_to_the_gradebook(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = write_course(tmp_path / "course", exercises=2)
    (tmp_path / "rules.toml").write_text(LIMITS)
    (course / "languages").mkdir()
    write_files(course, {"languages/de.po": 'msgid "Twice"\nmsgstr "Doppelt"\n'})
    image, root = tmp_path / "autograder.zip", tmp_path / "autograder"
    words = ["classroom", "gradescope-image", "1.1", "1.2", "--course", str(course), "-o", str(image)]
    assert main([*words, "--rules", str(tmp_path / "rules.toml")]) == 0
    shutil.unpack_archive(image, root / "source")
    assert "Doppelt" in (root / "source" / "course" / "languages" / "de.po").read_text()
    (root / "submission").mkdir()
    (root / "submission" / "twice_1_2.py").write_text(RIGHT)

    def grade(created_at: str, earlier: list[dict[str, Any]]) -> Any:
        metadata = {"created_at": created_at, "assignment": {"due_date": DUE}, "previous_submissions": earlier}
        (root / "submission_metadata.json").write_text(json.dumps(metadata))
        assert main(["classroom", "gradescope-grade", str(root)]) == 0
        return json.loads((root / "results" / "results.json").read_text())

    two_days_late = grade("2026-03-03T10:00:00-08:00", [FAILED, previous(1, 0.4), LATER])
    assert two_days_late["score"] == 1.0
    say = catalog("de")
    for sentence in ("Attempt 2 of at most 2.", "These points are right if you still have 2 slip days."):
        assert say(sentence) in two_days_late["output"]
    five_days_late = grade("2026-03-06T10:00:00-08:00", [])
    assert five_days_late["score"] == 0.6
    assert say("These points are right if you still have 3 slip days.") in five_days_late["output"]

    beyond = grade("2026-03-04T10:00:00-08:00", [previous(3, "0.4"), previous(2, "1.6", ["right"])])
    assert (beyond["score"], beyond["tests"]) == (1.6, [{"name": "right"}])
    assert say("At most 2 attempts count: attempt 3 was not graded.") in beyond["output"]
    assert "old" not in beyond["output"]

    (tmp_path / "rules.toml").write_text(f'{LIMITS}[exercises."lesson_1/twice_1_1"]\nmax_attempts = 3\n')
    capsys.readouterr()
    assert main([*words, "--rules", str(tmp_path / "rules.toml")]) == 2
    assert "twice_1_1: 3" in capsys.readouterr().err


@pytest.mark.long
def test_rules_for_checks_of_other_exercises_do_not_stop_the_grading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = write_course(tmp_path / "course", exercises=2)
    checks = course / "01_lesson_1" / "01_twice_1_1" / "checks.py"
    checks.write_text(checks.read_text().replace("value(expected)", "value(expected, name='double')"))
    image, root, rules = (tmp_path / name for name in ("autograder.zip", "autograder", "rules.toml"))
    words = ["classroom", "gradescope-image", "1.2", "--course", str(course), "-o", str(image), "--rules", str(rules)]
    rules.write_text('hidden_until_due = ["value"]\nhidden = ["dubble"]\n')
    assert main(words) == 2
    assert "'double'" in capsys.readouterr().err
    assert not image.exists()
    rules.write_text('hidden = ["double"]\nneeds = ["value"]\n[exercises."lesson_1/twice_1_1".points]\ndouble = 3\n')
    assert main(words) == 0
    shutil.unpack_archive(image, root / "source")
    write_files(root, {"submission_metadata.json": "{}"})
    (root / "submission").mkdir()
    (root / "submission" / "twice_1_2.py").write_text(RIGHT)
    assert main(["classroom", "gradescope-grade", str(root)]) == 0
    assert json.loads((root / "results" / "results.json").read_text())["score"] == 1.0


def test_after_the_limit_the_best_or_the_last_attempt_counts(tmp_path: Path) -> None:
    path, say = tmp_path / "submission_metadata.json", catalog("en")
    attempts = [previous(1, 3, ["best"]), previous(2, 1), previous(3, 2), previous(4, 3, ["shown again"])]
    path.write_text(json.dumps({"previous_submissions": attempts}))
    metadata = read_metadata(path)
    best = results_beyond_limit(metadata, 3, Rules(), say)
    assert (best["score"], best["tests"]) == (3.0, [{"name": "best"}])
    last = results_beyond_limit(metadata, 3, Rules(attempts="last"), say)
    assert (last["score"], last["tests"]) == (2.0, [{"name": "shown again"}])
    assert "attempt 3" in last["output"]
    path.write_text(json.dumps({"previous_submissions": [previous(1, 3), previous(2, None)]}))
    with pytest.raises(GradingError, match="Attempt 2"):
        results_beyond_limit(read_metadata(path), 2, Rules(), say)


def test_a_group_has_the_latest_date_and_malformed_metadata_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "submission_metadata.json"
    dates = ("2026-03-05T00:00:00Z", "2026-03-07T00:00:00Z")
    users = [{"name": "Ada", "email": "Ada@x.org", "assignment": {"due_date": date}} for date in dates]
    path.write_text(json.dumps({"users": [*users, {"name": "Bo"}], "assignment": {"due_date": "2026-03-09T00:00:00Z"}}))
    assert str(read_metadata(path).due) == "2026-03-09 00:00:00+00:00"
    assert str(read_metadata(path).usual_due) == "2026-03-09 00:00:00+00:00"
    extension = Extension("ada@x.org", due=datetime(2026, 3, 20, tzinfo=UTC))
    group = SubmissionMetadata(email="bo@x.org", addresses=("bo@x.org", *read_metadata(path).addresses), students=3)
    assert with_dates(Rules(extensions=(extension,)), group).extends("any", "bo@x.org")
    for text in ("{", "[]", '{"assignment": {"due_date": "tomorrow"}}'):
        path.write_text(text)
        with pytest.raises(UsageError, match=r"submission_metadata\.json"):
            read_metadata(path)


@pytest.mark.parametrize(("hours_there", "latest"), [(0, 48), (24, 48), (48, 48), (72, 72)])
def test_the_later_of_two_extensions_counts_once(hours_there: int, latest: int) -> None:
    key, day = "lesson_1/twice_1_1", datetime(2026, 3, 1, 12, tzinfo=UTC)
    own = MappingProxyType({key: ExerciseRules(due=day + timedelta(days=30))})
    extensions = (Extension("ada@x.org", hours=48), Extension("ada@x.org", "another/exercise", hours=200))
    rules = Rules(due=day - timedelta(days=30), assigned=(key,), exercises=own, extensions=extensions)
    extended = day + timedelta(hours=hours_there)
    dated = with_dates(rules, SubmissionMetadata(due=extended, usual_due=day))
    assert dated.due_for(key, "ada@x.org") == day + timedelta(hours=latest)
    assert dated.due_for(key, "bo@x.org") == extended
    in_capitals = with_dates(rules, SubmissionMetadata(email="Ada@x.org", addresses=("Ada@x.org",)))
    assert in_capitals.extends(key, "Ada@x.org")
    only_theirs = with_dates(rules, SubmissionMetadata(due=extended))
    assert only_theirs.due_for(key, "ada@x.org") == day + timedelta(days=32)
