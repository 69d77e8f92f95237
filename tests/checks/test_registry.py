"""Each check is in the package, documented and tested; mistakes of authors, and names of their arguments."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor import checks
from gpututor.checks.author_errors import call_author
from gpututor.checks.model import Check, run_reference
from gpututor.errors import CourseError
from tests.support import ROOT
from tests.support.check_runs import run_of

DOCS = ROOT / "docs" / "authors"
MAKERS = {
    name
    for name in checks.__all__
    if inspect.isfunction(maker := getattr(checks, name))
    and inspect.signature(maker, eval_str=True).return_annotation is Check
}


def test_every_module_that_makes_checks_is_in_the_package() -> None:
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "gpututor" / "checks").glob("*.py")}
    makers = {
        name
        for text in sources.values()
        for name in re.findall(r"^def ([a-z]\w*)\([^()]*(?:\([^()]*\)[^()]*)*\) -> Check:", text, re.M)
    }
    assert makers == MAKERS, "gpututor/checks/__init__.py imports each check, and `__all__` names it"


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_every_check_is_documented(name: str) -> None:
    headings = {
        path.stem: path.read_text(encoding="utf-8").partition("\n")[0] for path in (DOCS / "checks").glob("*.md")
    }
    pages = [stem for stem, heading in headings.items() if re.search(rf"\b{name}\b", heading)]
    assert len(pages) == 1, f"docs/authors/checks has a page with `# {name}`"
    guide = (DOCS / "README.md").read_text(encoding="utf-8")
    assert f"(checks/{pages[0]}.md)" in guide, "docs/authors/README.md has a row for the page"


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_every_check_is_tested(name: str) -> None:
    imports = re.compile(rf"^from gpututor\.checks import [^#]*?\b{name}\b", re.M)
    tests = (ROOT / "tests").rglob("test_*.py")
    assert any(imports.search(path.read_text(encoding="utf-8")) for path in tests), f"tests/checks/test_{name}.py"


NAMES = ("wanted", "function", "values", "named", "reference", "drawn", "self", "in_float64")


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_may_have_any_name(name: str) -> None:
    drawn = {name: torch.ones(2)}
    assert run_reference(lambda **all: all[name], drawn, in_float64=True).dtype is torch.float64


def test_a_function_with_a_wrong_signature_is_reported_with_its_line() -> None:
    def amount(drawn: Any) -> int:
        return 1

    with pytest.raises(CourseError, match=r"amount\(drawn.* \(drawn, machine\)") as broke:
        call_author(amount, {}, None)  # type: ignore[arg-type]
    assert f":{amount.__code__.co_firstlineno}: " in broke.value.title


MAKE: Any = checks
"""Untyped: these calls are wrong on purpose."""


def find(check: Check) -> object:
    return check.find(run_of(3.0))


MISTAKES: list[tuple[str, Callable[[], object]]] = [
    ("times=0", lambda: MAKE.after_call(abs, times=0)),
    ("nothing to count", lambda: MAKE.compilations()),
    ("not an amount", lambda: find(MAKE.compilations(breaks=-1))),
    ("nothing to count", lambda: MAKE.collectives()),
    ("processes", lambda: find(MAKE.collectives({"allreduce": 1}))),
    *[("share.*checks.py", lambda odd=odd: MAKE.coalesced(at_least=odd)) for odd in (0, -1, 1.5, math.nan)],
    *[("programs.*checks.py", lambda odd=odd: MAKE.programs(odd)) for odd in (0, -1)],
    *[("least.*checks.py", lambda odd=odd: MAKE.traffic(at_most=odd)) for odd in (0, 0.5, math.nan)],
    ("nothing to count.*checks.py", lambda: MAKE.launches()),
    ("amount failed: KeyError.*checks.py", lambda: find(MAKE.launches(lambda drawn, machine: drawn["m"]))),
    *[
        ("not an amount", lambda odd=odd: find(MAKE.launches(odd)))
        for odd in ((3, 1), -1, 1.5, True, (1, 2, 3), (None, None))
    ],
    ("nothing to check", lambda: MAKE.memory()),
    ("a ratio of 0", lambda: MAKE.memory(peak_ratio=0)),
    ("not an amount", lambda: find(MAKE.memory(peak=1.5))),
    *[("parity", lambda odd=odd: MAKE.parity(abs, times=odd)) for odd in (0, math.inf)],
    ("parity", lambda: MAKE.parity(abs, inside=torch.int8)),
    ("no tensors", lambda: find(MAKE.parity(lambda: 3.0))),
    *[
        ("not a floating type.*checks.py", lambda odd=odd: MAKE.precision({"aten::mm": odd}))
        for odd in ("half", "torch.float16", "", ())
    ],
    ("a share of 90", lambda: MAKE.precision(half_share=90)),
    ("nothing to check", lambda: MAKE.precision()),
    *[("not rules.*checks.py", lambda odd=odd: MAKE.source(forbid=odd)) for odd in ("item", ("",), (3,))],
    *[("a ratio of", lambda odd=odd: MAKE.speed(at_most=odd)) for odd in (0, -1, math.nan)],
    ("a ratio of", lambda: MAKE.speed(real_at_most=0)),
    *[("a share of.*checks.py", lambda odd=odd: MAKE.overlap(to_device=odd)) for odd in (0, 1.01, 80)],
    ("nothing to check", lambda: MAKE.overlap()),
    ("memory_format", lambda: MAKE.structure(abs, memory_format="rows")),
    ("not an amount.*checks.py", lambda: find(MAKE.transfers(to_host=-1))),
    ("not an amount.*checks.py", lambda: find(MAKE.transfers(asynchronous_to_host=(2, 1)))),
    ("not an amount.*checks.py", lambda: find(MAKE.syncs(at_most=-1))),
]
"""Words of the error, and the author's mistake."""


@pytest.mark.parametrize(("words", "mistake"), MISTAKES)
def test_an_authors_mistake_is_refused_with_advice(words: str, mistake: Callable[[], object]) -> None:
    with pytest.raises(CourseError, match=f"(?s){words}") as refused:
        mistake()
    assert refused.value.advice
