"""Courses: finding, parsing and validating the folders and packages that contain lessons and exercises.

A mistake is a `CourseError` with the file, the key, the expected value, and the nearest valid key or word. The key is
as in the file (`scenario[1].gpus`, counted from 0).

Starters and solutions are not read, only their presence is checked: a whole course loads in a few milliseconds.

A package names the folder of its course, as a module, in its `pyproject.toml`:

    [project.entry-points."gpututor.courses"]
    first_steps = "my_package.first_steps"
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from gpututor import __version__
from gpututor.course.manifest_cache import ManifestCache, Parse, parse_toml
from gpututor.course.model import (
    DEFAULT_PROCESSES,
    Course,
    Exercise,
    LearningPath,
    Lesson,
    Limits,
    MutantWaiver,
    Variant,
    split_hints,
)
from gpututor.errors import CourseError
from gpututor.files import ordinary
from gpututor.hardware.gpus import gpu_names
from gpututor.hardware.scenario import KINDS, Scenario
from gpututor.paths import manifest_cache_file
from gpututor.toml_schema import REQUIRED, Key, Mistake, as_error, nearest, text_of, unreadable, values_of

LANGUAGES = "languages"
"""Folder of the course's translations; see `gpututor.translation`."""
_ANY_SCENARIO = Scenario("")

SCENARIO_KEYS = tuple(
    Key(field.name, default=REQUIRED if field.default is MISSING else field.default, **field.metadata)
    for field in fields(Scenario)
)
LIMITS_KEYS = (
    Key("wall_s", "number", default=Limits().wall_s, least=0.1, most=600),
    Key("output_kib", "whole", default=Limits().output_kib, least=1, most=1024),
    Key("result_mib", "whole", default=Limits().result_mib, least=1, most=512),
)
VARIANT_KEYS = (
    Key("name", "identifier"),
    Key("values", "lines", least=2, most=200),
)
EXCUSE_KEYS = (Key("change", "line", most=120), Key("reason", "line", most=300))
EXERCISE_KEYS = (
    Key("title", "line", most=60),
    Key("summary", "line", most=200),
    Key("minutes", "whole", least=1, most=240),
    Key("kind", "choice", choices=("function", "processes", "script")),
    Key("processes", "whole", default=None, least=2, most=8),
    Key("entry", "identifier", default=""),
    Key("cases", "whole", default=3, least=1, most=100),
    Key("devices", "choices", default=("virtual", "cuda"), least=1, choices=KINDS),
    Key("scenario", "tables", default=({"name": "one GPU"},), least=1, most=32, keys=SCENARIO_KEYS),
    Key("limits", "table", default={}, keys=LIMITS_KEYS),
    Key("packages", "choices", default=(), choices=("triton",)),
    Key("allowed_names", "lines", default=(), most=60),
    Key("difficulty", "choice", default="medium", choices=("easy", "medium", "hard")),
    Key("prerequisites", "lines", default=(), most=60),
    Key("timeline", "line", default="", most=150),
    Key("excused_mutant", "tables", default=(), most=40, keys=EXCUSE_KEYS),
    Key("variant", "tables", default=(), most=20, keys=VARIANT_KEYS),
    Key("left_to_instructor", "lines", default=(), most=60),
)
LESSON_KEYS = (
    Key("title", "line", most=60),
    Key("summary", "line", most=200),
    Key("gpus", "whole", default=1, least=0, most=8),
)
PATH_KEYS = (Key("name", "line", most=30), Key("title", "line", most=60), Key("exercises", "lines", least=1, most=60))
COURSE_KEYS = (
    Key("id", "line", most=60),
    Key("title", "line", most=60),
    Key("gpututor", "line", default="", most=60),
    Key("for", "choice", default="", choices=("students",)),
    Key("variant_seed", "line", default="", most=200),
    Key("path", "tables", default=(), most=20, keys=PATH_KEYS),
)


def read_manifest(
    path: Path, keys: Sequence[Key], problems: list[CourseError], parse: Parse = parse_toml
) -> dict[str, Any]:
    """Return the values of a file's valid keys, with defaults; add its mistakes to `problems`."""
    try:
        document = parse(text_of(path))
    except (OSError, ValueError, RecursionError) as error:
        problems.append(unreadable(path, error))
        return {}
    mistakes: list[Mistake] = []
    values = values_of(document, keys, mistakes)
    problems += [as_error(path, mistake) for mistake in mistakes]
    return values


def version_mistake(wanted: str, version: str = __version__) -> Mistake | None:
    """Return the mistake if `version` is outside `wanted`, such as `>=0.1,<0.2`, or `wanted` cannot be read."""
    for term in wanted.split(",") if wanted else ():
        match = _VERSION_TERM.fullmatch(term)
        if match is None:
            advice = 'Write == or >= or < and a number, with commas between them: gpututor = ">=0.1,<0.2".'
            return Mistake("gpututor", f"expected versions of gpututor, got {wanted!r}", advice)
        is_within = _COMPARISONS[match[1]]
        if not is_within(version_numbers(version), version_numbers(match[2])):
            advice = "Install a version of gpututor in that range; or change this line if the course works with yours."
            return Mistake("gpututor", f"the course needs gpututor {wanted}, and this is {version}", advice)
    return None


_VERSION_TERM = re.compile(r"\s*(==|>=|<)\s*(\d{1,6}(?:\.\d{1,6})*)\s*", re.ASCII)
_COMPARISONS = {"==": operator.eq, ">=": operator.ge, "<": operator.lt}


def version_numbers(version: str) -> list[int]:
    """Return the numbers at a version's start, without zeros at the end: 0.2, 0.2.0 and 0.2.0rc1 are equal."""
    start = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(number) for number in start[0].split(".")] if start else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


def exercise_mistakes(values: dict[str, Any]) -> Iterator[Mistake]:
    """Yield the contradictions between valid keys of an `exercise.toml`."""
    names = [scenario["name"] for scenario in values.get("scenario", ()) if "name" in scenario]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield Mistake("scenario", f"two scenarios are called {name!r}", "Give each scenario its own name.")
    names = [variant["name"] for variant in values.get("variant", ()) if "name" in variant]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield Mistake("variant", f"two variants are called {name!r}", "Give each variant its own name.")
    kind, entry = values.get("kind"), values.get("entry")
    if kind in ("function", "script") and values.get("processes"):
        problem = f"a {kind} runs in one process"
        yield Mistake("processes", problem, 'Write kind = "processes", or leave this key out.')
    if kind == "script" and entry:
        yield Mistake("entry", "a script is run as a whole", "Leave this key out.")
    if kind in ("function", "processes") and entry == "":
        yield Mistake("entry", "it is missing: the name of a Python function", 'Add a line `entry = "…"`.')
    for position, scenario in enumerate(values.get("scenario", ())):
        gpu = scenario.get("gpu", _ANY_SCENARIO.gpu)
        if gpu != _ANY_SCENARIO.gpu and gpu not in (known := gpu_names()):
            yield Mistake(f"scenario[{position}].gpu", f"there is no GPU {gpu!r} in gpus.toml", nearest(gpu, known))
        if scenario.get("gpus") and scenario.get("backends") == ():
            problem = f"{scenario['gpus']} here, but `backends` is empty, so PyTorch could not use a GPU"
            yield Mistake(f"scenario[{position}].gpus", problem, 'Write gpus = 0, or backends = ["cuda"].')
        if (driver := scenario.get("driver", "fits")) != "fits" and scenario.get("gpus", _ANY_SCENARIO.gpus):
            problem = f"GPUs cannot be used with a driver that is {driver}"
            yield Mistake(f"scenario[{position}].driver", problem, "Write gpus = 0.")


EXERCISE_FILES = ("task.md", "starter.py", "given.py", "checks.py", "solution.py", "hints.md")
"""Required files next to `exercise.toml`."""
STUDENT_FILES = ("task.md", "starter.py", "hints.md")
"""Required files in a course for students, whose `course.toml` contains `for = "students"`."""
GRADING_FILES = ("given.py", "checks.py")
"""Files that an exercise of a course for students has if students can grade it."""
FEWEST_HINTS = 3

_FOLDER_NAME = re.compile(r"(\d\d)_([a-z][a-z0-9_]*)")


@dataclass(frozen=True)
class _NumberedFolder:
    """A folder called `NN_slug`."""

    number: int
    slug: str
    folder: Path


def load_course(folder: Path) -> Course:
    """Load the course in `folder`; broken parts are in `problems`. Raises `CourseError` if it has no lessons.

    It also raises `CourseError` if `course.toml` requires another version of gpututor.
    """
    folder = Path(os.path.abspath(folder))  # not resolved: a link to a course keeps its name
    if not os.path.isdir(folder):
        raise CourseError(f"{folder}: there is no such folder", "Name the folder of a course with --course DIR.")
    problems: list[CourseError] = []
    folders = _numbered_folders(folder, "lesson", problems)
    if not folders:
        # Such as after unpacking a zip into a new folder.
        if inside := ", ".join(sorted(str(path.parent) for path in folder.glob("*/course.toml"))[:3]):
            raise CourseError(f"{folder}: there are no lessons in it", f"The course is in a folder below: {inside}")
        titles = [f"{folder}: there are no lessons in it", *(problem.title for problem in problems[:3])]
        raise CourseError("\n".join(titles), "A course has folders called like 01_meet_the_device.")
    cache = ManifestCache(manifest_cache_file())
    about = read_manifest(folder / "course.toml", COURSE_KEYS, problems, cache.document)
    if mistake := version_mistake(about.get("gpututor", "")):
        raise as_error(folder / "course.toml", mistake)
    taken: dict[str, Path] = {}
    for_students = about.get("for") == "students"
    lessons = tuple(_load_lesson(lesson, taken, problems, for_students, cache.document) for lesson in folders)
    cache.save()
    paths = tuple(LearningPath(**path) for path in about.get("path", ()))
    problems += _reference_mistakes(folder, lessons, paths, list(taken))
    once = {problem.title: problem for problem in problems}  # a broken link can count as a file and as a folder
    id, title = about.get("id", ""), about.get("title", "")
    seed = about.get("variant_seed") or id
    return Course(folder, lessons, tuple(once.values()), id, title, for_students, paths, seed)


def _reference_mistakes(
    folder: Path, lessons: Sequence[Lesson], paths: Sequence[LearningPath], known: Sequence[str]
) -> Iterator[CourseError]:
    """Yield mistakes in names of other exercises. `known`: all slugs in their order, also of broken exercises."""
    names = [path.name for path in paths]
    for position, path in enumerate(paths):
        if path.name in names[:position]:
            problem, advice = f"a second path {path.name!r}", "Give each path a name of its own."
            yield as_error(folder / "course.toml", Mistake(f"path[{position}].name", problem, advice))
        for place, name in enumerate(path.exercises):
            if name not in known:
                key = f"path[{position}].exercises[{place}]"
                yield as_error(folder / "course.toml", Mistake(key, f"no exercise {name!r}", nearest(name, known)))
    for exercise in (exercise for lesson in lessons for exercise in lesson.exercises):
        earlier = known[: known.index(exercise.slug)]
        for place, name in enumerate(exercise.prerequisites):
            if name not in earlier:
                problem, key = f"no earlier exercise {name!r}", f"prerequisites[{place}]"
                yield as_error(exercise.folder / "exercise.toml", Mistake(key, problem, nearest(name, earlier)))


_parse_once = functools.lru_cache(64)(parse_toml)
"""Judges load the same exercises again for each submission."""


def load_exercise(folder: Path) -> Exercise:
    """Load the exercise in `folder`. Raises one `CourseError` with all its mistakes."""
    folder = Path(os.path.abspath(folder))
    if not os.path.isdir(folder):
        raise CourseError(f"{folder}: there is no such folder", "Name the folder of an exercise.")
    problems: list[CourseError] = []
    lesson = _named(folder.parent, "lesson", problems)
    numbered = _named(folder, "exercise", problems)
    about = read_manifest(folder.parent.parent / "course.toml", COURSE_KEYS, [], _parse_once)
    for_students = about.get("for") == "students"
    exercise = _read_exercise(lesson, numbered, problems, for_students, _parse_once) if lesson and numbered else None
    if exercise is None or problems:
        raise CourseError("\n".join(problem.title for problem in problems), problems[0].advice)
    return exercise


def _load_lesson(
    numbered: _NumberedFolder, taken: dict[str, Path], problems: list[CourseError], for_students: bool, parse: Parse
) -> Lesson:
    """Return the lesson, whose title defaults to its folder's name. `taken`: folders of exercises by slug, so far."""
    about = read_manifest(numbered.folder / "lesson.toml", LESSON_KEYS, problems, parse)
    _check_file(os.path.join(numbered.folder, "lesson.md"), problems)
    exercises: list[Exercise] = []
    folders = _numbered_folders(numbered.folder, "exercise", problems)
    if not folders:
        advice = "Add a folder called like 01_find_the_gpu."
        problems.append(CourseError(f"{numbered.folder}: the lesson has no exercises", advice))
    for exercise in folders:
        if exercise.slug in taken:
            problems.append(_taken(exercise, f"the name {exercise.slug!r}", taken[exercise.slug]))
            continue
        taken[exercise.slug] = exercise.folder
        before = len(problems)
        read = _read_exercise(numbered, exercise, problems, for_students, parse)
        if read is not None and len(problems) == before:
            exercises.append(read)
    title = about.get("title", numbered.slug.replace("_", " ").capitalize())
    summary, gpus = about.get("summary", ""), about.get("gpus", 1)
    return Lesson(numbered.number, numbered.slug, numbered.folder, title, summary, tuple(exercises), gpus)


def _read_exercise(
    lesson: _NumberedFolder,
    numbered: _NumberedFolder,
    problems: list[CourseError],
    for_students: bool = False,
    parse: Parse = parse_toml,
) -> Exercise | None:
    """Return the exercise if its manifest is valid; add the mistakes of all its files to `problems`."""
    path = numbered.folder / "exercise.toml"
    values = read_manifest(path, EXERCISE_KEYS, problems, parse)
    problems += [as_error(path, mistake) for mistake in exercise_mistakes(values)]
    folder = str(numbered.folder)
    can_grade = for_students and (numbered.folder / "checks.py").exists()
    required = (*STUDENT_FILES, *(GRADING_FILES if can_grade else ())) if for_students else EXERCISE_FILES
    _check_files(folder, required, problems)
    if len(values) < len(EXERCISE_KEYS):
        return None
    return Exercise(
        lesson_number=lesson.number,
        number=numbered.number,
        slug=numbered.slug,
        lesson_slug=lesson.slug,
        folder=numbered.folder,
        **{key: values[key] for key in ("title", "summary", "minutes", "kind", "entry", "cases", "devices")},
        scenarios=tuple(Scenario(**scenario) for scenario in values["scenario"]),
        limits=Limits(**values["limits"]),
        processes=values["processes"] or (DEFAULT_PROCESSES if values["kind"] == "processes" else 1),
        excused_mutants=tuple(MutantWaiver(**excuse) for excuse in values["excused_mutant"]),
        packages=values["packages"],
        allowed_names=values["allowed_names"],
        difficulty=values["difficulty"],
        prerequisites=values["prerequisites"],
        timeline=values["timeline"],
        variants=tuple(Variant(**variant) for variant in values["variant"]),
        left_to_instructor=values["left_to_instructor"],
    )


def _numbered_folders(folder: Path, what: str, problems: list[CourseError]) -> list[_NumberedFolder]:
    """Return the subfolders called `NN_slug` in their order, without duplicate numbers or names."""
    folders: list[_NumberedFolder] = []
    for name in _folder_names(folder, problems):
        if name == LANGUAGES and what == "lesson":
            continue
        new = _named(folder / name, what, problems)
        if new is None:
            continue
        if taken := next((other for other in folders if other.number == new.number), None):
            problems.append(_taken(new, f"the number {new.number:02d}", taken.folder))
        elif taken := next((other for other in folders if other.slug == new.slug), None):
            problems.append(_taken(new, f"the name {new.slug!r}", taken.folder))
        else:
            folders.append(new)
    return folders


def _named(folder: Path, what: str, problems: list[CourseError]) -> _NumberedFolder | None:
    match = _FOLDER_NAME.fullmatch(folder.name)
    if match is None or match[1] == "00":
        problem = f"not the name of a folder for {'an' if what == 'exercise' else 'a'} {what}"
        expected = "two digits from 01, _ and lower-case words, like 02_tensors_on_the_device"
        advice = "Rename the folder, or move it out of the course."
        problems.append(CourseError(f"{folder}: {problem}; expected {expected}", advice))
        return None
    return _NumberedFolder(int(match[1]), match[2], folder)


def _folder_names(folder: Path, problems: list[CourseError]) -> list[str]:
    """Return the names of visible subfolders, links followed; add broken entries to `problems`."""
    names = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith((".", "__")):
                    try:
                        names += [entry.name] if entry.is_dir() else []
                    except OSError as error:  # such as a link to itself
                        _report(folder / entry.name, error, problems)
    except OSError as error:
        _report(folder, error, problems)
    return sorted(names)


# Below, paths are texts: creating `Path` objects takes as long as `stat`.


def _report(path: Path | str, error: OSError, problems: list[CourseError]) -> None:
    """Add an error of the file system to `problems`."""
    if isinstance(error, FileNotFoundError):
        advice = (
            "Write it, as in another exercise. A course in an installed package needs its text files as package data."
        )
        problems.append(CourseError(f"{path}: the file is missing", advice))
    else:
        advice = "Make it readable, or remove it."
        problems.append(CourseError(f"{path}: cannot be read ({error.strerror})", advice))


def _check_files(folder: str, names: Sequence[str], problems: list[CourseError]) -> None:
    """Check the required files of an exercise, most of which are read later."""
    try:
        with os.scandir(folder) as entries:  # takes a third of the time of `stat` for each name
            sound = {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}
    except OSError:
        sound = set()  # `_check_file` reports each file
    for name in names:
        if name == "hints.md":
            _check_hints(os.path.join(folder, name), problems)
        elif name not in sound:
            _check_file(os.path.join(folder, name), problems)


def _check_file(path: str, problems: list[CourseError]) -> None:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            problems.append(CourseError(f"{path}: not an ordinary file", "Put a text file in its place."))
    except OSError as error:
        _report(path, error, problems)


def _check_hints(path: str, problems: list[CourseError]) -> None:
    try:
        with open(path, "rb", buffering=0, opener=ordinary) as stream:
            count = len(split_hints(stream.readall().decode()))
    except UnicodeDecodeError as error:
        problems.append(CourseError(f"{path}: cannot be read ({error})", "Save the file as UTF-8."))
    except OSError as error:
        _report(path, error, problems)
    else:
        if count < FEWEST_HINTS:
            problem = f"{path}: expected {FEWEST_HINTS} hints or more, found {count}"
            problems.append(CourseError(problem, "Each hint begins with a line `## …`."))


def _taken(numbered: _NumberedFolder, what: str, by: Path) -> CourseError:
    return CourseError(f"{numbered.folder}: {what} is taken by {by}", "Rename one of the two.")


GROUP = "gpututor.courses"


def course_folder(word: str) -> Path:
    """Return the folder for `--course`: that path, else the folder of the installed course of that name.

    Only the parent packages of the folder are imported. Raises `CourseError` for an unknown name, and for an entry
    point without a package.
    """
    folder = Path(word).expanduser()  # a shell leaves the ~ of --course=~/mine alone
    if folder.exists() or len(folder.parts) != 1 or not word.isidentifier():
        return folder
    import importlib.metadata  # 20 ms
    import importlib.util

    packs = {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUP)}
    if not packs:
        return folder
    if word not in packs:
        from gpututor.fuzzy import did_you_mean  # only a wrong name pays for it

        problem = f"{word}: there is no such folder, and no installed course of that name"
        raise CourseError(problem, f"{did_you_mean(word, packs)}Installed: {', '.join(sorted(packs))}.")
    module = packs[word].module
    with contextlib.suppress(ImportError):
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.submodule_search_locations:
            return Path(spec.submodule_search_locations[0])
    problem = f"the course {word!r} is in {module}, and there is no such package"
    raise CourseError(problem, "Reinstall the package of this course, or name a folder.")
