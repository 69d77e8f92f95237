"""Cost of operators whose work is not proportional to the bytes of their tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.virtual.cost.kernel import price
from gpututor.devices.virtual.cost.matrices import contraction_flops
from gpututor.devices.virtual.cost.memory_traffic import Tensor
from gpututor.hardware.gpus import gpu_names, gpu_spec
from gpututor.trace.events import Kind
from tests.support.virtual_gpus import names_of, traced
from tests.support.workloads import tensor


def ms(name: str, inputs: list[Tensor], outputs: list[Tensor], gpu: str = "A100", **switches: Any) -> float:
    return price(gpu_spec(gpu), f"aten.{name}.default", inputs, outputs, **switches).seconds * 1e3


ROWS, SQUARE = tensor(2048, 256), tensor(2048, 2048)
PAIRWISE = {
    "_euclidean_dist": ([ROWS, ROWS], [SQUARE]),
    "_cdist_forward": ([ROWS, ROWS], [SQUARE]),
    "_pdist_forward": ([ROWS], [tensor(2048 * 2047 // 2)]),
    "_cdist_backward": ([SQUARE, ROWS, ROWS, SQUARE], [ROWS]),
    "_pdist_backward": ([tensor(2048 * 2047 // 2), ROWS, tensor(2048 * 2047 // 2)], [ROWS]),
    "conv_tbc": ([tensor(256, 64, 512), tensor(3, 512, 512), tensor(512)], [tensor(256, 64, 512)]),
    "conv_tbc_backward": (
        [tensor(256, 64, 512), tensor(256, 64, 512), tensor(3, 512, 512)],
        [tensor(256, 64, 512), tensor(3, 512, 512)],
    ),
    "_trilinear": ([tensor(512, 1, 256), tensor(1, 256, 256, 256), tensor(512, 1, 256)], [tensor(512, 256)]),
    "_grouped_mm": ([tensor(4096, 1024), tensor(4, 1024, 1024), tensor(4)], [tensor(4096, 1024)]),
}


@pytest.mark.parametrize("gpu", gpu_names())
@pytest.mark.parametrize("name", PAIRWISE)
def test_nothing_computes_faster_than_the_peak(name: str, gpu: str) -> None:
    inputs, outputs = PAIRWISE[name]
    assert contraction_flops(name, inputs, outputs) / ms(name, inputs, outputs, gpu) * 1e3 < gpu_spec(gpu).float32_flops


def test_flops_of_distances_are_three_for_each_pair_of_elements() -> None:
    assert contraction_flops("_cdist_forward", [tensor(4, 5, 7), tensor(4, 6, 7)], [tensor(4, 5, 6)]) == 3 * 4 * 30 * 7
    assert contraction_flops("_pdist_forward", [tensor(5, 7)], [tensor(10)]) == 3 * 10 * 7
    assert contraction_flops("_euclidean_dist", [tensor(5, 7), tensor(6, 7)], [tensor(5, 6)]) == 2 * 30 * 9


def test_a_euclidean_distance_costs_a_matrix_product_and_a_little_more() -> None:
    product = ms("mm", [ROWS, tensor(256, 2048)], [SQUARE])
    assert product < ms("_euclidean_dist", [ROWS, ROWS], [SQUARE]) < 2 * product
    assert ms("_cdist_forward", [ROWS, ROWS], [SQUARE]) > 3 * product


def test_a_single_row_is_scanned_at_memory_bandwidth() -> None:
    large = tensor(10**8)
    copied = ms("relu", [large], [large])
    for name in ("cumsum", "cumprod", "logcumsumexp"):
        assert copied < ms(name, [large], [large], dim=0) < 1.3 * copied
    # Places beside the values: one block for each row, however long.
    assert ms("cummax", [large], [large, tensor(10**8, dtype="int64")], dim=0) > 20 * copied


def test_a_scan_along_columns_differs_from_a_scan_of_rows() -> None:
    tall = tensor(10**6, 64)
    across, along = ms("cumsum", [tall], [tall], dim=1), ms("cumsum", [tall], [tall], dim=0)
    assert along > 10 * across


FACTORISATIONS = {
    "linalg_cholesky_ex": (4, 9),
    "linalg_lu_factor_ex": (8, 16),
    "linalg_inv_ex": (15, 35),
    "linalg_qr": (20, 60),
    "_linalg_eigh": (500, 2000),
    "_linalg_svd": (4000, 16000),
}


@pytest.mark.parametrize(("name", "bounds"), FACTORISATIONS.items())
def test_factorizations_of_4096_columns_take_what_they_do_on_an_a100(name: str, bounds: tuple[float, float]) -> None:
    square = tensor(4096, 4096)
    assert bounds[0] < ms(name, [square], [square]) < bounds[1]


def test_solving_with_4096_columns_takes_what_it_does_on_an_a100() -> None:
    square, vector = tensor(4096, 4096), tensor(4096)
    assert 9 < ms("_linalg_solve_ex", [square, vector], [vector]) < 16
    assert 6 < ms("linalg_solve_triangular", [square, square], [square]) < 11
    assert ms("linalg_solve_triangular", [square, tensor(4096, 1)], [tensor(4096, 1)]) < 2


@pytest.mark.parametrize("gpu", ["T4", "A100", "H100"])
@pytest.mark.parametrize("size", [256, 1024, 4096])
def test_factorizations_cost_in_the_order_of_their_work(size: int, gpu: str) -> None:
    square = tensor(size, size)
    order = ["linalg_solve_triangular", "linalg_cholesky_ex", "linalg_lu_factor_ex", "linalg_inv_ex", "linalg_qr"]
    order += ["_linalg_eigh", "_linalg_svd", "linalg_pinv"]
    results = [ms(name, [square, tensor(size)] if "solve" in name else [square], [square], gpu) for name in order]
    assert results == sorted(results)


def test_iterations_of_1024_columns_take_what_they_do_on_an_a100() -> None:
    square = tensor(1024, 1024)
    assert 200 < ms("_linalg_svd", [square], [square]) < 1000
    assert 40 < ms("_linalg_eigh", [square], [square]) < 100


def test_small_matrices_of_a_batch_are_factored_side_by_side() -> None:
    single, many = tensor(16, 16), tensor(100, 16, 16)
    for name in ("linalg_cholesky_ex", "_linalg_eigh", "_linalg_svd"):
        assert ms(name, [many], [many]) < 3 * ms(name, [single], [single])
    large = tensor(100, 64, 64)
    assert ms("_linalg_svd", [large], [large]) > 50 * ms("_linalg_svd", [tensor(64, 64)], [tensor(64, 64)])


def test_a_permutation_is_a_sort_of_random_keys() -> None:
    assert 1 < ms("randperm", [], [tensor(10**7, dtype="int64")]) < 3


def test_topk_of_few_elements_needs_no_sort() -> None:
    large, few = tensor(10**8), tensor(10)
    ordered = ms("sort", [large], [large, tensor(10**8, dtype="int64")])
    assert 0.15 < ms("topk", [large], [few, tensor(10, dtype="int64")]) / ordered < 0.35
    assert ms("topk", [large], [large, tensor(10**8, dtype="int64")]) <= ordered


def test_single_pass_operators_cost_less_than_a_sort() -> None:
    mask, places = tensor(10**7, dtype="bool"), tensor(10**6, 1, dtype="int64")
    assert ms("nonzero", [mask], [places]) < ms("sort", [mask], [mask]) / 5
    bounds, values = tensor(10**4), tensor(10**7)
    result = tensor(10**7, dtype="int64")
    assert ms("searchsorted", [bounds, values], [result]) < ms("sort", [values], [values, result])
    assert ms("searchsorted", [tensor(10**8), values], [result]) > 3 * ms("searchsorted", [bounds, values], [result])
    assert ms("bucketize", [values, bounds], [result]) == ms("searchsorted", [bounds, values], [result])


def test_a_bag_reads_a_row_for_each_index() -> None:
    table, indices, made = tensor(10**6, 128), tensor(4096 * 64, dtype="int64"), tensor(4096, 128)
    result = price(
        gpu_spec("A100"), "aten._embedding_bag.default", [table, indices, tensor(4096, dtype="int64")], [made]
    )
    assert result.bytes > 4096 * 64 * 512
    assert result.seconds > 4096 * 64 * 512 / gpu_spec("A100").bytes_per_s


def test_the_steps_of_ctc_come_one_after_another() -> None:
    def loss_ms(steps: int) -> float:
        return ms("_ctc_loss", [tensor(steps, 8, 50), tensor(8, 20, dtype="int64")], [tensor(8), tensor(8, steps, 41)])

    assert loss_ms(4000) > 3.5 * loss_ms(1000) > 3


def waits(program: Callable[[], object], values: bool) -> list[str]:
    return names_of(traced(program, values=values), Kind.SYNCHRONISE)[:-1]  # the last is the helper's own


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eig", "pinv", "cholesky", "solve", "inv"])
def test_a_factorization_synchronizes_to_check_errors(name: str, values: bool) -> None:
    def program() -> None:
        matrix = torch.eye(32, device="cuda")
        getattr(torch.linalg, name)(*[matrix] * (2 if name == "solve" else 1))

    assert len(waits(program, values)) == 1


@pytest.mark.parametrize("values", [True, False])
def test_unchecked_factorizations_do_not_synchronize(values: bool) -> None:
    def program() -> None:
        matrix = torch.eye(32, device="cuda")
        torch.linalg.qr(matrix)
        torch.linalg.solve_triangular(matrix, matrix, upper=True)
        torch.linalg.cholesky_ex(matrix)

    assert waits(program, values) == []


def test_the_flops_of_distances_are_in_the_trace() -> None:
    def program() -> None:
        points = torch.zeros(64, 32, device="cuda")
        torch.cdist(points, points, p=1)

    events = traced(program, values=False)
    assert [event.flops for event in events if "cdist" in event.name] == [3 * 64 * 64 * 32]
