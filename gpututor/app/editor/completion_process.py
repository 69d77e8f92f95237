"""Child process that asks jedi. Each line is JSON. It never runs the learner's code.

In: `{"about": "names", "text": …, "line": 1, "column": 0}`, with the line from 1. Out: `{"names": […]}`. About
`"documentation"`: `{"documentation": [name, signatures, text]}`, or an empty list. The first line out is
`{"ready": true}`.
"""

from __future__ import annotations

import builtins
import inspect
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

MOST_NAMES = 3000
MOST_SIGNATURES = 8
MOST_LETTERS = 60_000
_OURS = frozenset({"jedi", "parso"})


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a module that prints when it is imported must not get between the answers
    if len(sys.argv) > 1:
        import jedi

        jedi.settings.cache_directory = sys.argv[1]
    _refuse_large_imports()
    complete("import torch\ntorch.", 2, 6)  # reads torch's stubs: a second, but many seconds the first time
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        about = request["about"]
        answer = _ANSWERS[about](request["text"], request["line"], request["column"])
        print(json.dumps({about: answer}), file=answers, flush=True)


def complete(text: str, line: int, column: int) -> list[str]:
    """Return the names that fit at a place; none if jedi fails."""
    try:
        return [name.name for name in _script(text).complete(line, column)[:MOST_NAMES]]
    except Exception:  # jedi may fail in any way on half-written code: then nothing is offered
        return []


def documentation(text: str, line: int, column: int) -> list[str]:
    """Return name, signatures and docstring of the name at a place, or of the call around it; nothing if unknown."""
    try:
        script = _script(text)
        words = re.finditer(r"(?<!\w)(?!\d)\w+", text.split("\n")[line - 1])
        is_name = any(word.start() <= column <= word.end() for word in words)
        places = script.goto(line, column) if is_name else []
        if places and places[0].type == "param":
            return _parameter_documentation(places[0])
        names = [*script.infer(line, column), *script.help(line, column)] if is_name else []
        for name in (*names, *script.get_signatures(line, column)):
            doc = inspect.cleandoc(name.docstring(raw=True))[:MOST_LETTERS]
            signatures = [signature.to_string() for signature in name.get_signatures()[:MOST_SIGNATURES]]
            own, _, rest = doc.partition("\n")
            if own.startswith(f"{name.name}("):
                doc = rest
                # The docstring's own signature reads better than the stub's, unless it has `*args` for the arguments.
                signatures = signatures if "*args" in own and signatures else [own]
            if signatures or doc:
                return [name.name, "\n".join(signatures), doc.strip()]
    except Exception:  # as above
        pass
    return []


def _parameter_documentation(parameter: Any) -> list[str]:
    """Return name, declaration and function of a parameter: its type's docstring is on the name of the type."""
    function = parameter.parent()
    of = f" of {function.name}()" if function.type == "function" else ""
    return [parameter.name, parameter.description.removeprefix("param "), f"It is a parameter{of}."]


_ANSWERS: dict[str, Callable[[str, int, int], list[str]]] = {"names": complete, "documentation": documentation}


def _script(text: str) -> Any:
    import jedi

    project = jedi.Project(Path("/"), sys_path=sys.path, smart_sys_path=False, load_unsafe_extensions=False)
    return jedi.Script(text, environment=jedi.InterpreterEnvironment(), project=project)


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
