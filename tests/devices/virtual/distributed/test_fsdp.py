"""FSDP2 and DTensor: values of one process, collectives in the trace, memory; what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import fsdp_programs
from tests.support.ranks import results_of, run_ranks

Results = list[dict[str, Any]]
PARAMETERS = 4 * (64 + 64 + 64 * 128 + 128 + 128 * 64 + 64)
"""Bytes of a block of the traced network."""
results = results_of(fsdp_programs.__name__)


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("plain", 1e-6),
        ("checkpointed", 1e-6),
        ("kept_after_forward", 1e-6),
        ("offloaded", 1e-6),
        ("mixed_precision", 0.03),
    ],
)
def test_training_equals_one_process_with_the_whole_batch(results: Results, name: str, tolerance: float) -> None:
    for rank, result in enumerate(message[name] for message in results):
        assert result["difference"] <= tolerance
        assert f"cuda:{rank}" in result["devices"]
        assert result["hazards"] == [], "gradients are memory of FSDP's stream, which it uses again in order"


def test_rounding_to_bfloat16_shows(results: Results) -> None:
    assert min(rank["mixed_precision"]["difference"] for rank in results) > 1e-5


def test_parameters_are_sharded_by_rows_and_offloaded_ones_live_on_the_host(results: Results) -> None:
    assert [rank["plain"]["local_rows"] for rank in results] == [[2, 2], [1, 1]]
    assert [rank["plain"]["state"] for rank in results] == [["DTensor"]] * 2
    assert [rank["offloaded"]["devices"] for rank in results] == [["cpu", "cuda:0"], ["cpu", "cuda:1"]]


def test_gradients_accumulate_without_synchronization_and_are_clipped(results: Results) -> None:
    assert max(max(rank["accumulated"]) for rank in results) <= 1e-6


def test_a_model_on_meta_gets_its_shards_on_the_device(results: Results) -> None:
    for number, rank in enumerate(results):
        (device, values), where = rank["on_meta"]
        assert (device, where) == (f"cuda:{number}", f"cuda:{number}")
        assert values == [[2329.0] * 3]


def test_shards_draw_different_values_and_replicas_the_same(results: Results) -> None:
    first, second = (rank["random_values"] for rank in results)
    assert first == second
    values = [value for row in first["weight"] for value in row] + first["bias"] + first["own"] + first["made"]
    assert len(set(values)) == len(values) == 64 + 8 + 4 + 4
    assert first["replicated"]
    halves = first["dropout"][:32], first["dropout"][32:]
    assert {value for row in first["dropout"] for value in row} == {0.0, 2.0}
    assert halves[0] != halves[1]


def test_a_full_state_dict_is_gathered_on_rank_zero_and_loaded(results: Results) -> None:
    assert [rank["state_dict"] for rank in results] == [[["cpu"], 14, True], [[], 0, True]]


def test_a_factor_of_the_reduction_is_refused_by_name(results: Results) -> None:
    for rank in results:
        assert rank["divided"].startswith("NotImplementedError")
        assert "set_gradient_divide_factor" in rank["divided"]


def test_all_gathers_and_reduce_scatters_are_collectives_on_the_clock(results: Results) -> None:
    for rank in results:
        names = [name for name, _ in rank["trace"]["collectives"]]
        assert names == ["c10d::_allgather_base_"] * 5 + ["c10d::_reduce_scatter_base_"] * 3
        assert rank["trace"]["collectives"][1][1] == PARAMETERS // 2
        assert rank["trace"]["collectives"][5][1] == PARAMETERS
        assert rank["trace"]["on_clock"]
        assert rank["trace"]["hazards"] == []
        # Unsharded parameters are freed after the forward pass.
        forward, backward = rank["trace"]["grew"]
        assert forward < PARAMETERS
        assert backward < 2 * PARAMETERS


def test_dtensors_are_distributed_redistributed_and_gathered(results: Results) -> None:
    for number, rank in enumerate(results):
        device = f"cuda:{number}"
        assert rank["dtensors"] == {
            "local": (device, [[6.0 * number + 3 * row + column for column in range(3)] for row in range(2)]),
            "columns": [4, 2 - number],
            "whole": True,
            "sum": 66.0,
            "partial": True,
            "made": [[2, 2], device],
            "gradient": (device, [[18.0] * 3, [22.0] * 3, [26.0] * 3]),
            "product": True,
            "text": "(Shard(dim=0),)",
        }


@pytest.mark.long
def test_four_ranks_shard_and_replicate_and_cut_layers(tmp_path: Any) -> None:
    for rank in run_ranks(tmp_path, fsdp_programs.__name__, "FOUR_RANKS", ranks=4):
        assert rank["plain"]["difference"] <= 1e-6
        assert rank["hybrid"]["difference"] <= 1e-6
        assert rank["with_tensor_parallel"] <= 1e-6
