"""Operators of SyncBatchNorm on one virtual GPU: statistics of parts, combined."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from gpututor.devices.virtual import virtual_gpu

EPS = 1e-5


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with virtual_gpu():
        yield


@pytest.mark.parametrize("counted", [True, False], ids=["counts", "count"])
def test_statistics_of_parts_add_up_to_those_of_the_whole(counted: bool) -> None:
    values = torch.randn(4, 3, 5, device="cuda")
    means, inverse_stds = zip(*(torch.batch_norm_stats(part, EPS) for part in values.chunk(2)), strict=True)
    running_mean, running_var = torch.zeros(3, device="cuda"), torch.ones(3, device="cuda")
    parts = (values, torch.stack(means), torch.stack(inverse_stds), running_mean, running_var, 0.1, EPS)
    if counted:
        mean, inverse_std = torch.batch_norm_gather_stats_with_counts(*parts, torch.full((2,), 10.0, device="cuda"))
    else:
        mean, inverse_std = torch.batch_norm_gather_stats(*parts, 10)
    assert mean.device == torch.device("cuda:0")
    variance, expected = torch.var_mean(values, (0, 2), correction=0)
    torch.testing.assert_close(mean, expected)
    torch.testing.assert_close(inverse_std, torch.rsqrt(variance + EPS))
    torch.testing.assert_close(running_mean, 0.1 * expected)
    torch.testing.assert_close(running_var, 0.9 + 0.1 * values.var((0, 2)))
