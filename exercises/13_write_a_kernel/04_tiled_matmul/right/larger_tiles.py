# Tiles of 64 x 32, and steps of 16 along k.
import torch
import triton
import triton.language as tl

ROWS, COLUMNS, STEP = 64, 32, 16


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, k, STEP):
        across = first + tl.arange(0, STEP)[None, :]
        down = first + tl.arange(0, STEP)[:, None]
        in_a, in_b = (row < m) & (across < k), (down < k) & (column < n)
        a = tl.load(a_ptr + row * k + across, mask=in_a, other=0.0)
        b = tl.load(b_ptr + down * n + column, mask=in_b, other=0.0)
        total += tl.dot(a, b)
    inside = (row < m) & (column < n)
    tl.store(out_ptr + row * n + column, total, mask=inside)


def tiled_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    out = a.new_empty(m, n)
    grid = (triton.cdiv(m, ROWS), triton.cdiv(n, COLUMNS))
    matmul_kernel[grid](a, b, out, m, n, k, ROWS=ROWS, COLUMNS=COLUMNS, STEP=STEP)
    return out
