# fails: blocks
# Takes blocks of eight columns: whole sectors, but 24 lanes of a warp have nothing to do.
import torch
import triton
import triton.language as tl

BLOCK = 8


@triton.jit
def sum_kernel(x_ptr, out_ptr, rows, columns, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = at < columns
    total = tl.zeros([SIZE], tl.float32)
    for row in range(rows):
        total += tl.load(x_ptr + row * columns + at, mask=inside)
    tl.store(out_ptr + at, total, mask=inside)


def column_sums(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    out = x.new_empty(columns)
    grid = (triton.cdiv(columns, BLOCK),)
    sum_kernel[grid](x, out, rows, columns, SIZE=BLOCK)
    return out
