"""Comparison of trees: words for types and keys, short paths, and a single comparison of each pair of tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from gpututor.checks import parity, processes, structure, value
from gpututor.checks.parity import leaves
from gpututor.checks.trees import (
    LONGEST_PATH,
    first_difference,
    joined,
    leaves_by_path,
    part_name,
    tensors_by_path,
    type_name,
)
from gpututor.checks.value import shorten
from gpututor.protocol.decode import Decoder
from gpututor.protocol.encode import Encoder
from gpututor.protocol.values import ObservedObject
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.check_runs import failure, observed, run_of

X = torch.arange(6.0)
NAMES = ["tensor", "dict", "module", "NumPy array", "ndarray", "list", "tuple", "float", "int", "str", "dtype"]
RIGHT = [X, {"a": X}, torch.nn.Linear(1, 1), X.numpy(), [X], (X,), 1.5, 1, "text", torch.float32]


def spoofed(name: str) -> ObservedObject:
    """Return an instance of a class with this name, as the judge receives it."""
    made: ObservedObject = observed(type(name, (), {})())
    assert made.type_name == name
    return made


def test_a_part_is_named_as_python_writes_it() -> None:
    result = observed({"bytes": [1, 2], "by": {"0.weight": X, "0": {1: X}}, "net": torch.nn.Linear(1, 1, bias=False)})

    assert [part_name(path, result) for path in leaves_by_path(result)] == [
        "result['by']['0'][1]",
        "result['by']['0.weight']",
        "result['bytes'][0]",
        "result['bytes'][1]",
        "result['net']['weight']",
    ]
    assert part_name("0.weight", observed(torch.nn.Linear(1, 1))) == "result['0.weight']"
    assert part_name("", result) == "the result"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("right", RIGHT, ids=lambda right: type(right).__name__)
def test_a_class_with_a_misleading_name_is_an_object(name: str, right: Any) -> None:
    words = f"an object of class {name} instead of {type_name(right)}"

    run = run_of(spoofed(name))
    for check in (value(lambda drawn, machine: right), structure(lambda: right)):
        assert words in failure(check, run).got
    assert first_difference(run.calls[0].output, run.calls[0].output, lambda *_: None) is None
    assert parity(lambda: X).find(run) is not None


def test_a_size_is_a_tuple_but_a_numpy_scalar_no_float() -> None:
    size = observed(torch.zeros(2, 3).shape)

    assert value(lambda drawn, machine: (2, 3)).find(run_of(size)) is None
    assert value(lambda drawn, machine: torch.Size([2, 3])).find(run_of((2, 3))) is None
    assert structure(lambda: (2, 3)).find(run_of(size)) is None
    assert failure(value(lambda drawn, machine: [2, 3]), run_of(size)).got.startswith("the result is a tuple")
    assert failure(value(lambda drawn, machine: X.double().numpy()[0]), run_of(ObservedObject("float64", "1.5")))


def arrived(value: object) -> Any:
    """Return a value as the judge receives it: a tensor in many places is a single object."""
    packer = Encoder()
    nodes = packer.pack(value)
    return Decoder(tuple(packer.buffers)).unpack(nodes)


def compared(left: Any, right: Any) -> list[str]:
    """Compare equal trees; return the paths of the leaves that were looked at."""
    looked: list[str] = []

    def leaf(path: str, left: object, right: object) -> None:
        looked.append(path)

    assert first_difference(left, right, leaf) is None
    return looked


def test_a_pair_of_tensors_is_compared_once() -> None:
    left, right = arrived([X] * 1000), arrived([X] * 1000)
    tensors = [torch.zeros(1) for _ in range(30)]
    each, all_again = arrived([first for first in tensors for _ in tensors]), arrived(tensors * len(tensors))

    assert compared({"a": left, "b": left}, {"a": right, "b": right}) == ["a.0"]
    assert len(compared(each, all_again)) < 2 * len(tensors), "equality is transitive"


def test_tensors_of_ranks_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def equal(left: torch.Tensor, right: torch.Tensor) -> bool:
        calls.append(1)
        return bool((left == right).all())

    monkeypatch.setattr(torch, "equal", equal)
    trace = Trace()
    trace.add(Kind.COLLECTIVE, "allreduce", "cuda:0")
    run = run_of(None, trace=trace)
    ranks = tuple(replace(run.calls[0], output=arrived([X] * 1000)) for _ in range(2))
    run = replace(run, calls=(replace(run.calls[0], ranks=ranks),))

    assert processes(same=[""]).find(run) is None
    assert len(calls) == 1


def test_paths_below_long_keys_stay_short_and_apart() -> None:
    long = "k" * 100_000
    tree = observed({f"{long}a": [X, X], f"{long}b": [X]})

    for paths in (tensors_by_path(tree), leaves(tree)):
        assert len(paths) == 3
        assert max(map(len, paths)) <= LONGEST_PATH
    assert joined("", 1) == "1"
    assert joined("a", "b") == "a.b"


@pytest.mark.parametrize(
    "check", [value(lambda drawn, machine: {"a": 1}), structure(lambda: {"a": X}), parity(lambda: {"a": X})]
)
def test_long_keys_are_cut(check: Any) -> None:
    finding = failure(check, run_of(observed({"k" * 100_000: X})))

    assert len(finding.got) < 2000
    assert "k" * 70 in finding.got


def test_any_value_is_described_in_a_bounded_line_from_its_shown_part() -> None:
    tree = observed({"model": torch.nn.Linear(2, 2), "array": torch.zeros(100, 100).numpy(), "few": [1, (2,), "x"]})

    array = "a NumPy array of shape (100, 100)"
    assert shorten(tree) == f"{{'model': a module Linear, 'array': {array}, 'few': [1, (2,), 'x']}}"
    assert len(shorten(["x" * 100_000] * 1000)) == 300
    said = []

    class Speaks:
        def __repr__(self) -> str:
            said.append(1)
            return "x" * 10

    assert len(shorten([Speaks()] * 100_000)) == 300
    assert len(said) < 40


def test_differences_after_equal_tensors_and_missing_state_are_reported() -> None:
    right, wrong = torch.zeros(2), torch.tensor([0.0, 1.0])
    left, right = observed([right, right, right]), observed([right, right, wrong])

    def leaf(_: str, left: Any, right: Any) -> str | None:
        return None if left.values.equal(right.values) else "unlike"

    difference = first_difference(left, right, leaf)
    assert difference is not None
    assert difference.path == "2"
    bare = observed({"layer": torch.nn.Linear(1, 2, bias=False)})
    finding = failure(structure(lambda: {"layer": torch.nn.Linear(1, 2)}), run_of(bare))

    assert finding.got.startswith("result['layer']")
    assert "without 'bias'" in finding.got
