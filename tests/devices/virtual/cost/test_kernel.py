"""Cost of a single kernel, also where its work is not proportional to the bytes of its tensors."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.cost.kernel import launches, price
from gpututor.devices.virtual.cost.matrices import contraction_flops
from gpututor.devices.virtual.cost.memory_traffic import Tensor, total_bytes
from gpututor.hardware.gpus import gpu_names, gpu_spec
from gpututor.trace.events import Kind
from tests.support.virtual_gpus import names_of, printed, traced
from tests.support.workloads import tensor

F32 = "float32"


def seconds(gpu: str, name: str, inputs: list[Tensor], outputs: list[Tensor], **switches: Any) -> float:
    return price(gpu_spec(gpu), name, inputs, outputs, **switches).seconds


def product_s(gpu: str, size: int, dtype: str = F32, **switches: bool) -> float:
    square = tensor(size, size, dtype=dtype)
    return seconds(gpu, "aten.mm.default", [square, square], [square], **switches)


@pytest.mark.parametrize(
    "name", ["aten.view.default", "aten::t", "aten.transpose_.default", "empty", "aten.slice.Tensor"]
)
def test_views_and_memory_without_values_cost_nothing(name: str) -> None:
    result = price(gpu_spec("T4"), name, [tensor(1000, 1000)], [tensor(1000, 1000)])
    assert (result.seconds, result.bytes, result.flops, result.fill) == (0, 0, 0, 0)
    assert 0 < launches(name) < launches("aten.add.Tensor")


@pytest.mark.parametrize("name", gpu_names())
def test_an_elementwise_kernel_uses_most_of_the_bandwidth_and_not_more(name: str) -> None:
    gpu, large = gpu_spec(name), tensor(2**28)
    result = price(gpu, "aten.relu.default", [large], [large])
    attained = result.bytes / result.seconds
    assert result.bytes == 2 * 4 * 2**28
    assert 0.7 * gpu.bytes_per_s < attained < gpu.bytes_per_s
    assert result.fill == 1


@pytest.mark.parametrize("name", gpu_names())
@pytest.mark.parametrize("dtype", ["float64", F32, "float16", "bfloat16"])
def test_a_large_product_reaches_much_of_the_peak_rate_and_not_more(name: str, dtype: str) -> None:
    gpu, size = gpu_spec(name), 8192
    peaks = {"float64": max(gpu.float64_flops, gpu.float64_tensor_flops), F32: gpu.float32_flops}
    peak = peaks.get(dtype) or max(gpu.float32_flops, gpu.float16_flops if dtype == "float16" else gpu.bfloat16_flops)
    attained = 2 * size**3 / product_s(name, size, dtype)
    assert 0.25 * peak < attained < peak


@given(st.sampled_from(gpu_names()), st.integers(6, 12), st.integers(6, 12), st.integers(6, 12))
def test_a_product_is_never_faster_than_physics(name: str, rows: int, columns: int, inner: int) -> None:
    gpu, m, n, k = gpu_spec(name), 2**rows + 1, 2**columns - 3, 2**inner
    inputs, outputs = [tensor(m, k), tensor(k, n)], [tensor(m, n)]
    result = price(gpu, "aten.mm.default", inputs, outputs, 2.0 * m * n * k)
    assert result.seconds > 2.0 * m * n * k / gpu.float32_flops
    if result.bytes > gpu.l2_cache_bytes:
        assert result.seconds > total_bytes((*inputs, *outputs)) / gpu.bytes_per_s


@given(
    st.sampled_from(["index_select", "avg_pool2d", "_fft_c2c", "_linalg_svd", "smooth_l1_loss"]),
    st.sampled_from(["T4", "A100", "RTX 4090"]), st.integers(1, 300), st.integers(1, 300),
)  # fmt: skip
def test_more_of_the_same_never_takes_less_time(name: str, gpu: str, first: int, second: int) -> None:
    """Tests of other operators: `test_price_sanity`."""
    few, many = (tensor(batch, 32, 40, 40) for batch in sorted((first, second)))
    assert seconds(gpu, name, [few, few], [few]) <= seconds(gpu, name, [many, many], [many])


@pytest.mark.parametrize("rows", [1, 9, 128, 1000, 3001])
def test_a_longer_inner_dimension_never_takes_less_time(rows: int) -> None:
    results = [
        seconds("A100", "mm", [tensor(rows, inner), tensor(inner, 512)], [tensor(rows, 512)])
        for inner in range(16, 4096, 80)
    ]
    assert results == sorted(results)


def test_without_tensor_cores_half_precision_halves_only_traffic() -> None:
    assert product_s("P100", 4096, "float16") > 0.9 * product_s("P100", 4096)
    large, half = tensor(2**26), tensor(2**26, dtype="float16")
    assert seconds("P100", "add", [half], [half]) < 0.55 * seconds("P100", "add", [large], [large])
    assert product_s("T4", 4096, "bfloat16") > 0.9 * product_s("T4", 4096)


@pytest.mark.parametrize(("name", "slower"), [("T4", 1.3), ("A100 40", 1.3), ("H100", 3.2)])
def test_half_precision_is_slower_if_rows_are_not_aligned_to_16_bytes(name: str, slower: float) -> None:
    for size in (4092, 4095):
        assert product_s(name, size, "float16") > slower * product_s(name, 4096, "float16")
        assert product_s(name, size) <= product_s(name, 4096)

    def wide_s(rows: int, columns: int, inner: int) -> float:
        sides = [tensor(*sizes, dtype="float16") for sizes in ((rows, inner), (inner, columns), (rows, columns))]
        return seconds(name, "aten.mm.default", sides[:2], sides[2:])

    aligned = wide_s(4096, 4096, 4096)
    assert wide_s(4095, 4096, 4096) <= aligned
    assert min(wide_s(4096, 4095, 4096), wide_s(4096, 4096, 4095)) > slower * aligned


def test_double_precision_has_half_the_rate_on_server_gpus_only() -> None:
    assert product_s("A100", 4096, "float64") < 2.5 * product_s("A100", 4096)
    assert product_s("RTX 4090", 4096, "float64") > 25 * product_s("RTX 4090", 4096)
    double = tensor(2**24, dtype="float64")
    assert seconds("T4", "exp", [double], [double]) > 1.5 * seconds("T4", "neg", [double], [double])


def test_the_tf32_switches_matter_where_there_is_tf32_and_only_for_float32() -> None:
    assert product_s("A100", 4096, tf32=True) < 0.3 * product_s("A100", 4096)
    for without in ("P100", "T4"):
        assert product_s(without, 4096, tf32=True) == product_s(without, 4096)
    assert product_s("A100", 4096, "float16", tf32=True) == product_s("A100", 4096, "float16")
    images, weights, made = tensor(32, 128, 58, 58), tensor(256, 128, 3, 3), tensor(32, 256, 56, 56)

    def convolution_s(gpu: str, allowed: bool) -> float:
        return seconds(gpu, "convolution", [images, weights], [made], convolution_tf32=allowed)

    assert convolution_s("A100", True) < 0.7 * convolution_s("A100", False)
    assert convolution_s("T4", True) == convolution_s("T4", False)


def test_operators_are_priced_by_their_bytes_in_place_or_not() -> None:
    large = tensor(2**26)
    result = price(gpu_spec("A100"), "mine::something.new", [large, large], [large])
    assert result == price(gpu_spec("A100"), "aten.add.Tensor", [large, large], [large])
    large = tensor(2**24)
    assert seconds("T4", "aten.add_.Tensor", [large, large], [large]) == seconds("T4", "add", [large, large], [large])
    table, indices, rows = tensor(10**6, 256), tensor(128, dtype="int64"), tensor(128, 256)
    assert seconds("T4", "embedding", [table, indices], [rows]) < 10e-6


def test_small_kernels_use_the_cache_and_leave_room() -> None:
    small, large = tensor(2**20), tensor(2**26)
    floor = seconds("A100", "relu", [tensor(1)], [tensor(1)])
    assert 100 * (seconds("A100", "relu", [small], [small]) - floor) < seconds("A100", "relu", [large], [large])
    small, large = tensor(64, 64), tensor(8192, 8192)
    assert price(gpu_spec("A100"), "mm", [small, small], [small]).fill < 0.1
    assert price(gpu_spec("A100"), "mm", [large, large], [large]).fill == 1
    assert price(gpu_spec("A100"), "relu", [small], [small]).fill < 0.01


def test_blocks_fill_the_gpu_in_whole_waves() -> None:
    one_wave, two_waves = (
        seconds("A100", "bmm", [tensor(blocks, 128, 256), tensor(blocks, 256, 128)], [tensor(blocks, 128, 128)])
        for blocks in (108, 109)
    )
    assert two_waves > 1.1 * one_wave


def test_norms_scans_and_softmaxes_of_few_long_rows_take_longer() -> None:
    norm = seconds("H100", "native_layer_norm", [tensor(16, 2**22)], [tensor(16, 2**22), tensor(16, 1), tensor(16, 1)])
    many_norms = seconds("H100", "native_layer_norm", [tensor(2**16, 1024)], [tensor(2**16, 1024), tensor(2**16, 1)])
    assert norm > 10 * many_norms
    few, many = tensor(16, 2**16), tensor(2**12, 2**8)
    assert seconds("H100", "cumsum", [few], [few]) > 5 * seconds("H100", "cumsum", [many], [many])
    short, long = tensor(2**18, 512), tensor(2**12, 2**15)
    assert prod(short[0]) == prod(long[0])
    assert seconds("A100", "_softmax", [long], [long]) > 1.7 * seconds("A100", "_softmax", [short], [short])


def test_fused_attention_is_cheaper_than_its_parts_and_than_float32() -> None:
    shape, scores = (8, 16, 2048, 64), tensor(128, 2048, 2048, dtype="float16")
    half, single = tensor(*shape, dtype="float16"), tensor(*shape)
    fused = seconds("A100", "aten._scaled_dot_product_flash_attention.default", [half, half, half], [half])
    assert fused < 0.3 * seconds("A100", "aten._scaled_dot_product_efficient_attention.default", [single] * 3, [single])
    query, key = tensor(128, 2048, 64, dtype="float16"), tensor(128, 64, 2048, dtype="float16")
    parts = 2 * seconds("A100", "bmm", [query, key], [scores]) + seconds("A100", "_softmax", [scores], [scores])
    assert fused < 0.7 * parts


def test_groups_and_transposition_are_read_off_the_shapes() -> None:
    from gpututor.devices.virtual.cost.convolutions import describe_convolution

    plain = describe_convolution(tensor(2, 32, 9, 9), tensor(64, 32, 3, 3), tensor(2, 64, 7, 7), 0)
    assert (plain.groups, plain.channels_in, plain.channels_out, plain.transposed) == (1, 32, 64, False)
    grouped = describe_convolution(tensor(2, 32, 9, 9), tensor(64, 8, 3, 3), tensor(2, 64, 7, 7), 0)
    assert (grouped.groups, grouped.channels_in, grouped.channels_out) == (4, 8, 16)
    back = describe_convolution(tensor(2, 32, 9, 9), tensor(32, 64, 3, 3), tensor(2, 64, 11, 11), 0)
    assert (back.groups, back.channels_in, back.channels_out, back.transposed) == (1, 32, 64, True)
    square = describe_convolution(tensor(2, 8, 9, 9), tensor(8, 8, 3, 3), tensor(2, 8, 11, 11), 2 * 2 * 8 * 81 * 8 * 9)
    assert square.transposed


def test_a_convolutions_bias_and_gradient_are_other_kernels() -> None:
    images, weights, made, bias = tensor(64, 64, 58, 58), tensor(64, 64, 3, 3), tensor(64, 64, 56, 56), tensor(64)
    without, with_ = (seconds("A100", "convolution", [images, weights, *more], [made]) for more in ([], [bias]))
    assert with_ - without == pytest.approx(seconds("A100", "add_", [made, bias], [made]), rel=0.05)
    without, with_ = (
        seconds("A100", "convolution_backward", [made, images, weights], [images, weights, *more])
        for more in ([], [bias])
    )
    assert with_ - without == pytest.approx(seconds("A100", "sum", [made], [bias]), rel=0.1)
    images, weights, made = tensor(32, 64, 58, 58), tensor(64, 64, 3, 3), tensor(32, 64, 56, 56)
    forward = seconds("A100", "convolution", [images, weights], [made])
    both = seconds("A100", "convolution_backward", [made, images, weights], [images, weights, tensor(64)])
    assert 2 * forward < both < 4 * forward


def test_the_model_needs_no_torch() -> None:
    code = (
        "import sys; from gpututor.devices.virtual.cost.kernel import price\n"
        "from gpututor.hardware.gpus import gpu_spec\n"
        "price(gpu_spec('T4'), 'mm', [((9, 9), 'float32')] * 2, [((9, 9), 'float32')])\n"
        "assert 'torch' not in sys.modules"
    )
    assert printed("-c", code) == ""


def test_adjacent_channels_make_convolutions_on_tensor_cores_faster() -> None:
    def duration(dtype: torch.dtype, layout: torch.memory_format) -> int:
        with virtual_gpu(model="T4", recorder=Recorder()) as machine:
            image = torch.zeros(4, 64, 28, 28, device="cuda", dtype=dtype).contiguous(memory_format=layout)
            weight = torch.zeros(64, 64, 3, 3, device="cuda", dtype=dtype)
            torch.nn.functional.conv2d(image, weight)
        return next(event.end - event.start for event in machine.recorder.complete() if "conv" in event.name)

    half = [duration(torch.float16, layout) for layout in (torch.channels_last, torch.contiguous_format)]
    single = [duration(torch.float32, layout) for layout in (torch.channels_last, torch.contiguous_format)]
    assert half[0] < half[1]
    assert single[0] == single[1]


def test_a_transposed_first_factor_gets_another_kernel_on_gpus_with_large_tiles() -> None:
    def duration(model: str, *, transposed: bool) -> int:
        with virtual_gpu(model=model, recorder=Recorder(), values=False) as machine:
            left = torch.zeros(8192, 2048, device="cuda").T if transposed else torch.zeros(2048, 8192, device="cuda")
            _ = left @ torch.zeros(8192, 4096, device="cuda")
        return next(event.end - event.start for event in machine.recorder.complete() if event.name == "aten::mm")

    assert duration("H100 PCIe", transposed=True) < 0.9 * duration("H100 PCIe", transposed=False)
    assert duration("T4", transposed=True) == duration("T4", transposed=False)


def test_depthwise_windows_that_are_no_squares_take_longer() -> None:
    def seconds(*window: int) -> float:
        image, weight = ((16, 64, 128, 128), "float32"), ((64, 1, *window), "float32")
        return price(gpu_spec("T4"), "convolution", [image, weight], [image]).seconds

    assert seconds(3, 3) < seconds(1, 9)


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


def test_distances_have_the_flops_of_pairs_and_cost_more_than_products() -> None:
    assert contraction_flops("_cdist_forward", [tensor(4, 5, 7), tensor(4, 6, 7)], [tensor(4, 5, 6)]) == 3 * 4 * 30 * 7
    assert contraction_flops("_pdist_forward", [tensor(5, 7)], [tensor(10)]) == 3 * 10 * 7
    assert contraction_flops("_euclidean_dist", [tensor(5, 7), tensor(6, 7)], [tensor(5, 6)]) == 2 * 30 * 9
    product = ms("mm", [ROWS, tensor(256, 2048)], [SQUARE])
    assert product < ms("_euclidean_dist", [ROWS, ROWS], [SQUARE]) < 2 * product
    assert ms("_cdist_forward", [ROWS, ROWS], [SQUARE]) > 3 * product


def test_scans_of_rows_columns_and_a_single_row_differ() -> None:
    large = tensor(10**8)
    copied = ms("relu", [large], [large])
    for name in ("cumsum", "cumprod", "logcumsumexp"):
        assert copied < ms(name, [large], [large], dim=0) < 1.3 * copied
    # Places beside the values: one block for each row, however long.
    assert ms("cummax", [large], [large, tensor(10**8, dtype="int64")], dim=0) > 20 * copied
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


def test_solving_and_iterating_take_what_they_do_on_an_a100() -> None:
    square, vector = tensor(4096, 4096), tensor(4096)
    assert 9 < ms("_linalg_solve_ex", [square, vector], [vector]) < 16
    assert 6 < ms("linalg_solve_triangular", [square, square], [square]) < 11
    assert ms("linalg_solve_triangular", [square, tensor(4096, 1)], [tensor(4096, 1)]) < 2
    square = tensor(1024, 1024)
    assert 200 < ms("_linalg_svd", [square], [square]) < 1000
    assert 40 < ms("_linalg_eigh", [square], [square]) < 100


@pytest.mark.parametrize("gpu", ["T4", "A100", "H100"])
@pytest.mark.parametrize("size", [256, 1024, 4096])
def test_factorizations_cost_in_the_order_of_their_work(size: int, gpu: str) -> None:
    square = tensor(size, size)
    order = ["linalg_solve_triangular", "linalg_cholesky_ex", "linalg_lu_factor_ex", "linalg_inv_ex", "linalg_qr"]
    order += ["_linalg_eigh", "_linalg_svd", "linalg_pinv"]
    results = [ms(name, [square, tensor(size)] if "solve" in name else [square], [square], gpu) for name in order]
    assert results == sorted(results)


def test_small_matrices_of_a_batch_are_factored_side_by_side() -> None:
    single, many = tensor(16, 16), tensor(100, 16, 16)
    for name in ("linalg_cholesky_ex", "_linalg_eigh", "_linalg_svd"):
        assert ms(name, [many], [many]) < 3 * ms(name, [single], [single])
    large = tensor(100, 64, 64)
    assert ms("_linalg_svd", [large], [large]) > 50 * ms("_linalg_svd", [tensor(64, 64)], [tensor(64, 64)])


def test_searches_and_permutations_cost_parts_of_a_sort() -> None:
    assert 1 < ms("randperm", [], [tensor(10**7, dtype="int64")]) < 3
    large, few = tensor(10**8), tensor(10)
    ordered = ms("sort", [large], [large, tensor(10**8, dtype="int64")])
    assert 0.15 < ms("topk", [large], [few, tensor(10, dtype="int64")]) / ordered < 0.35
    assert ms("topk", [large], [large, tensor(10**8, dtype="int64")]) <= ordered
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
