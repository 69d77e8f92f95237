"""Each row of `operators.toml` has a known kind with a cost, and valid facts."""

from __future__ import annotations

import torch

from gpututor.devices.virtual.cost.kernel import price
from gpututor.devices.virtual.operator_facts import NO_COST, OperatorFacts, device_checks, facts_of, kind_of, tables
from gpututor.devices.virtual.operator_registry import WAITS, cuda_kernel
from gpututor.devices.virtual.operators.scratch import is_block
from gpututor.hardware.gpus import gpu_spec

OPERATORS = tables()["operators"]


def _rows() -> dict[str, OperatorFacts]:
    return {name: facts_of(name) for name in OPERATORS}


def test_each_row_has_a_listed_kind_and_each_kind_has_rows() -> None:
    assert {facts.kind for facts in _rows().values()} == set(tables()["kinds"])
    assert all(kind_of(f"aten::{name}") == facts.kind for name, facts in _rows().items() if not name.endswith("_"))


def test_each_kind_has_a_cost_and_only_free_kinds_cost_nothing() -> None:
    gpu, sizes = gpu_spec("T4"), ((8, 8, 8, 8), "float32")
    first = {facts.kind: name for name, facts in reversed(_rows().items())}
    for kind, name in first.items():
        cost = price(gpu, f"aten::{name}", (sizes, sizes), (sizes,)).seconds
        assert (cost == 0) is (kind == NO_COST), kind


def test_each_fact_has_a_valid_value_and_lacking_dtypes_have_cudas_message() -> None:
    for name, facts in _rows().items():
        assert facts.waits in {"", *WAITS}, name
        assert facts.indices in ("", "read", "put"), name
        assert all(isinstance(getattr(torch, dtype, None), torch.dtype) for dtype in facts.lacks), name
        assert bool(facts.runs_as) is bool(facts.arguments), name
        assert all(map(is_block, facts.scratch)), name
        for other in (facts.runs_as, facts.cuda_name):
            assert not other or hasattr(torch.ops.aten, other), name
        assert not (facts.kernel and facts.refusal), name
        narrowed = facts.reductions or facts.below_capability or facts.skips_empty
        assert facts.lacks or not narrowed, name
        kernel = cuda_kernel(facts)
        assert (kernel is not None) or not facts.lacks, name


def test_other_tables_list_only_operators_with_a_row() -> None:
    for table in ("refusals", "unsupported"):
        assert set(tables()[table]) <= set(OPERATORS)
    assert len(device_checks()) > 700


def test_an_in_place_form_without_a_row_has_its_operators_facts() -> None:
    assert facts_of("index_put_") is not OperatorFacts()
    assert facts_of("index_put_") == facts_of("index_put")
    assert facts_of("set_").hidden_view
    assert not facts_of("set").hidden_view
    assert facts_of("no_such_operator") == OperatorFacts()
