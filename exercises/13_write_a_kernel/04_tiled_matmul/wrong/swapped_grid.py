# fails: parity
# Swaps the two dimensions of the grid.
import torch
import triton
import triton.language as tl

TILE = 32


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, m, n, k, SIZE: tl.constexpr):
    row = (tl.program_id(0) * SIZE + tl.arange(0, SIZE))[:, None]
    column = (tl.program_id(1) * SIZE + tl.arange(0, SIZE))[None, :]
    total = tl.zeros([SIZE, SIZE], tl.float32)
    for first in range(0, k, SIZE):
        across = first + tl.arange(0, SIZE)[None, :]
        down = first + tl.arange(0, SIZE)[:, None]
        in_a, in_b = (row < m) & (across < k), (down < k) & (column < n)
        a = tl.load(a_ptr + row * k + across, mask=in_a, other=0.0)
        b = tl.load(b_ptr + down * n + column, mask=in_b, other=0.0)
        total += tl.dot(a, b)
    inside = (row < m) & (column < n)
    tl.store(out_ptr + row * n + column, total, mask=inside)


def tiled_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    out = a.new_empty(m, n)
    grid = (triton.cdiv(n, TILE), triton.cdiv(m, TILE))
    matmul_kernel[grid](a, b, out, m, n, k, SIZE=TILE)
    return out
