"""Which layout a class was exported in, told by the names in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from gpututor.classroom.intake.entries import Kind
from gpututor.classroom.intake.in_zips import is_zip_name
from gpututor.classroom.intake.layouts import canvas, moodle
from gpututor.classroom.intake.layouts.gradescope import METADATA
from gpututor.classroom.intake.manifest import PACK_ENDS
from gpututor.classroom.intake.names import without_copy_mark, without_ending
from gpututor.classroom.intake.tree import Tree
from gpututor.classroom.intake.which_exercise import ExerciseNames
from gpututor.errors import UsageError

AUTO = "auto"
LAYOUTS = ("folders", "files", "gradescope", "moodle", "canvas")
_LOOKED_AT = 50_000
_CHOOSE = f"Say which it is with --layout: {', '.join(LAYOUTS)}. docs/classroom/layouts.md shows them."


@dataclass(frozen=True)
class Recognised:
    layout: str
    tree: Tree
    """Below the folders that hold all the rest."""


def recognise(tree: Tree, names: ExerciseNames, layout: str, *, one_exercise: bool) -> Recognised:
    """Find out the layout, unless it is given. Raises `UsageError` where that is unclear, or nothing is there."""
    if layout not in (AUTO, *LAYOUTS):
        raise UsageError(f"There is no layout called {layout!r}.", f"They are {AUTO}, {', '.join(LAYOUTS)}.")
    is_packed = not tree.path.is_dir() and layout != "folders"
    wrapper, paths = _unwrapped(_paths(tree), names, is_packed=is_packed)
    if spared := _spared(tree, wrapper, names, one_exercise):
        tree = replace(tree, spared=spared)
        wrapper, paths = _unwrapped(_paths(tree), names, is_packed=is_packed)
    if wrapper and layout in (AUTO, "folders") and _is_only_students(tree, paths, is_packed):
        wrapper, paths = wrapper[:-1], [(wrapper[-1], *paths[0])]
    if not any(path[-1].casefold().endswith((".py", ".zip")) for path in paths):
        raise UsageError(f"{tree.path} holds no Python files and no zips.", "Name the folder or the zip of the class.")
    if layout == AUTO and len(paths) == 1:
        _check_not_the_class(replace(tree, wrapper=wrapper), paths[0], names)
    found = layout if layout != AUTO else _layout_of(paths, names, tree, one_exercise)
    return Recognised(found, replace(tree, wrapper=wrapper))


def _paths(tree: Tree) -> list[tuple[str, ...]]:
    entries = islice(tree.entries(open_zips=False), _LOOKED_AT)
    return [
        entry.parts if entry.kind is not Kind.FOLDER else (*entry.parts, "")
        for entry in entries
        if entry.kind not in (Kind.NOISE, Kind.PLACE)
    ]


def _spared(
    tree: Tree, wrapper: tuple[str, ...], names: ExerciseNames, one_exercise: bool
) -> frozenset[tuple[str, ...]]:
    """Folders of students that are called as what tools leave behind: they hold exercises, and stand where students do.

    That is in `wrapper`; or beside it, where it was taken for one because it seemed to be alone.
    """
    depths = {len(wrapper) + 1, max(1, len(wrapper))}
    called_so = frozenset(
        entry.parts
        for entry in islice(tree.entries(open_zips=False), _LOOKED_AT)
        if entry.kind is Kind.NOISE
        and len(entry.parts) in depths
        and entry.parts[:-1] == wrapper[: len(entry.parts) - 1]
        and not entry.parts[-1].startswith(".")
    )
    if not called_so:
        return called_so
    files = [
        entry.parts
        for entry in islice(replace(tree, spared=called_so).entries(open_zips=False), _LOOKED_AT)
        if entry.kind is Kind.FILE
    ]
    return frozenset(
        file[:depth]
        for file in files
        for depth in depths
        if file[:depth] in called_so and _holds_work(file[depth:], names, one_exercise)
    )


def _holds_work(path: tuple[str, ...], names: ExerciseNames, one_exercise: bool) -> bool:
    """Whether a folder in which a file has this path is somebody's, and no tool's."""
    if not path:
        return False
    name = path[-1].casefold()
    if name.endswith(".py"):
        return names.at(path) is not None or (one_exercise and len(path) == 1)
    return name.endswith(".zip") and len(path) == 1


def _unwrapped(
    paths: list[tuple[str, ...]], names: ExerciseNames, *, is_packed: bool
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The folders that everything lies in, and the paths from there.

    `is_packed`: whether a program may have put a folder around files that are called after students.
    """
    wrapper: list[str] = []
    while folder := _wrapper(paths, names, is_packed):
        wrapper.append(folder)
        paths = [path[1:] for path in paths]
    return tuple(wrapper), paths


def _wrapper(paths: list[tuple[str, ...]], names: ExerciseNames, is_packed: bool) -> str:
    """The folder that everything lies in, if it is no student's and no exercise's; else empty."""
    tops = {path[0] for path in paths}
    if len(tops) != 1 or any(len(path) < 2 for path in paths):
        return ""
    folder = tops.pop()
    below = [path[1:] for path in paths]
    if _is_of_platform({path[0] for path in below}):
        return folder
    if moodle.NAME.fullmatch(folder) or names.named(folder) or names.is_lesson(folder):
        return ""
    if not is_packed and any(len(path) == 1 and _may_be_anything(path[0], names) for path in below):
        return ""
    return "" if _is_workspace(below, names) else folder


def _is_only_students(tree: Tree, paths: list[tuple[str, ...]], is_packed: bool) -> bool:
    """Whether all there is is a zip that `gpututor pack` made: then the folder around it is called after the student.

    Unless a program put the folder around it, and the zip is not called as it was made.
    """
    if len(paths) != 1 or len(paths[0]) != 1 or not is_zip_name(name := paths[0][0]) or _is_of_platform({name}):
        return False
    if is_packed and not without_copy_mark(without_ending(name, ".zip")).endswith(PACK_ENDS):
        return False
    packed = (entry.parts for entry in islice(tree.entries(), _LOOKED_AT) if entry.packed is not None)
    return any(sum(map(is_zip_name, parts)) == 1 for parts in packed)


def _may_be_anything(name: str, names: ExerciseNames) -> bool:
    """Whether it is a program whose name does not say whose it is."""
    is_program = name.casefold().endswith(".py")
    return is_program and canvas.match(name) is None and _exercise_after_mark(name, names) is None


def _is_workspace(paths: Iterable[tuple[str, ...]], names: ExerciseNames) -> bool:
    """Whether these are one student's files: exercises by name, on top or in folders of lessons."""
    return any(
        path[-1].casefold().endswith(".py")
        and (len(path) == 1 or (len(path) == 2 and names.is_lesson(path[0])))
        and names.at(path) is not None
        for path in paths
    )


def _layout_of(paths: list[tuple[str, ...]], names: ExerciseNames, tree: Tree, one_exercise: bool) -> str:
    by_top: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for path in paths:
        by_top[path[0]].append(path)
    if METADATA in by_top:
        return "gradescope"
    platforms = {
        "moodle": sum(moodle.NAME.fullmatch(name) is not None for name in by_top),
        "canvas": sum(canvas.match(name) is not None and _exercise_after_mark(name, names) is None for name in by_top),
    }
    layout, count = max(platforms.items(), key=lambda item: item[1])
    if count * 2 >= len(by_top):
        return layout
    if count:
        raise UsageError(
            f"{tree.path}: {count} of {len(by_top)} names are such as {layout.capitalize()} gives.",
            _CHOOSE,
        )
    if _is_workspace(paths, names):
        raise UsageError(
            f"{tree.path} looks like the files of one student.",
            "Put them into a folder with the student's name, and name the folder above that one.",
        )
    files = [name for name, below in by_top.items() if _has_files_of_students(name, below, names, one_exercise)]
    students = [name for name, below in by_top.items() if name not in files and _may_be_student(name, below)]
    if files and students:
        raise UsageError(
            f"{tree.path}: {files[0]!r} is such as in the layout `files`, and {students[0]!r} as in `folders`.", _CHOOSE
        )
    if not files and not students:
        raise UsageError(
            f"{tree.path} is in no layout that is known: {paths[0][0]!r} names no exercise here and no student.",
            f"If it was handed in for another course, name that one with --course DIR. {_CHOOSE}",
        )
    if students:
        _check_no_sections({name: by_top[name] for name in students}, names, tree)
    return "files" if files else "folders"


def _is_of_platform(tops: set[str]) -> bool:
    """Whether these are the names that a platform gives."""
    given = sum(moodle.NAME.fullmatch(name) is not None or canvas.match(name) is not None for name in tops)
    return METADATA in tops or (given > 0 and 2 * given >= len(tops))


def _check_not_the_class(tree: Tree, only: tuple[str, ...], names: ExerciseNames) -> None:
    """Raise `UsageError` where the only file is a zip with the whole class, and not one student's."""
    entries = [entry.parts[len(only) :] for entry in islice(tree.entries(), _LOOKED_AT) if entry.kind is Kind.FILE]
    _, inside = _unwrapped([path for path in entries if path], names, is_packed=True)
    tops = {path[0] for path in inside}
    if _is_of_platform(tops) or _twins([(only[-1], *path) for path in inside], names):
        raise UsageError(f"{only[-1]!r} in {tree.path} holds a whole class.", "Name that zip itself.")


def _exercise_after_mark(name: str, names: ExerciseNames) -> object:
    student, mark, exercise = without_ending(name, ".py").rpartition("__")
    return names.named(exercise) if mark and student else None


def _has_files_of_students(name: str, paths: list[tuple[str, ...]], names: ExerciseNames, one_exercise: bool) -> bool:
    """Whether the files below this name are called after students."""
    if paths == [(name,)]:
        is_python = name.casefold().endswith(".py")
        return is_python and (one_exercise or _exercise_after_mark(name, names) is not None)
    return names.is_lesson(name) or names.named(name) is not None


def _may_be_student(name: str, paths: list[tuple[str, ...]]) -> bool:
    return name.casefold().endswith(".zip") or any(len(path) > 1 for path in paths)


def _check_no_sections(by_top: dict[str, list[tuple[str, ...]]], names: ExerciseNames, tree: Tree) -> None:
    """Raise `UsageError` where most folders hold the folders of several students each."""
    twins = {top: found for top, paths in by_top.items() if (found := _twins(paths, names))}
    if len(twins) * 2 <= len(by_top):
        return
    top, (one, other) = next(iter(twins.items()))
    raise UsageError(
        f"{tree.path}: {top!r} holds several folders with the same exercises, {one!r} and {other!r}.",
        f"If these are students, name the folder {top!r}. If {top!r} is one student, say --layout folders.",
    )


def _twins(paths: list[tuple[str, ...]], names: ExerciseNames) -> tuple[str, str] | None:
    """Two folders, neither a lesson's nor an exercise's, that have a file for the same exercise."""
    first: dict[str, str] = {}
    for path in paths:
        if len(path) < 3 or not path[-1].casefold().endswith(".py"):
            continue
        if names.is_lesson(path[1]) or names.named(path[1]) or (exercise := names.at(path[2:])) is None:
            continue
        other = first.setdefault(exercise.key, path[1])
        if other != path[1]:
            return other, path[1]
    return None
