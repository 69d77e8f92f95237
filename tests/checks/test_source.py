"""Source rules examine the code's effect, not its spelling."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from gpututor.checks import attribute, called, imported, in_loop, source, within
from gpututor.checks.model import Check
from gpututor.checks.python_syntax import uses_of
from gpututor.grading.report import Status
from tests.support.check_runs import failure, run_of
from tests.support.parameters import mostly_long


def passes(check: Check, text: str) -> bool:
    return check.find(run_of(None, source=text)) is None


def got(check: Check, text: str) -> tuple[str, int | None]:
    finding = failure(check, run_of(None, source=text))
    return finding.got, finding.line


def test_rules_match_calls_and_not_text() -> None:
    text = "import torch\ndef work(x):\n    # x.item() in words\n    s = '.item()'\n    return torch.relu(x).item()\n"

    assert passes(source(require=("torch.relu",)), text)
    assert passes(source(forbid=("numpy",)), text)
    assert got(source(forbid=("item",)), text)[1] == 5
    assert got(source(require=("torch.no_grad",)), text)[0] == "no such call"


SYNCHRONIZES = [
    "import torch\ndef work():\n    torch.cuda.synchronize()\n",
    "import torch as t\ndef work():\n    t.cuda.synchronize()\n",
    "import torch.cuda as c\ndef work():\n    c.synchronize()\n",
    "from torch import cuda\ndef work():\n    cuda.synchronize()\n",
    "from torch.cuda import synchronize as s\ndef work():\n    s()\n",
    "from torch.cuda import *\ndef work():\n    synchronize()\n",
    "import torch\nwait = torch.cuda.synchronize\ndef work():\n    wait()\n",
    "import torch\nc = torch.cuda\nwait = c.synchronize\ndef work():\n    wait()\n",
    "import torch\ndef work():\n    getattr(torch.cuda, 'synchronize')()\n",
    "import torch\ndef work(x):\n    match x:\n        case 1 if torch.cuda.synchronize():\n            pass\n",
    "import torch\ndef work(x: torch.cuda.synchronize()):\n    pass\n",
    "import torch\ndef work(x):\n    return f'{torch.cuda.synchronize()}'\n",
    "import torch\ndef work(x):\n    try:\n        pass\n    finally:\n        torch.cuda.synchronize()\n",
]


@pytest.mark.parametrize("text", SYNCHRONIZES)
def test_a_call_matches_under_any_imported_name(text: str) -> None:
    assert passes(source(require=("torch.cuda.synchronize",)), text)
    assert "line" in got(source(forbid=("torch.cuda.synchronize",)), text)[0]
    assert not passes(source(forbid=("synchronize",)), text)


@pytest.mark.parametrize(
    "text",
    [
        "def work(x):\n    # torch.cuda.synchronize()\n    return 'torch.cuda.synchronize()'\n",
        "import mine as torch\ndef work():\n    torch.cuda.synchronize()\n",
        "import torch\ndef work():\n    torch.cpu.synchronize()\n",
        "import torch\ndef work():\n    return torch.cuda.synchronize\n",
    ],
)
def test_similar_code_does_not_match(text: str) -> None:
    assert passes(source(forbid=("torch.cuda.synchronize",)), text)
    assert not passes(source(require=("torch.cuda.synchronize",)), text)


DEAD = [
    "def work(x):\n    if False:\n        x.item()\n",
    "def work(x):\n    if 0:\n        pass\n    elif not True:\n        x.item()\n",
    "def work(x):\n    while False:\n        x.item()\n",
    "def work(x):\n    return x\n    x.item()\n",
    "def work(x):\n    if x:\n        return 1\n    else:\n        raise ValueError\n    x.item()\n",
    "def work(x):\n    return x\ndef unused(x):\n    return x.item()\n",
    "def work(x):\n    def inner():\n        x.item()\n    return x\n",
    "def work(x):\n    return x\ndef a(x):\n    b(x)\ndef b(x):\n    a(x), x.item()\n",
    "def work(x):\n    return x.item() if False else 1\n",
    "def work(x):\n    return x\nif __name__ == '__main__':\n    work(1).item()\n",
    "class Net:\n    def forward(self, x):\n        return x.item()\ndef work(x):\n    return x\n",
]


@pytest.mark.parametrize("text", DEAD)
def test_dead_code_does_not_satisfy_a_requirement_but_is_forbidden(text: str) -> None:
    words, line = got(source(require=("item",)), text)

    assert words == f"only at line {line}, which never runs"
    assert not passes(source(forbid=("item",)), text)


@pytest.mark.parametrize(
    "text",
    [
        "def work(x):\n    if x:\n        return 1\n    x.item()\n",
        "def work(x):\n    return part(x)\ndef part(x):\n    return x.item()\n",
        "def work(x):\n    def inner():\n        x.item()\n    return inner()\n",
        "class Net:\n    def forward(self, x):\n        return x.item()\ndef work(x):\n    return Net()(x)\n",
        "class Net:\n    def part(self, x):\n        return x.item()\ndef work(x):\n    return Net().part(x)\n",
        "def work(x):\n    return list(map(part, x))\ndef part(x):\n    return x.item()\n",
        "def work(x):\n    return (lambda: x.item())()\n",
        "def work(x):\n    while True:\n        x.item()\n        break\n",
    ],
)
def test_reachable_code_satisfies_a_requirement(text: str) -> None:
    assert passes(source(require=("item",)), text)


@pytest.mark.parametrize(
    "text",
    [
        "def work(xs):\n    for x in xs:\n        x.item()\n",
        "def work(xs):\n    while xs.item():\n        pass\n",
        "def work(xs):\n    return [x.item() for x in xs]\n",
        "def work(xs):\n    return {x: 1 for x in xs if x.item()}\n",
        "def work(xs):\n    for x in xs:\n        part(x)\ndef part(x):\n    deeper(x)\ndef deeper(x):\n    x.item()\n",
    ],
)
def test_a_call_in_a_loop_matches(text: str) -> None:
    assert not passes(source(forbid=(in_loop("item"),)), text)
    assert passes(source(require=(in_loop("item"),)), text)


@pytest.mark.parametrize(
    "text",
    [
        "def work(xs):\n    for x in xs:\n        pass\n    x.item()\n",
        "def work(xs):\n    for x in xs.item():\n        pass\n",
        "def work(xs):\n    return [x for x in xs.item()]\n",
        "def work(xs):\n    for x in xs:\n        pass\n    part(x)\ndef part(x):\n    x.item()\n",
    ],
)
def test_a_call_next_to_a_loop_does_not_match(text: str) -> None:
    assert passes(source(forbid=(in_loop("item"),)), text)
    assert got(source(require=(in_loop("item"),)), text)[0].startswith("item in no loop")


def test_blocks_and_decorators_of_a_name() -> None:
    check = source(require=(within("torch.no_grad"),))

    assert check.sentence(run_of(None).machine).endswith(" a block with torch.no_grad")
    assert passes(check, "import torch\ndef work():\n    with torch.no_grad():\n        pass\n")
    assert passes(check, "from torch import no_grad\n@no_grad()\ndef work():\n    pass\n")
    assert not passes(check, "import torch\ndef work():\n    torch.no_grad()\n")
    assert not passes(check, "import torch\n@torch.no_grad()\ndef unused():\n    pass\ndef work():\n    pass\n")


def test_unknown_keyword_values_are_never_a_failure() -> None:
    rule = called("to", non_blocking=True)
    yes, no = source(require=(rule,)), source(forbid=(rule,))

    for keywords, required, allowed in [
        ("non_blocking=True", True, False),
        ("non_blocking=False", False, True),
        ("non_blocking=1", False, True),
        ("copy=True", False, True),
        ("non_blocking=flag", True, True),
        ("**options", True, True),
    ]:
        text = f"def work(x, flag, options):\n    return x.to('cuda', {keywords})\n"
        assert (passes(yes, text), passes(no, text)) == (required, allowed), keywords
    for text in ("def work(x):\n    return x.to('cuda')\n", "def work(x):\n    y = x.to('cuda')\n    return y\n"):
        assert got(yes, text)[1] == 2


def test_dots_match_any_value_but_a_constant() -> None:
    given = source(require=(called("Loader", workers=...),))
    assert passes(given, "def work(n):\n    return Loader(workers=n)\n")
    assert passes(given, "def work(n):\n    return Loader(workers=2 * n)\n")
    for text in ("Loader(workers=0)", "Loader()", "Loader(n)"):
        assert not passes(given, f"def work(n):\n    return {text}\n"), text
    assert failure(given, run_of(None, source="def work(n):\n    return 1\n")).expected == "a call of Loader(workers=…)"


def test_a_decorator_is_called_with_its_function() -> None:
    text = (
        "import torch\n\ndef work(x):\n    @torch.compile\n    def inner(y):\n        return y\n    return inner(x)\n"
    )
    assert passes(source(require=("torch.compile",)), text)
    assert got(source(forbid=("torch.compile",)), text)[0] == "torch.compile at line 4"


def test_attributes_and_imports() -> None:
    assert got(source(forbid=(attribute("data"),)), "def work(x):\n    x.data += 1\n") == ("x.data at line 2", 2)
    assert passes(source(forbid=(attribute("data"),)), "def work(data):\n    return data\n")
    forbids_numpy = source(forbid=(imported("numpy"),))
    for text in ("import numpy as np", "from numpy import linalg", "import numpy.fft", "def f():\n    import numpy"):
        assert not passes(forbids_numpy, text + "\n")
    assert passes(forbids_numpy, "import numpyro\nfrom torch import numpy\n")


def test_deeply_nested_code_and_long_names_fail() -> None:
    assert "nested too deeply" in got(source(forbid=("item",)), "def work(x):\n    return " + "-" * 3000 + "x\n")[0]
    for text in (f"{'x' * 1000} = 1\n", _lines(100, "from a# import *")):
        assert "too long" in got(source(forbid=("item",)), text)[0]


@pytest.mark.parametrize(
    "hidden",
    [
        "def work(x):\n    return getattr(x, 'it' + 'em')()\n",
        "def work(x):\n    return eval('x.item()')\n",
        "import builtins\ndef work(x):\n    return builtins.getattr(x, 'item')()\n",
        "from operator import methodcaller as m\ndef work(x):\n    return m('item')(x)\n",
        "import importlib\ndef work(x):\n    return importlib.import_module('torch')\n",
        "run = eval\ndef work(x):\n    return run('x.item()')\n",
        "from builtins import eval as run\ndef work(x):\n    return run('x.item()')\n",
        "import builtins\ndef work(x):\n    return getattr(builtins, 'eval')('x.item()')\n",
        "import sys\ndef work(x):\n    return sys.modules['builtins'].eval('x.item()')\n",
        "def work(x, name):\n    return getattr(x, name, None)()\n",
    ],
)
def test_names_built_at_run_time_need_review(hidden: str) -> None:
    finding = failure(source(forbid=("item",)), run_of(None, source=hidden))
    assert finding.status is Status.NEEDS_REVIEW
    assert finding.line is not None
    assert passes(source(require=(imported("torch"),)), "import torch\n" + hidden)


def test_getattr_with_a_constant_is_an_attribute() -> None:
    text = "def work(x):\n    return getattr(x, 'shape')\n"
    assert passes(source(forbid=("item",)), text)
    assert not passes(source(forbid=(attribute("shape"),)), text)
    assert not passes(source(forbid=(attribute("shape"),)), text.replace("'shape'", "'shape', None"))
    assert not passes(source(forbid=("item",)), "def work(x):\n    return getattr(x, 'item', None)()\n")


@pytest.mark.parametrize(
    "text",
    [
        "def work(x):\n    return nn.Sequential(nn.Linear(1, 1)).eval()(x)\n",
        "def work(model):\n    return model.eval()\n",
        "def work(models):\n    return models[0].eval()\n",
        "class Net(Module):\n    def work(self):\n        self.eval()\n        super().eval()\n",
        "def work(x):\n    return getattr(x, 'device', None)\n",
        "def work(x):\n    return getattr(x, 'eval')()\n",
    ],
)
def test_methods_named_like_builtins_need_no_review(text: str) -> None:
    assert passes(source(forbid=("item",)), text)


FILE = "checks/python_syntax.py"


def steps(text: str) -> int:
    """Count the instructions of our own code that read a text."""
    taken = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal taken
        if not frame.f_code.co_filename.endswith(FILE):
            return None
        frame.f_trace_opcodes = True
        taken += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        uses_of(text, "work")
    finally:
        sys.settrace(before)
    return taken


def _lines(n: int, line: str, end: str = "") -> str:
    """Return `line` for each number, which replaces # and its successor $."""
    return "".join(line.replace("#", str(i)).replace("$", str(i + 1)) + "\n" for i in range(n)) + end


GROWING: dict[str, Callable[[int], str]] = {
    "functions that are all named": lambda n: _lines(n, "def a#():0", f"x=[{','.join(f'a{i}' for i in range(n))}]\n"),
    "functions that call the next": lambda n: _lines(n, "def a#():a$()", "for _ in ():a0()\n"),
    "functions that call the one before": lambda n: _lines(n, "def a$():a#()", f"for _ in ():a{n}()\n"),
    "names of names": lambda n: _lines(n, "a$=a#.x", f"a{n}()\n"),
    "names of names backwards": lambda n: _lines(n, "a#=a$.x", "a0()\n"),
    "a ring of names": lambda n: _lines(n, "a#=a$.x", f"a{n}=a0.x\n"),
    "long dotted names": lambda n: f"x{'.x' * n}\n",
    "classes": lambda n: _lines(n, "class A#:\n def forward(self):A$()", "A0()\n"),
    "branches": lambda n: "def work():\n if a:return\n" + " elif b:return\n" * (n // 4) + " return\n",
}


@pytest.mark.parametrize("text", mostly_long(GROWING.values(), list(GROWING.values())[::3]), ids=list(GROWING))
def test_the_time_to_read_a_file_is_linear(text: Callable[[int], str]) -> None:
    assert 0 < steps(text(400)) < 5 * steps(text(100))
