"""Child process that asks jedi. Each line is JSON. It never runs the learner's code.

In: `{"text": …, "line": 1, "column": 0}`, with the line from 1. Out: `{"names": […]}`. The first line out is
`{"ready": true}`.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

MOST_NAMES = 3000
_OURS = frozenset({"jedi", "parso"})


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a module that prints when it is imported must not get between the answers
    if len(sys.argv) > 1:
        import jedi

        jedi.settings.cache_directory = sys.argv[1]
    _refuse_large_imports()
    complete("import torch\ntorch.", 2, 6)  # reads torch's stubs, which takes a second and at first many
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        names = complete(request["text"], request["line"], request["column"])
        print(json.dumps({"names": names}), file=answers, flush=True)


def complete(text: str, line: int, column: int) -> list[str]:
    """Return the names that fit at a place; none if jedi fails."""
    import jedi

    project = jedi.Project(Path("/"), sys_path=sys.path, smart_sys_path=False, load_unsafe_extensions=False)
    try:
        script = jedi.Script(text, environment=jedi.InterpreterEnvironment(), project=project)
        return [name.name for name in script.complete(line, column)[:MOST_NAMES]]
    except Exception:  # jedi meets programs that are half written: whatever it raises, there is no answer
        return []


def _refuse_large_imports() -> None:
    """Reject imports by jedi of compiled modules. Torch would cost 200 MB and seconds, and its stubs say as much."""
    imported = builtins.__import__

    def guarded(name: str, *rest: Any, **named: Any) -> ModuleType:
        level = named.get("level", rest[3] if len(rest) > 3 else 0)
        root = name.partition(".")[0]
        if level == 0 and root not in sys.stdlib_module_names and root not in _OURS:
            raise ImportError(f"{name} is only read, not imported")
        return imported(name, *rest, **named)

    builtins.__import__ = guarded


if __name__ == "__main__":
    main()
