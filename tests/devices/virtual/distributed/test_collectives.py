"""Collectives on device tensors between two processes: values, devices, NCCL's rules, profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import collective_programs
from tests.support.ranks import results_of, run_ranks

Results = list[dict[str, Any]]
results = results_of(collective_programs.__name__)


def _both(first: Any, second: Any | None = None) -> list[Any]:
    """Return the result of both ranks: the values on their own device."""
    return [("cuda:0", first), ("cuda:1", first if second is None else second)]


@pytest.mark.parametrize(
    ("operation", "result"), [("SUM", 3.0), ("AVG", 1.5), ("PRODUCT", 2.0), ("MIN", 1.0), ("MAX", 2.0)]
)
def test_all_reduce_knows_each_operation_of_nccl(results: Results, operation: str, result: float) -> None:
    assert [rank["all_reduce"][operation] for rank in results] == _both([result])


def test_a_work_returns_its_tensor(results: Results) -> None:
    for rank, (tensor, completed, value, same) in enumerate(message["asynchronous"] for message in results):
        assert tensor == (f"cuda:{rank}", [3.0])
        assert value == [tensor]
        assert completed
        assert same


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("backend", [["nccl", True]] * 2),
        ("all_reduce_in_place_of_a_view", _both([0.0, 3.0, 0.0])),
        ("other_dtypes", [[(f"cuda:{rank}", [2])] * 4 for rank in (0, 1)]),
        ("broadcast", _both([2.0])),
        ("reduce", _both([3.0], [2.0])),
        ("averages", [[[3, -3], [3, -3], [60000.0], [own], [2.0, 4.0]] for own in (2.0, 4.0)]),
        ("bools", [[[1, 1, 0], [1, 1, 0]]] * 2),
        ("float8", [[[1.0, 2.0], [1.0, 2.0], [1.0], [2.0], [2.0]]] * 2),
        ("all_gather", [[("cuda:0", [1.0]), ("cuda:0", [2.0])], [("cuda:1", [1.0]), ("cuda:1", [2.0])]]),
        ("all_gather_of_unequal_lengths", [[[1.0], [2.0, 2.0]]] * 2),
        ("all_gather_into_tensor", _both([[1.0, 2.0]])),
        ("gather", [[("cuda:0", [1.0]), ("cuda:0", [2.0])], None]),
        ("scatter", _both([10.0], [11.0])),
        ("reduce_scatter", _both([2.0], [4.0])),
        ("reduce_scatter_tensor", [[("cuda:0", [2.0]), ("cuda:0", [1.0])], [("cuda:1", [4.0]), ("cuda:1", [2.0])]]),
        ("all_to_all", [[("cuda:0", [0.0]), ("cuda:0", [10.0])], [("cuda:1", [1.0]), ("cuda:1", [11.0])]]),
        ("all_to_all_single", _both([0.0, 10.0], [1.0, 11.0])),
        ("send_and_recv", [[1, ("cuda:0", [10.0])], [0, ("cuda:1", [1.0])]]),
        ("isend_and_irecv", _both([2.0], [1.0])),
        ("batch_isend_irecv", _both([2.0], [1.0])),
        ("messages_to_itself", _both([1.0], [2.0])),
        ("messages_to_itself_after_a_lone_one", _both([1.0], [2.0])),
        ("sender_of_a_message_to_itself", [0, 0]),
        ("calls_of_a_backend", _both([3.0])),
        ("group_after_calls_of_its_backend", [[True, (f"cuda:{rank}", [6.0]), ("cpu", [2.0])] for rank in (0, 1)]),
        ("barrier", [None, None]),
        ("objects", [[[{"rank": 0}, {"rank": 1}], [1], ["a"]], [[{"rank": 0}, {"rank": 1}], [1], ["b"]]]),
        ("new_group", [[("cuda:0", [3.0]), "nccl"], [("cuda:1", [3.0]), "nccl"]]),
        ("gloo_group_takes_both", [[(f"cuda:{rank}", [3.0]), ("cpu", [2.0]), "gloo"] for rank in (0, 1)]),
        ("mixed_group", [[(f"cuda:{rank}", [3.0]), ("cpu", [2.0])] for rank in (0, 1)]),
        ("coalescing", [[(f"cuda:{rank}", [3.0]), (f"cuda:{rank}", [6.0])] for rank in (0, 1)]),
    ],
)
def test_the_result_is_right_and_on_the_ranks_own_device(results: Results, name: str, expected: list[Any]) -> None:
    assert [rank[name] for rank in results] == expected


def test_functional_collectives_give_device_tensors(results: Results) -> None:
    for number, rank in enumerate(results):
        device = f"cuda:{number}"
        assert rank["functional_collectives"] == {
            "sum": (device, [3.0]),
            "avg": (device, [1.5]),
            "gathered": (device, [1.0, 2.0]),
            "scattered": (device, [2.0]),
        }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("host_tensor", "RuntimeError: No backend type associated with device type cpu"),
        ("host_tensor_among_device_tensors", "ValueError: Tensors must be CUDA and dense"),
        ("not_contiguous", "ValueError: Tensors must be contiguous"),
        ("all_gather_of_a_wrong_length", "ValueError: Tensor input and output of _broadcast_oop must have the same"),
        ("a_lone_message_to_itself", "RuntimeError: a rank's message to itself would wait forever"),
        ("monitored_barrier", "ValueError: monitored_barrier "),  # "is only …"; "requires …" since PyTorch 2.14
    ],
)
def test_nccls_errors_are_raised(results: Results, name: str, message: str) -> None:
    assert [rank[name][: len(message)] for rank in results] == [message] * 2


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        (
            "refused_reductions",
            [
                "ValueError: Cannot use ReduceOp.BAND with NCCL",
                "ValueError: Cannot use ReduceOp.BOR with NCCL",
                "ValueError: Cannot use ReduceOp.BXOR with NCCL",
                "ValueError: Cannot use ReduceOp.BOR with NCCL",
                "TypeError: Cannot use ReduceOp.AVG with boolean",
                "TypeError: Input tensor data type is not supported for NCCL process group: Short",
                "NotImplementedError: The virtual GPU does not support reductions of torch.float8_e4m3fn",
                "RuntimeError: Unsupported Float8 type",
            ],
        ),
        (
            "refused_shapes",
            [
                "ValueError: output tensor size must be equal to world_size times input tensor size",
                "TypeError: output tensor must have the same type",
                "ValueError: input tensor must be the same size as output size times world size",
                "TypeError: input tensor must be the same type",
                "RuntimeError: Unconvertible NCCL type Short",
                "ValueError: ProcessGroupNCCL::gather: invalid tensor size",
            ],
        ),
    ],
)
def test_nccl_refuses_dtypes_sizes_and_reductions(results: Results, name: str, messages: list[str]) -> None:
    for rank in results:
        for got, message in zip(rank[name], messages, strict=True):
            assert got.startswith(message) or (not got and rank is results[1])


def test_two_ranks_on_one_gpu_are_nccls_error(results: Results) -> None:
    words = "Duplicate GPU detected : rank {} and rank {} both on CUDA device 1000"
    for rank in (0, 1):
        message = results[rank]["two_ranks_on_one_gpu"]
        assert message.startswith("DistBackendError: NCCL error in: ")
        assert message.endswith(words.format(rank, 1 - rank))
    assert [rank["one_gpu_after_a_barrier"] for rank in results] == [[], [words.format(1, 0)]]


def test_a_group_bound_to_a_device_is_split_and_keeps_to_it(tmp_path: Path) -> None:
    results = run_ranks(tmp_path, collective_programs.__name__, "BOUND_PROGRAMS", bound=True)
    for number, rank in enumerate(results):
        assert rank["parts_of_a_group"] == [1, "parts", "nccl", (f"cuda:{number}", [3.0]), True]
        assert rank["another_device_than_the_bound"].startswith("DistBackendError: Attempt to perform collective")


@pytest.mark.long
def test_a_gather_into_too_few_tensors_is_torchs_error(tmp_path: Path) -> None:
    for rank in run_ranks(tmp_path, collective_programs.__name__, "THREE_RANKS", ranks=3):
        assert "invalid output tensor list at index 0 (expected length 3" in rank["all_gather_into_too_few_tensors"]


def test_a_collective_is_one_event_of_the_trace_with_the_bytes_sent(results: Results) -> None:
    for number, rank in enumerate(results):
        (event,) = rank["trace"]
        assert event[:4] == ["collective", "c10d::allreduce_", f"cuda:{number}", 32]
        assert isinstance(event[4], int)


def test_a_collectives_device_time_is_in_its_operators_row(results: Results) -> None:
    for profiled in (rank["profile_of_collectives"] for rank in results):
        assert profiled["operator"] == pytest.approx(profiled["kernel"])
        assert profiled["kernel"] > 0
        assert "c10d::allreduce_" in profiled["table"]
        assert profiled["negative"] == []


def test_a_profile_has_the_programs_gloo_but_not_the_virtual_gpus(results: Results) -> None:
    for profiled in (rank["profile_of_collectives"] for rank in results):
        names = set(profiled["names"])
        assert "gloo:all_reduce" in names
        hidden = {"aten::resolve_conj", "aten::resolve_neg", "aten::div_", "_c10d_functional::wait_tensor"}
        assert not names & hidden


def test_the_first_fsdp_is_refused_by_name(results: Results) -> None:
    call = "torch.distributed.fsdp.FullyShardedDataParallel"
    assert [rank["fully_sharded_data_parallel"] for rank in results] == [
        f"NotImplementedError: The virtual GPU does not support {call}. Use torch.distributed.fsdp.fully_shard."
    ] * 2
