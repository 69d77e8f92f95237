# Tiles of 32 x 64.
import torch
import triton
import triton.language as tl

ROWS, COLUMNS, STEP = 32, 64, 32


@triton.jit
def layer_kernel(
    x_ptr, w_ptr, bias_ptr, residual_ptr, out_ptr, m, n, k,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, k, STEP):
        across = first + tl.arange(0, STEP)[None, :]
        down = first + tl.arange(0, STEP)[:, None]
        in_x, in_w = (row < m) & (across < k), (down < k) & (column < n)
        x = tl.load(x_ptr + row * k + across, mask=in_x, other=0.0)
        w = tl.load(w_ptr + down * n + column, mask=in_w, other=0.0)
        total += tl.dot(x, w)
    inside = (row < m) & (column < n)
    at = row * n + column
    bias = tl.load(bias_ptr + column, mask=column < n)
    total = tl.maximum(total + bias, 0.0)
    total += tl.load(residual_ptr + at, mask=inside)
    tl.store(out_ptr + at, total, mask=inside)


def residual_layer(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    residual: torch.Tensor,
) -> torch.Tensor:
    (m, k), n = x.shape, weight.shape[1]
    out = torch.empty_like(residual)
    grid = (triton.cdiv(m, ROWS), triton.cdiv(n, COLUMNS))
    tensors = (x, weight, bias, residual, out)
    layer_kernel[grid](*tensors, m, n, k, ROWS=ROWS, COLUMNS=COLUMNS, STEP=STEP)
    return out
