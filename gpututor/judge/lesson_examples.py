"""Runs the Python examples of a lesson on the virtual GPU, in order, in one namespace.

A program: `python -m gpututor.judge.lesson_examples GPUS FILE`. Prints a list as JSON: for each example its `line`,
what it `printed`, the ```text block that follows it (`expected`, null without one), and the `error` that it raised,
which ends the list: null, or `line` and `words`.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import traceback
from pathlib import Path
from typing import Any

EXAMPLE = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n?^```text\n(?P<printed>.*?)^```$)?", re.MULTILINE | re.DOTALL
)


def run_examples(file: Path, gpus: int) -> list[dict[str, Any]]:
    """Run them all on so many virtual GPUs, until one raises. Lines are the lesson's own."""
    from gpututor.devices.virtual import virtual_gpu

    text = file.read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "lesson"}
    results = []
    with virtual_gpu(gpus):
        for example in EXAMPLE.finditer(text):
            line = text.count("\n", 0, example.start("code"))
            printed = io.StringIO()
            error: dict[str, Any] | None = None
            try:
                code = compile("\n" * line + example["code"], str(file), "exec")
                with contextlib.redirect_stdout(printed):
                    exec(code, namespace)
            except Exception as raised:
                error = {"line": _line_of(raised, str(file)) or line + 1, "words": _words(raised)}
            result = {"line": line + 1, "printed": printed.getvalue(), "expected": example["printed"], "error": error}
            results.append(result)
            if error is not None:
                break
    return results


def _line_of(error: Exception, file: str) -> int | None:
    if isinstance(error, SyntaxError):
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return lines[-1] if lines else None


def _words(error: Exception) -> str:
    """Its first line: the rest of CUDA's errors is about tools."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


def main() -> None:
    results = run_examples(Path(sys.argv[2]), int(sys.argv[1]))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
