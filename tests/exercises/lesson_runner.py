"""Runs the Python examples of a lesson on the virtual GPU, in order, in one namespace. A program: `FILE`.

Prints JSON: for each example its line, what it printed, and the ```text block that follows it (null without one).
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

EXAMPLE = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n?^```text\n(?P<printed>.*?)^```$)?", re.MULTILINE | re.DOTALL
)


def run_examples(file: Path) -> list[dict[str, Any]]:
    """Run them all. Raises what an example raises, with the lesson's own line numbers."""
    from gpututor.devices.virtual import virtual_gpu

    text = file.read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "lesson"}
    results = []
    with virtual_gpu():
        for example in EXAMPLE.finditer(text):
            line = text.count("\n", 0, example.start("code"))
            code = compile("\n" * line + example["code"], str(file), "exec")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, namespace)
            results.append({"line": line + 1, "printed": printed.getvalue(), "expected": example["printed"]})
    return results


if __name__ == "__main__":
    print(json.dumps(run_examples(Path(sys.argv[1]))))
