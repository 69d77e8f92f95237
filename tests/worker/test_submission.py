"""Calls of a submission's function: the line at which it returned, and what stays afterwards."""

from __future__ import annotations

import sys
import weakref
from pathlib import Path

import pytest

from gpututor.worker.submission import call, load

EARLY = "def f(x):\n    if x:\n        return 1\n    return 2\n"
DECORATED = "import torch\n@torch.no_grad()\ndef f(x):\n    y = 4\n    return y\n"
RECURSIVE = "def f(x):\n    if x > 3:\n        return x\n    y = f(x + 1)\n    return y\n"
WITHOUT_RETURN = "def f(x):\n    x = 5\n    x += 1\n"
NO_FUNCTION = "class F:\n    def __call__(self, x):\n        return 6\nf = F()\n"


@pytest.mark.parametrize(
    ("source", "line"),
    [(EARLY, 3), (DECORATED, 5), (RECURSIVE, 5), (WITHOUT_RETURN, 3), (NO_FUNCTION, None)],
    ids=["early", "decorated", "recursive", "without return", "no function"],
)
def test_the_line_of_the_return_is_known(tmp_path: Path, source: str, line: int | None) -> None:
    (path := tmp_path / "solution.py").write_text(source)
    assert call(load(path, "f"), {"x": 1}, path)[1] == line
    assert sys.gettrace() is None


def test_the_functions_variables_are_gone_when_the_call_ends(tmp_path: Path) -> None:
    (path := tmp_path / "solution.py").write_text(
        "import sys, weakref\ndef f(x):\n    large = {1}\n    x.append(weakref.ref(large))\n    return sys.gettrace()\n"
    )
    seen: list[weakref.ref[object]] = []
    output, _ = call(load(path, "f"), {"x": seen}, path)
    assert output is None, "the function itself runs untraced"
    assert seen[0]() is None
