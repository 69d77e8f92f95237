"""Files: a call writes them into its folder; they open (checkpoints in a fresh worker) and have the right content."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch

from gpututor.checks.model import Applies, Call, Check, Finding, Reference, Run, in_each_call, run_reference
from gpututor.checks.parity import compare_with_reference, leaves
from gpututor.checks.python_syntax import literal_line
from gpututor.checks.structure import describe, describe_tensor, shape_and_dtype
from gpututor.checks.trees import first_difference, part_name, tensors_by_path, to_tree
from gpututor.checks.value import compare_leaves
from gpututor.errors import CourseError
from gpututor.protocol.frames import FrameError, check_parts
from gpututor.text import escape_control_chars

WHY = "When a program has ended, only its files are left: they must contain everything that matters."
MOST_TEXT_BYTES = 16 << 20
"""Bytes up to which a file is read as text, JSON or a trace."""
MOST_PARTS = 1 << 21
MOST_DEPTH = 64

How = Literal["torch", "safetensors", "json", "text", "trace"]
_OPENED_ELSEWHERE = ("torch", "safetensors")
_EXPECTED = {
    "torch": "a checkpoint that torch.load(…, weights_only=True) reads",
    "safetensors": "a safetensors file",
    "json": "JSON",
    "text": "UTF-8 text",
    "trace": "a trace in Chrome's format: JSON with `traceEvents`",
}


@dataclass(frozen=True)
class Wanted:
    """Requirements for one file."""

    how: How
    """Format. Decides what `look` gets: the values of a checkpoint or JSON, a text, or the list of a trace's events."""
    like: Reference | None = None
    """Function of the drawn inputs that returns the right content. A module is compared by its state dict."""
    devices: str = ""
    """Devices of a checkpoint's tensors when saved: `cpu` if it has to open on any machine."""
    look: Callable[[Any, Call], str | None] | None = None
    """Function that describes what is wrong with the content; returns None if nothing is."""
    times: float = 1.0
    """Factor that widens the tolerance of values, as in `parity`."""


def files(
    wanted: dict[str, Wanted], *, name: str = "files", why: str = WHY, advice: str = "", on: Applies = "everywhere"
) -> Check:
    """Check that each call leaves every file of `wanted`, by name in the working folder, with the right content.

    Raises `CourseError` for names with folders and for unknown formats.
    """
    for file, want in wanted.items():
        _check_wanted(name, file, want)
    opens = tuple((file, want.how) for file, want in wanted.items() if want.how in _OPENED_ELSEWHERE)

    def find(run: Run, call: Call) -> Finding | None:
        for file, want in wanted.items():
            if (wrong := _wrong(file, want, call)) is not None:
                expected, got, tip = wrong
                return run.finding(call, expected, escape_control_chars(got), literal_line(run.source, file), tip)
        return None

    words = f"It writes {' and '.join(wanted)}, with the right content"
    return Check(name, lambda _: words, in_each_call(find), (), why, advice, on, files=tuple(wanted), opens=opens)


def _check_wanted(name: str, file: str, want: Wanted) -> None:
    if not 0 < len(file) <= 100 or not file.isprintable() or set(file) & set("/\\*?") or file.startswith("."):
        raise CourseError(f"check {name!r}: {file!r} is not a file's name", "Give a name without folders and patterns.")
    if want.how not in get_args(How):
        raise CourseError(f"check {name!r}: how={want.how!r}", f"Use one of {', '.join(get_args(How))}.")
    if want.devices and want.how != "torch":
        raise CourseError(f"check {name!r}: a {want.how} file names no devices", "Leave out devices=.")


_Wrong = tuple[str, str, str]
"""Expected, got, and advice."""


def _wrong(file: str, want: Wanted, call: Call) -> _Wrong | None:
    content = call.files.get(file)
    if content is None:
        tip = "Save to exactly that name, in the folder that the program runs in."
        return f"a file {file}", _missing(file, call), tip
    expected = f"{file}: {_EXPECTED[want.how]}"
    if not content:
        return expected, f"{file} is empty", "Close the file, or use `with open(…)`, to write all of it."
    try:
        value, places = _content(file, want, content, call)
    except _NotReadable as unreadable:
        return expected, f"{file}: {unreadable}", "Write it with the call that the task names."
    elsewhere = [place for place in places if want.devices and place.partition(":")[0] != want.devices]
    if elsewhere:
        tip = "Move the tensors there before you save them: `.detach().cpu()` for the CPU."
        return f"tensors of {want.devices}", f"{file} holds tensors of {', '.join(elsewhere)}", tip
    if want.like is not None and (wrong := _unlike(file, want.like, value, call, want.times)):
        return wrong
    words = None if want.look is None else _looked(want.look, value, call)
    return None if words is None else (f"{file} with the right content", f"{file}: {words}", "")


def _missing(file: str, call: Call) -> str:
    if file in call.folder and call.folder[file] != "a file":
        return f"{file} is {call.folder[file]}"
    there = [name for name, kind in call.folder.items() if kind == "a file"]
    return f"none was written; there is only {', '.join(there[:8])}" if there else "no file was written"


class _NotReadable(Exception):
    """A file that cannot be read; the text says why."""


def _content(file: str, want: Wanted, content: bytes, call: Call) -> tuple[Any, tuple[str, ...]]:
    if want.how in _OPENED_ELSEWHERE:
        opened = call.opened[file, want.how]
        if opened.refusal:
            raise _NotReadable(opened.refusal)
        return opened.content, opened.places
    if len(content) > MOST_TEXT_BYTES:
        raise _NotReadable(f"it is too large: {len(content):,} bytes")
    if want.how != "text":
        return _json(content, want.how == "trace"), ()
    try:
        return content.decode(), ()
    except UnicodeDecodeError as error:
        raise _NotReadable(f"it is not UTF-8 text at byte {error.start:,}") from None


def _json(content: bytes, is_trace: bool) -> Any:
    try:
        check_parts(content, MOST_PARTS)
        value = json.loads(content)
    except FrameError:
        raise _NotReadable(f"it has more than {MOST_PARTS:,} parts") from None
    except (ValueError, RecursionError) as error:
        raise _NotReadable(f"it is not JSON ({str(error)[:120]})") from None
    layer = [value]
    for _ in range(MOST_DEPTH):
        containers = [item for item in layer if isinstance(item, dict | list)]
        layer = [part for item in containers for part in (item.values() if isinstance(item, dict) else item)]
    if layer:
        raise _NotReadable("it is nested too deeply")
    if not is_trace:
        return value
    events = value.get("traceEvents") if isinstance(value, dict) else value
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise _NotReadable("there is no list of `traceEvents`")
    return events


def _unlike(file: str, like: Reference, value: Any, call: Call, times: float) -> _Wrong | None:
    reference = to_tree(run_reference(like, call.drawn, in_float64=False))
    difference = first_difference(reference, value, _compare_leaves)
    if difference is not None:
        got = f"{part_name(difference.path, value, file)} is {difference.wrong}"
        return describe(reference), got, "Print what you save, and compare."
    exact = leaves(run_reference(like, call.drawn, in_float64=True))
    for path, tensor in tensors_by_path(value).items():
        off = compare_with_reference(tensor.values, exact[path], times)
        if off is not None:
            return off.expected, f"{part_name(path, value, file)}: {off.got}", off.advice
    return None


def _compare_leaves(path: str, expected: Any, got: Any) -> str | None:
    if not isinstance(expected, torch.Tensor):
        return compare_leaves(path, expected, got)
    wanted, written = shape_and_dtype(expected), shape_and_dtype(got)
    return None if wanted == written else f"{describe_tensor(*written)} instead of {wanted[0]}, {wanted[1]}"


def _looked(look: Callable[[Any, Call], str | None], value: Any, call: Call) -> str | None:
    # The learner's content may have any structure, so an exception in `look` is a verdict.
    try:
        return look(value, call)
    except Exception as error:
        return f"it does not have the expected structure ({type(error).__name__}: {str(error)[:120]})"
