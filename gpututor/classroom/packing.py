"""Packing: a student's submission as a zip, and a course without solutions for students.

The students' course has only the files and keys listed here. Checks, solutions, variants, wrong solutions, baselines
and generators of inputs are left out. An exercise with `public_checks.py` has these checks, and its generator.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import tempfile
import tomllib
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from gpututor import __version__
from gpututor.classroom.intake.archive import MANIFEST
from gpututor.classroom.intake.collect import refusal_of
from gpututor.classroom.rules import Rules
from gpututor.course.loader import COURSE_KEYS, EXERCISE_KEYS, LESSON_KEYS, STUDENT_FILES, load_course
from gpututor.course.model import PUBLIC_CHECKS, Course, Exercise
from gpututor.course.notebooks import notebook_of
from gpututor.course.workspace import Workspace, read_submission
from gpututor.errors import CourseError, UsageError, WorkspaceError
from gpututor.files import ordinary, write_atomically
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Outcome
from gpututor.grading.report_text import outcome_line, remarks
from gpututor.toml_schema import text_of

SCHEMA_VERSION = 1
MARK = 'for = "students"'
"""Line of `course.toml` that marks a course for students."""
_LEFT_KEY = "left_to_instructor"
"""Key of a copy's `exercise.toml`: names of the checks that the copy does not have."""
_SOLUTION_KEYS = ("excused_mutant", "timeline", "variant", _LEFT_KEY)
"""Keys of `exercise.toml` that reveal something of the solution, or of other students' variants."""
MORE_CHECKS = "more checks"
"""Words for hidden checks."""
Left = Mapping[str, Sequence[str]]
"""Names of checks that are left to the instructor, by the keys of exercises with public checks."""
_BLOCK = r"\n[ \t]*(?:\n|<!--|[-*+>#]|\d+[.)]|```|~~~)"
"""Possible start of a new block, which ends a code span."""
_COMMENT = re.compile(
    r"(^ {0,3}(?:(?P<ticks>`{3,})[^`\n]*|(?P<tildes>~{3,})[^\n]*)\n"
    r".*?(?:^ {0,3}(?:(?P=ticks)`*|(?P=tildes)~*)[ \t]*$|\Z)"
    rf"|(?<![`\\])(?P<span>`+)(?!`)(?:(?!{_BLOCK}).)+?(?<!`)(?P=span)(?!`))"
    r"|^ {0,3}<!--.*?(?:-->[ \t]*\n?|\Z)|<!--.*?-->",
    re.MULTILINE | re.DOTALL,
)
"""Code (the first group), or a comment in HTML."""


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """Make a zip of `files` by path. It is sorted and not compressed, because results differ between zlib versions."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name)  # dated 1980, so that equal files make equal zips
            info.external_attr, info.create_system = 0o100644 << 16, 3  # an ordinary file of Unix
            archive.writestr(info, files[name])
    return whole.getvalue()


def write_zip(path: Path, files: Mapping[str, bytes], is_ours: Callable[[zipfile.ZipFile], bool]) -> None:
    """Write the zip. Raises `UsageError` if that fails, or if `path` is something other than a zip that `is_ours`."""
    if path.is_dir() or path.is_symlink() or (path.exists() and not _is_ours(path, is_ours)):
        what = "a folder" if path.is_dir() else "a link" if path.is_symlink() else "another file"
        raise UsageError(f"{path} is {what}, and is not replaced.", "Name another place with --out, or move it away.")
    try:
        write_atomically(path, zip_of(files))
    except OSError as error:
        advice = "Name another place with --out."
        raise UsageError(f"{path}: cannot be written ({error.strerror})", advice) from error


def _is_ours(path: Path, is_ours: Callable[[zipfile.ZipFile], bool]) -> bool:
    try:
        with open(path, "rb", opener=ordinary) as stream, zipfile.ZipFile(stream) as archive:
            return is_ours(archive)
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError):
        return False  # not our zip, so it is not replaced


@dataclass(frozen=True)
class PackedFile:
    """A file of the zip."""

    exercise: Exercise
    path: str
    """Path in the workspace and in the zip, with `/`."""
    content: bytes
    warning: str
    """A sentence for the student; empty without a problem."""


@dataclass(frozen=True)
class LeftOut:
    """A file that cannot be packed."""

    exercise: Exercise
    path: str
    why: str


@dataclass
class Pack:
    """A student's files to submit, and those that are left out."""

    course: str
    """The course's `id`."""
    others: tuple[str, ...]
    """Python files of the workspace that belong to no exercise."""
    files: list[PackedFile] = field(default_factory=list)
    unchanged: list[Exercise] = field(default_factory=list)
    missing: list[Exercise] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def write(self, path: Path, student: str = "") -> None:
        """Write the zip. Raises `UsageError` if that fails."""
        content = {
            "schema_version": SCHEMA_VERSION,
            "course": self.course,
            "student": student,
            "gpututor": __version__,
            "exercises": {file.path: file.exercise.key for file in self.files},
        }
        manifest = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        files = {file.path: file.content for file in self.files}
        write_zip(path, {**files, MANIFEST: manifest.encode()}, lambda archive: MANIFEST in archive.namelist())


def named(course: Course, words: Sequence[str]) -> tuple[Exercise, ...]:
    """Find exercises by names of exercises and lessons; all without words. Raises `UsageError` for an unknown name."""
    if not words:
        return course.exercises
    keys: set[str] = set()
    for word in words:
        names = {word, Path(word).name}
        lessons = [lesson for lesson in course.lessons if names & {str(lesson.number), lesson.slug, lesson.folder.name}]
        keys.update(exercise.key for lesson in lessons for exercise in lesson.exercises)
        if not lessons:
            keys.add(course.find(word).key)
    return tuple(exercise for exercise in course.exercises if exercise.key in keys)


def pack_of(course: Course, workspace: Workspace, exercises: Iterable[Exercise]) -> Pack:
    """Pack the student's files for `exercises`. No link is followed below the workspace."""
    pack = Pack(course.id, tuple(_other_files(course, workspace)))
    for exercise in exercises:
        file = workspace.path_of(exercise)
        path = file.relative_to(workspace.folder).as_posix()
        try:
            if not (file.is_symlink() or file.exists()):
                pack.missing.append(exercise)
                continue
            if file.parent.is_symlink():
                raise WorkspaceError(f"{file.parent} is a link.", "")
            text = read_submission(file, follow_links=False)
        except WorkspaceError as error:
            pack.left_out.append(LeftOut(exercise, path, error.title))
            continue
        except OSError as error:
            pack.left_out.append(LeftOut(exercise, path, f"It cannot be read: {error.strerror}."))
            continue
        if workspace.is_starter(exercise, text):
            pack.unchanged.append(exercise)
        elif refusal := refusal_of(text.encode()):
            pack.left_out.append(LeftOut(exercise, path, refusal))
        else:
            pack.files.append(PackedFile(exercise, path, text.encode(), _warning(text)))
    return pack


def _warning(text: str) -> str:
    """Return a sentence if Python cannot parse the text; otherwise an empty text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        return f"Python cannot read it: {where}{error.msg}."
    except (ValueError, RecursionError, MemoryError) as error:
        return f"Python cannot read it: {str(error) or 'it is nested too deeply'}."
    return ""


def _other_files(course: Course, workspace: Workspace) -> Iterator[str]:
    """Yield Python files that belong to no exercise, in the workspace and in its folders of lessons."""
    known = {workspace.path_of(exercise) for exercise in course.exercises}
    lessons = [workspace.folder / lesson.folder.name for lesson in course.lessons]
    for folder in (workspace.folder, *(lesson for lesson in lessons if not lesson.is_symlink())):
        with contextlib.suppress(OSError):  # the list is only a hint about misnamed files
            for path in sorted(folder.glob("*.py")):
                if path not in known:
                    yield path.relative_to(workspace.folder).as_posix()


def checked_out(path: Path | None, course: Course) -> Path:
    """Return the path of the zip, in the folder `path` if it is one. Raises `UsageError` for a name without `.zip`."""
    name = f"{course.place or 'gpututor'}-pack.zip"
    if path is None:
        return Path(name)
    if path.is_dir():
        return path / name
    if path.suffix.lower() != ".zip":
        raise UsageError(f"{path}: the name must end in .zip.", "For example: --out my_work.zip.")
    return path


def student_course(course: Course, *, notebooks: bool = False, left: Left | None = None) -> dict[str, bytes]:
    """Return the files of the course for students by path. Raises `CourseError` for a course with mistakes.

    `notebooks`: True for a notebook of each exercise, too. `left`: the result of `left_to_instructor`, if it is known.
    """
    left = left_to_instructor(course) if left is None else left
    files = {path: text.encode() for path, text in _files(course, left)}
    for exercise in course.exercises if notebooks else ():
        path = f"{exercise.folder.parent.name}/{exercise.folder.name}/{exercise.slug}.ipynb"
        task = without_comments(exercise.file("task.md"))
        files[path] = notebook_of(task, exercise.file("starter.py")).encode()
    return files


def left_to_instructor(course: Course, rules: Rules | None = None) -> Left:
    """Grade the solutions with the public checks, in a copy for students; return the names of the other checks.

    Checks that `rules` hide are only "more checks". Raises `CourseError` if the course has mistakes, or a solution does
    not pass there.
    """
    if course.problems:
        titles = "\n".join(problem.title for problem in course.problems)
        raise CourseError(f"{course.folder}: the course has mistakes.\n{titles}", "Fix them first: `gpututor verify`.")
    public = [exercise for exercise in course.exercises if exercise.has_public_checks]
    if not public:
        return {}
    left = {}
    with tempfile.TemporaryDirectory() as part, contextlib.closing(GradingClient()) as client:
        _write({path: text.encode() for path, text in _files(course, {})}, Path(part))
        for exercise in public:
            copy = Path(part) / exercise.folder.parent.name / exercise.folder.name
            try:
                names = _left_of(exercise, copy, client)
            except CourseError as error:
                title = error.title.replace(str(copy / "checks.py"), str(exercise.folder / PUBLIC_CHECKS))
                raise CourseError(title, error.advice) from error
            shown = [name for name in names if rules is None or not rules.is_hidden_before_due(exercise.key, name)]
            left[exercise.key] = shown if len(shown) == len(names) else [*shown, MORE_CHECKS]
    return left


def _left_of(exercise: Exercise, copy: Path, client: GradingClient) -> list[str]:
    names = [{check.name for check in client.describe(str(folder))} for folder in (copy, exercise.folder)]
    for event in client.grade(GradeRequest(str(copy), exercise.solution, "solution.py")):
        if not isinstance(event, GradingFinished):
            continue
        report = event.report
        if report.outcome not in (Outcome.PASSED, Outcome.NOT_GRADABLE_HERE):
            lines = [f"{copy / 'checks.py'}: the solution does not pass these checks.", outcome_line(report)]
            lines += remarks(report)
            lines += (f"{verdict.check}: {verdict.got}" for verdict in report.verdicts if verdict.got)
            advice = "Students' copies have given.py, and no other file that a check could need."
            raise CourseError("\n".join(lines), advice)
    return sorted(names[1] - names[0])


def write_student_course(
    course: Course, out: Path, *, notebooks: bool = False, left: Left | None = None
) -> dict[str, bytes]:
    """Write the course for students to `out`, a `.zip` or a new folder, whole or not at all; return its files."""
    files = student_course(course, notebooks=notebooks, left=left)
    if out.suffix.lower() == ".zip":
        with tempfile.TemporaryDirectory() as part:
            _write(files, Path(part))  # checks that it can be loaded
        write_zip(out, {f"{out.stem}/{path}": content for path, content in files.items()}, _is_student_course)
        return files
    if (out.exists() and (not out.is_dir() or any(out.iterdir()))) or out.is_symlink():
        raise UsageError(f"{out} already exists.", "Name a new folder or a .zip with --out.")
    parent = out.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", suffix=".part", dir=parent) as part:
            whole = Path(part) / "course"
            _write(files, whole)
            whole.replace(out)
    except OSError as error:
        raise UsageError(f"{out}: cannot be written ({error.strerror})", "Name another place with --out.") from error
    return files


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files. Raises `CourseError` if they are not a valid course."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    made = load_course(folder)
    if made.problems or not made.for_students:
        titles = "\n".join(problem.title for problem in made.problems)
        raise CourseError(f"{folder}: the students' course is not valid.\n{titles}", "This is a fault of gpututor.")


def _files(course: Course, left: Left) -> Iterator[tuple[str, str]]:
    own_keys = [key.name for key in COURSE_KEYS if key.name not in ("for", "variant_seed")]
    manifest = manifest_of(course.folder / "course.toml", own_keys)
    yield "course.toml", f"{MARK}\n{manifest}"  # a key after a table would belong to the table
    if course.glossary:
        yield "glossary.md", without_comments(course.glossary)
    if course.reading:
        yield "reading.md", without_comments(course.reading)
    for lesson in course.lessons:
        place = lesson.folder.name
        yield f"{place}/lesson.toml", manifest_of(lesson.folder / "lesson.toml", [key.name for key in LESSON_KEYS])
        yield f"{place}/lesson.md", without_comments(lesson.text)
        for exercise in lesson.exercises:
            path = f"{place}/{exercise.folder.name}"
            keys = [key.name for key in EXERCISE_KEYS if key.name not in _SOLUTION_KEYS]
            more = {_LEFT_KEY: list(names)} if (names := left.get(exercise.key)) else {}
            yield f"{path}/exercise.toml", manifest_of(exercise.folder / "exercise.toml", keys, more)
            if exercise.has_public_checks:
                yield f"{path}/checks.py", exercise.file(PUBLIC_CHECKS)
                yield f"{path}/given.py", exercise.given
            for name in STUDENT_FILES:
                text = exercise.file(name)
                yield f"{path}/{name}", without_comments(text) if name.endswith(".md") else text


def without_comments(markdown: str) -> str:
    """Remove comments in HTML, which may be authors' private notes, but not from code."""
    return _COMMENT.sub(lambda match: match[1] or "", markdown)


def manifest_of(path: Path, keys: list[str], more: Mapping[str, object] = MappingProxyType({})) -> str:
    """Return the TOML of `more` and of `keys`, without the comments of the author's file."""
    import tomlkit  # 45 ms

    try:
        document = tomllib.loads(text_of(path))
    except (OSError, ValueError) as error:
        raise CourseError(f"{path}: cannot be read ({error})", "Restore the file, then try again.") from error
    return tomlkit.dumps({**more, **{key: document[key] for key in keys if key in document}})


def _is_student_course(archive: zipfile.ZipFile) -> bool:
    names = [name for name in archive.namelist() if name.endswith("/course.toml")]
    return len(names) == 1 and MARK.encode() in archive.read(names[0])
