"""Gradescope's autograder zip: `setup.sh`, `run_autograder`, gpututor itself, and the exercises that it grades.

Gradescope unpacks the zip to /autograder/source, runs `setup.sh` once to make an image, and `run_autograder` for each
submission. `GPUTUTOR_AUTOGRADER_ROOT` replaces /autograder, to try both elsewhere.
"""

from __future__ import annotations

import json
import re
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from gpututor import __version__, paths
from gpututor.classroom.jobs import class_secret
from gpututor.classroom.packing import manifest_of, write_zip
from gpututor.classroom.roster import Roster, read_roster, roster_text
from gpututor.classroom.rules import Rules
from gpututor.course.loader import EXERCISE_KEYS, LANGUAGES, load_course
from gpututor.course.model import Course, Exercise
from gpututor.errors import CourseError, NotGradableHere, UsageError
from gpututor.hardware.inventory import torch_version

SETTINGS = "autograder.json"
RULES = "classroom.toml"
SECRET = "class.secret"
ROSTER = "roster.csv"
COURSE = "course"
_PACKAGE = "package"
_LEFT_OUT = ("__pycache__", "exercises")
"""Folders that the image does not need: it has a course of its own."""

SETUP = """\
#!/usr/bin/env bash
# Makes the image: Gradescope runs this once, as root, on Ubuntu.
set -euo pipefail
root="${GPUTUTOR_AUTOGRADER_ROOT:-/autograder}"

apt-get update
apt-get install -y --no-install-recommends python3 python3-venv
# Most containers do not allow bubblewrap. If yours does, submissions see no other files.
apt-get install -y --no-install-recommends bubblewrap || true

python=python3
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    apt-get install -y --no-install-recommends python3.11 python3.11-venv
    python=python3.11
fi
"$python" -m venv "$root/venv"
"$root/venv/bin/python" -m pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "torch==TORCH"
"$root/venv/bin/python" -m pip install --no-cache-dir -r "$root/source/requirements.txt"
packages="$("$root/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
printf '%s\\n' "$root/source/package" > "$packages/gpututor.pth"
"""
RUN = """\
#!/usr/bin/env bash
# Grades /autograder/submission into /autograder/results/results.json.
set -euo pipefail
root="${GPUTUTOR_AUTOGRADER_ROOT:-/autograder}"
exec "$root/venv/bin/python" -m gpututor classroom gradescope-grade "$root"
"""


@dataclass(frozen=True)
class ImageSettings:
    """Settings of an image."""

    exercises: tuple[str, ...]
    """Keys of the exercises to grade."""
    course: tuple[str, ...]
    """Keys of all exercises of the course, which the rules may name."""
    gpututor: str = __version__


def write_image(
    path: Path,
    course: Course,
    exercises: Sequence[Exercise],
    rules: Rules | None,
    secret: Path | None,
    roster: Path | None = None,
) -> dict[str, bytes]:
    """Write the zip, and return its files. Raises `UsageError`, also for a wrong roster; `CourseError`.

    `rules`: the class's rules, also for other exercises. `secret`: a class secret; None for a new one. It is part of
    the image, so a second run repeats the same inputs. `roster`: the class's roster, for exercises with variants.
    """
    keys = tuple(exercise.key for exercise in exercises)
    everything = tuple(exercise.key for exercise in course.exercises)
    settings = json.dumps(asdict(ImageSettings(keys, everything)), indent=1) + "\n"
    files = {SETTINGS: settings.encode(), "run_autograder": RUN.encode()}
    if not (torch := torch_version().partition("+")[0]):
        raise NotGradableHere("PyTorch is not installed.", "The image gets the same version as this machine.")
    files["setup.sh"] = SETUP.replace("TORCH", torch).encode()
    files["requirements.txt"] = "".join(f"{line}\n" for line in _requirements(exercises)).encode()
    if rules is not None:
        _check_limits(rules, keys)
        files[RULES] = rules.text.encode()
    if (people := _checked_roster(roster, exercises)) is not None:
        files[ROSTER] = roster_text(people.students).encode()
    with tempfile.TemporaryDirectory() as folder:
        files[SECRET] = class_secret(secret or Path(folder, SECRET)).hex().encode() + b"\n"
        in_course = dict(_course_files(course, exercises))
        for name, content in in_course.items():
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, name).write_bytes(content)
        if problems := load_course(Path(folder)).problems:
            titles = "\n".join(problem.title for problem in problems)
            raise CourseError(
                f"{course.folder}: the exercises are not valid.\n{titles}", "Fix them: `gpututor verify`."
            )
    files |= {f"{COURSE}/{name}": content for name, content in in_course.items()}
    files |= {f"{_PACKAGE}/gpututor/{name}": content for name, content in _files_below(paths.PACKAGE)}
    write_zip(path, files, _is_image)
    return files


def _checked_roster(path: Path | None, exercises: Sequence[Exercise]) -> Roster | None:
    """Read the roster, which exercises with variants need. Raises `UsageError`."""
    varying = ", ".join(exercise.label for exercise in exercises if exercise.variants)
    if varying and path is None:
        advice = "Name the class's roster with --roster: the values follow from the ids in it."
        raise UsageError(f"Each student has a variant of {varying}.", advice)
    if path is not None and not varying:
        title = "A roster is only for exercises with variants, which these are not."
        raise UsageError(title, "Leave out --roster: Gradescope knows the students and their extensions.")
    return read_roster(path) if path is not None else None


def _check_limits(rules: Rules, exercises: Sequence[str]) -> None:
    """Raise `UsageError` if `max_attempts` differs: on Gradescope, a submission is an attempt at all exercises."""
    limits = {key: rules.max_attempts_for(key) for key in exercises}
    if len(set(limits.values())) > 1:
        words = ", ".join(f"{key}: {limit or 'all'}" for key, limit in limits.items())
        title = f"{rules.path}: max_attempts differs between the exercises ({words})."
        raise UsageError(title, "Make an autograder, and an assignment on Gradescope, for each limit.")


def _is_image(archive: zipfile.ZipFile) -> bool:
    return {SETTINGS, "run_autograder", "setup.sh"} <= set(archive.namelist())


def _requirements(exercises: Sequence[Exercise]) -> Iterator[str]:
    """Yield the packages that gpututor and the exercises need, as gpututor's own metadata lists them."""
    try:
        lines = metadata.requires("gpututor") or []
    except metadata.PackageNotFoundError as error:
        title = "gpututor is not installed, so its requirements are unknown."
        raise UsageError(title, "Install it with `pip install -e .` in its folder.") from error
    extras = {package for exercise in exercises for package in exercise.packages}
    for line in lines:
        extra = re.search(r"extra == ['\"](\w+)['\"]", line)
        if extra is None:
            yield line
        elif extra[1] in extras:
            yield line.partition(";")[0].strip()


def _course_files(course: Course, exercises: Sequence[Exercise]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a course with only these exercises, which keep their numbers."""
    yield "course.toml", manifest_of(course.folder / "course.toml", ["id", "title", "variant_seed"]).encode()
    keys = [key.name for key in EXERCISE_KEYS if key.name != "prerequisites"]  # they may be in no image
    for path in sorted((course.folder / LANGUAGES).glob("*.po")):
        yield f"{LANGUAGES}/{path.name}", path.read_bytes()
    for lesson in course.lessons:
        chosen = [exercise for exercise in lesson.exercises if exercise in exercises]
        for path in (lesson.folder / "lesson.toml", lesson.folder / "lesson.md") if chosen else ():
            yield f"{lesson.folder.name}/{path.name}", path.read_bytes()
        for exercise in chosen:
            place = f"{lesson.folder.name}/{exercise.folder.name}"
            for name, content in _files_below(exercise.folder):
                is_manifest = name == "exercise.toml"
                text = manifest_of(exercise.folder / name, keys).encode() if is_manifest else content
                yield f"{place}/{name}", text


def _files_below(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not set(inside.parts) & set(_LEFT_OUT) and not inside.name.startswith("."):
            yield inside.as_posix(), path.read_bytes()
