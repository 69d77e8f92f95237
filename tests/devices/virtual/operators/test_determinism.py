"""`torch.use_deterministic_algorithms` on the virtual GPU."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.operator_facts import tables
from gpututor.devices.virtual.operators import shape_only
from gpututor.devices.virtual.operators.determinism import documented


@pytest.fixture(autouse=True)
def _deterministic() -> Iterator[None]:
    with virtual_gpu():
        torch.use_deterministic_algorithms(True)
        yield
        torch.use_deterministic_algorithms(False)


def ones(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(sizes, dtype=dtype, device="cuda")


def index(*values: int) -> torch.Tensor:
    return torch.tensor(values, device="cuda")


def backward(layer: Callable[[torch.Tensor], Any], *sizes: int) -> None:
    layer(ones(*sizes).requires_grad_()).sum().backward()


def bag(mode: str) -> None:
    nn.EmbeddingBag(4, 3, mode=mode, device="cuda")(index(0, 1).view(1, 2)).sum().backward()


def nll_loss(reduction: str) -> torch.Tensor:
    return F.nll_loss(ones(1, 3, 2, 2), torch.zeros(1, 2, 2, dtype=torch.long, device="cuda"), reduction=reduction)


RAISES: dict[str, Callable[[], Any]] = {
    "avg_pool3d_backward_cuda": lambda: backward(nn.AvgPool3d(3), 2, 3, 3, 3),
    "adaptive_avg_pool2d_backward_cuda": lambda: backward(nn.AdaptiveAvgPool2d(3), 1, 2, 5, 5),
    "adaptive_avg_pool3d_backward_cuda": lambda: backward(nn.AdaptiveAvgPool3d(3), 1, 2, 5, 5, 5),
    "adaptive_max_pool2d_backward_cuda": lambda: backward(nn.AdaptiveMaxPool2d(3), 1, 2, 5, 5),
    "fractional_max_pool2d_backward_cuda": lambda: backward(nn.FractionalMaxPool2d(2, output_ratio=0.5), 1, 2, 5, 5),
    "upsample_linear1d_backward_out_cuda": lambda: backward(lambda x: F.interpolate(x, 12, mode="linear"), 1, 2, 4),
    "upsample_bicubic2d_backward_out_cuda": lambda: backward(
        lambda x: F.interpolate(x, 12, mode="bicubic"), 1, 2, 4, 4
    ),
    "reflection_pad1d_backward_out_cuda": lambda: backward(nn.ReflectionPad1d(1), 2, 3, 8),
    "reflection_pad2d_backward_cuda": lambda: backward(nn.ReflectionPad2d(1), 2, 3, 8, 8),
    "nll_loss2d_forward_out_cuda_template": lambda: nll_loss("mean"),
    "embedding_bag_backward_cuda_max": lambda: bag("max"),
    "put_": lambda: ones(4).put_(index(0), ones(1), accumulate=True),
    "_histc_cuda": lambda: ones(4).histc(2),
    "_bincount_cuda": lambda: index(0, 1).bincount(ones(2)),
    "median CUDA with indices output": lambda: ones(4).median(0),
    "grid_sampler_2d_backward_cuda": lambda: backward(
        lambda x: F.grid_sample(x, torch.zeros(1, 2, 2, 2, device="cuda"), align_corners=False), 1, 1, 4, 4
    ),
    "scatter_reduce_cuda_kernel": lambda: ones(4).scatter_reduce(0, index(0, 1), ones(2), "prod"),
    "max_unpooling2d_forward_out": lambda: nn.MaxUnpool2d(2)(ones(1, 1, 2, 2), ones(1, 1, 2, 2, dtype=torch.long)),
}


@pytest.mark.parametrize("caller", RAISES)
def test_an_operator_without_a_deterministic_kernel_raises_cudas_error(caller: str) -> None:
    with pytest.raises(RuntimeError, match=f"^{re.escape(caller)} does not have a deterministic implementation"):
        RAISES[caller]()


@pytest.mark.parametrize("caller", RAISES)
def test_warn_only_warns_once_at_the_callers_line_and_computes(caller: str) -> None:
    shape_only._forecasts.clear()  # the first call of a size infers shapes
    torch.use_deterministic_algorithms(True, warn_only=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        RAISES[caller]()
    alerts = [warning for warning in caught if str(warning.message).startswith(f"{caller} does not have")]
    assert [warning.category for warning in alerts] == [UserWarning]


@pytest.mark.parametrize(
    "run",
    [
        lambda: bag("sum"),
        lambda: nll_loss("none"),
        lambda: index(0, 1).bincount(),
        lambda: ones(4).median(),
        lambda: ones(4).cumsum(0),
        lambda: ones(4).scatter_reduce(0, index(0, 1), ones(2), "sum"),
        lambda: ones(2, 2) @ ones(2, 2),
        lambda: ones(3).index_add(0, index(0, 0), ones(2)),
        lambda: backward(nn.Conv2d(1, 1, 3, device="cuda"), 1, 1, 5, 5),
    ],
)
def test_a_deterministic_call_runs(run: Callable[[], Any]) -> None:
    run()


@pytest.mark.parametrize("caller", RAISES)
def test_without_the_setting_every_operator_runs(caller: str) -> None:
    torch.use_deterministic_algorithms(False)
    RAISES[caller]()


def test_each_documented_operator_has_a_row() -> None:
    """The CPU's own kernels raise for max_unpool; there are no quantized tensors on CUDA.

    The documentation still lists cumsum, but CUDA's kernel no longer raises (ATen/native/cuda/ScanKernels.cpp).
    """
    rows = {listed for _, listed in tables()["nondeterministic"].values()}
    others = {"MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "interpolate", "resize_", "weights", "cumsum"}
    assert documented() - others <= rows
