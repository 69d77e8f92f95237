"""What made the host wait, in words: `.item()` at line 12, 30 times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpututor.checks.syntax import Use, uses_of
from gpututor.trace.events import Event

_READS = ("item", "tolist", "float", "int", "bool", "print")
"""What is likely to stand at a line that reads a value of a device."""
_COPIES = ("cpu", "numpy", "tolist", "to", "copy_", "print")
_WORDS = {
    "aten::_local_scalar_dense": "a value of the device that is read",
    "aten::_to_copy": "a copy to the host",
    "aten::copy_": "a copy to the host",
    "cudaFree": "memory that is given back to the driver",
}
_LIKELY = {"aten::_local_scalar_dense": _READS, "aten::_to_copy": _COPIES, "aten::copy_": _COPIES}


def causes(waits: Sequence[Event], source: str, most: int = 4) -> str:
    """The lines with most waits, each with its cause, in the file's order."""
    uses = _uses(source)
    counted = Counter((event.line, event.name) for event in waits if event.line is not None)
    chosen = sorted(counted.most_common(most))
    words = [
        f"{_cause(name, line, uses)} at line {line}" + (f", {times:,} times" if times > 1 else "")
        for (line, name), times in chosen
    ]
    others = len(waits) - sum(times for _, times in chosen)
    return "; ".join([*words, *([f"{others:,} elsewhere" if words else "outside your file"] if others else [])])


def _cause(name: str, line: int | None, uses: Sequence[Use]) -> str:
    """What the learner wrote at that line, where it is one of the usual things; else the operator in words."""
    here = {use.names[0].rpartition(".")[2]: use for use in uses if use.line == line and use.kind == "call"}
    for likely in _LIKELY.get(name, ()):
        if likely in here:
            is_method = len(here[likely].names[0]) > len(likely) or likely not in ("print", "float", "int", "bool")
            return f"`{'.' if is_method else ''}{likely}()`"
    if name in _WORDS:
        return _WORDS[name]
    return f"`{name.removeprefix('aten::')}`" if name.startswith("aten::") else f"`{name}()`"


def _uses(source: str) -> list[Use]:
    try:
        return uses_of(source, "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
