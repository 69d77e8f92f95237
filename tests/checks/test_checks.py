"""Each check but parity passes what is right and names what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gpututor.checks import aliasing, identity, placement, source, structure, syncs, transfers, value
from gpututor.checks.model import Check
from gpututor.errors import CourseError
from gpututor.protocol.decode import Decoder, facts_by_path
from gpututor.protocol.encode import Encoder
from tests.support.check_runs import GPU, NO_GPU, copies, found, observed, run_of, waits


def pair(x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"double": 2 * x, "sizes": torch.tensor(x.shape)}


X = torch.arange(6.0).reshape(2, 3)


def test_structure_passes_what_is_built_like_the_reference() -> None:
    assert structure(pair).find(run_of(observed(pair(X)), {"x": X})) is None


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (X, "a tensor instead of a dict"),
        ({"double": X}, "without 'sizes'"),
        ({"double": X, "sizes": torch.tensor([2, 3]), "more": 1}, "with the unknown 'more'"),
        ({"double": X[:1], "sizes": torch.tensor([2, 3])}, "shape (1, 3) instead of (2, 3)"),
        ({"double": X.double(), "sizes": torch.tensor([2, 3])}, "torch.float64 instead of torch.float32"),
        ({"double": None, "sizes": torch.tensor([2, 3])}, "None instead of a tensor"),
    ],
)
def test_structure_names_the_part_that_differs(result: Any, words: str) -> None:
    finding = found(structure(pair), run_of(observed(result), {"x": X}))

    assert words in finding.got
    assert finding.line == 6


def test_structure_tells_arrays_from_tensors() -> None:
    check = structure(lambda x: x.numpy())

    assert check.find(run_of(observed(X.numpy()), {"x": X})) is None
    assert "a tensor instead of a NumPy array" in found(check, run_of(observed(X), {"x": X})).got
    assert "(3,)" in found(check, run_of(observed(np.zeros(3, np.float32)), {"x": X})).got


def test_a_reference_that_breaks_is_the_authors_fault() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError

    with pytest.raises(CourseError, match="the reference failed: ZeroDivisionError"):
        structure(reference).find(run_of(observed(X), {"x": X}))


def test_placement_passes_on_the_scenarios_device_only() -> None:
    assert placement().find(run_of(observed([X, {"y": X}], "cuda:0"))) is None
    finding = found(placement(), run_of([observed(X, "cuda:0"), observed(X)]))
    assert finding.expected == "result[1] on cuda:0"
    assert "on cpu" in finding.got


def test_placement_without_a_gpu_wants_the_cpu() -> None:
    assert placement().find(run_of(observed(X), machine=NO_GPU)) is None
    assert placement().sentence(NO_GPU) == "Every output lives on cpu"


def test_placement_may_differ_from_part_to_part() -> None:
    check = placement({"weights": "device", "log": "cpu"})
    right = {"weights": observed([X, X], "cuda:0"), "log": observed(X)}

    assert check.find(run_of(right)) is None
    assert "result['log']" in found(check, run_of({**right, "log": observed(X, "cuda:0")})).got


@pytest.mark.parametrize("where", [{"a": "device"}, {"a": {"b": "device"}}, ["device"], [], {1: "device"}])
@pytest.mark.parametrize("result", [{"b": X}, {"a": [X, X]}, [X, X], {"²": X}, {"k" * 1000: X}])
def test_a_tensor_for_which_no_place_is_named_is_a_failure(where: Any, result: Any) -> None:
    finding = found(placement(where), run_of(observed(result, "cpu")))

    assert "no tensor at result" in finding.expected or "on cuda:0" in finding.expected
    assert "cpu" in finding.got


def test_placement_of_nothing_is_a_failure() -> None:
    assert found(placement(), run_of(observed([1, 2]))).got == "a result without tensors"


def test_placement_looks_at_gradients_too() -> None:
    weight = torch.ones(2, requires_grad=True)
    weight.sum().backward()
    arrived = observed(weight, "cuda:0")
    strayed = replace(arrived, grad=observed(weight.grad))

    assert placement().find(run_of(arrived)) is None
    assert "gradient" in found(placement(), run_of(strayed)).expected


def test_placement_points_at_the_copy_that_took_it_away() -> None:
    finding = found(placement(), run_of(observed(X), trace=copies(("cuda:0", "cpu", 24, 5))))

    assert finding.line == 5


def call_with(output: torch.Tensor, argument: torch.Tensor) -> Any:
    """A run whose output was packed beside its argument, so that identities and storages can be compared."""
    packer = Encoder()
    tree = packer.pack(output)
    facts = facts_by_path(packer.facts({"x": argument}))
    run = run_of(Decoder(tuple(packer.buffers)).unpack(tree), {"x": argument})
    return replace(run, calls=(replace(run.calls[0], arguments=facts),))


def test_identity_tells_the_very_object_from_a_copy_and_a_view() -> None:
    check = identity({"output": "x"})

    assert check.find(call_with(X, X)) is None
    assert "another tensor than 'x'" in found(check, call_with(X.clone(), X)).got
    assert "another tensor than 'x'" in found(check, call_with(X.view(3, 2), X)).got
    assert "the very tensor" in found(identity(different={"output": "x"}), call_with(X, X)).got


def test_aliasing_tells_views_from_copies() -> None:
    check = aliasing({"output": "x"})

    assert check.find(call_with(X.t(), X)) is None
    assert "memory apart" in found(check, call_with(X.clone(), X)).got
    assert "sharing memory" in found(aliasing(separate={"output": "x"}), call_with(X[0], X)).got


def test_an_argument_that_was_taken_away_is_the_learners_doing() -> None:
    run = call_with(X, X)
    run = replace(run, calls=(replace(run.calls[0], arguments={}, before={"x": "digest"}),))

    assert "no longer there" in found(identity({"output": "x"}), run).got


def test_an_argument_that_is_not_there_is_the_authors_fault() -> None:
    with pytest.raises(CourseError, match="'y'"):
        identity({"output": "y"}).find(call_with(X, X))


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (3, 3),
        (0.1 + 0.2, 0.3),
        (torch.device("cuda:0"), torch.device("cuda", 0)),
        ({"a": [1, None, "b"]}, {"a": [1, None, "b"]}),
        (np.arange(3), np.arange(3)),
        (X, X),
    ],
    ids=str,
)
def test_value_passes_what_is_equal(expected: Any, got: Any) -> None:
    assert value(lambda drawn, machine: expected).find(run_of(observed(got))) is None


@pytest.mark.parametrize(
    ("expected", "got", "words"),
    [
        (3, 4, "4 instead of 3"),
        (1, True, "a bool instead of an int"),
        (0.3, 0.3001, "0.3001 instead of 0.3"),
        ([1, 2], (1, 2), "a tuple instead of a list"),
        ([1, 2], [1], "1 parts instead of 2"),
        (torch.device("cuda:1"), torch.device("cuda:0"), "device(type='cuda', index=0)"),
        (torch.device("cuda:1"), "cuda:1", "a str instead of a device"),
        (np.arange(3), np.arange(3)[::-1], "instead of"),
        (float("nan"), 1.0, "instead of nan"),
    ],
    ids=str,
)
def test_value_names_what_differs(expected: Any, got: Any, words: str) -> None:
    assert words in found(value(lambda drawn, machine: expected), run_of(observed(got))).got


def test_value_may_depend_on_the_machine_and_the_inputs() -> None:
    check = value(lambda drawn, machine: drawn["n"] * machine.gpus)

    assert check.find(run_of(3, {"n": 3}, machine=GPU)) is None
    assert check.find(run_of(0, {"n": 3}, machine=NO_GPU)) is None


def test_transfers_count_each_direction_by_itself() -> None:
    trace = copies(("cpu", "cuda:0", 100, 5), ("cuda:0", "cpu", 40, 6), ("cuda:0", "cuda:1", 7, 6))

    assert transfers(to_device=1, to_host=1, between=1).find(run_of(None, trace=trace)) is None
    assert transfers(bytes_to_device=100, bytes_to_host=40, bytes_between=7).find(run_of(None, trace=trace)) is None
    finding = found(transfers(to_device=0), run_of(None, trace=trace))
    assert finding.expected == "no host-to-device copies in a call"
    assert finding.got.startswith("1 host-to-device copy of 100 bytes in all, at line 5")
    assert finding.line == 5


def test_transfers_point_at_the_copy_that_is_one_too_many_and_name_all() -> None:
    trace = copies(*[("cpu", "cuda:0", 4, 7)] * 3, ("cpu", "cuda:0", 4, 9))

    finding = found(transfers(to_device=(0, 3)), run_of(None, trace=trace))

    assert finding.line == 9
    assert "at line 7 (3 times) and line 9" in finding.got
    finding = found(transfers(to_device=(0, 1)), run_of(None, trace=trace))
    assert finding.line == 7
    assert finding.expected == "0 to 1 host-to-device copy in a call"


def test_of_copies_to_the_host_the_last_are_those_that_are_needed() -> None:
    trace = copies(("cuda:0", "cpu", 4, 5), ("cuda:0", "cpu", 4, 6), ("cuda:0", "cpu", 400, 8))

    assert found(transfers(to_host=1), run_of(None, trace=trace)).line == 6
    assert found(transfers(to_host=2), run_of(None, trace=trace)).line == 5
    assert found(transfers(to_host=4), run_of(None, trace=trace)).line == 5, "too few: the line with most"
    assert found(transfers(bytes_to_host=404), run_of(None, trace=trace)).line == 5


def test_too_many_bytes_point_at_the_copy_with_which_they_are_too_many() -> None:
    trace = copies(("cpu", "cuda:0", 4, 5), ("cpu", "cuda:0", 4, 5), ("cpu", "cuda:0", 9, 6))

    assert found(transfers(bytes_to_device=8), run_of(None, trace=trace)).line == 6
    assert found(transfers(bytes_to_device=20), run_of(None, trace=trace)).line == 5


def test_transfers_in_bytes_may_be_computed_from_the_inputs() -> None:
    check = transfers(bytes_to_device=lambda drawn, machine: drawn["x"].nbytes)

    assert check.find(run_of(None, {"x": X}, trace=copies(("cpu", "cuda:0", 24, 5)))) is None
    assert "48 bytes" in found(check, run_of(None, {"x": X}, trace=copies(("cpu", "cuda:0", 48, 5)))).got
    assert found(check, run_of(None, {"x": X})).got.startswith("no host-to-device copy")


def test_waits_are_counted_and_their_line_is_told() -> None:
    assert syncs(at_most=2).find(run_of(None, trace=waits(5, 6))) is None
    finding = found(syncs(), run_of(None, trace=waits(5, 5, 6)))
    assert finding.line == 5
    assert finding.got.startswith("3 waits")


def test_source_rules_see_calls_and_not_text() -> None:
    text = (
        "import torch\n\n\ndef work(x):\n    # x.item() in words\n    s = '.item()'\n    return torch.relu(x).item()\n"
    )

    assert source(require=("torch.relu",)).find(run_of(None, source=text)) is None
    assert found(source(forbid=("item",)), run_of(None, source=text)).line == 7
    assert found(source(require=("torch.no_grad",)), run_of(None, source=text)).got == "no such call"
    assert source(forbid=("numpy",)).find(run_of(None, source=text)) is None


@pytest.mark.parametrize(("on", "with_gpu", "without"), [("gpu", True, False), ("no gpu", False, True)])
def test_a_check_may_apply_to_some_machines_only(on: str, with_gpu: bool, without: bool) -> None:
    check: Check = placement(on=on)

    assert check.applies(GPU) is with_gpu
    assert check.applies(NO_GPU) is without
    assert placement(on=lambda machine: machine.gpus == 1).applies(GPU)
    with pytest.raises(CourseError, match="sometimes"):
        placement(on="sometimes").applies(GPU)


def net(*layers: torch.nn.Module) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 2), *layers)


def with_table(*, learned: bool) -> dict[str, torch.nn.Module]:
    model = torch.nn.Sequential(torch.nn.ReLU())
    table = torch.ones(2)
    if learned:
        model[0].register_parameter("table", torch.nn.Parameter(table))
    else:
        model[0].register_buffer("table", table)
    return {"model": model}


@pytest.mark.parametrize("learned", [True, False])
def test_a_buffer_is_no_parameter_wherever_the_module_stands(learned: bool) -> None:
    check = structure(lambda: with_table(learned=not learned))

    assert check.find(run_of(observed(with_table(learned=not learned)))) is None
    finding = found(check, run_of(observed(with_table(learned=learned))))
    right = "buffer" if learned else "parameter"
    assert finding.expected.startswith(f"result['model'] is a module whose '0.table' is a {right}; the whole result: ")
    kinds = "a parameter instead of a buffer" if learned else "a buffer instead of a parameter"
    assert finding.got == f"result['model'] is a module whose '0.table' is {kinds}"


def test_a_module_is_no_dict_and_its_layers_count() -> None:
    check = structure(lambda: net(torch.nn.ReLU()))

    assert check.find(run_of(observed(net(torch.nn.ReLU())))) is None
    assert "instead of a module" in found(check, run_of(observed(net().state_dict()))).got
    assert "a Identity, instead of '1', a ReLU" in found(check, run_of(observed(net(torch.nn.Identity())))).got
    fewer = found(check, run_of(observed(net())))
    assert "1 layers instead of 2" in fewer.got
    assert fewer.expected.startswith("a module of 2 layers; the whole result: a module with")


def test_of_a_large_result_the_part_that_differs_is_expected_first() -> None:
    def large(wrong: str = "") -> dict[str, list[float]]:
        return {name: [0.0 if name == wrong else 1.0] * 50 for name in "abcdef"}

    finding = found(value(lambda drawn, machine: large()), run_of(observed(large("e"))))
    assert finding.expected.startswith("result['e.0'] is 1.0; the whole result: {'a': [1.0, ")
    assert len(finding.expected) < 300


def test_a_buffer_that_a_state_dict_leaves_out_is_placed_but_not_compared() -> None:
    model = net()
    model.register_buffer("scratch", torch.zeros(3), persistent=False)

    assert structure(net).find(run_of(observed(model))) is None
    assert "scratch" in found(placement({"0": "cpu", "scratch": "cuda:0"}), run_of(observed(model))).got
