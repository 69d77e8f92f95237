"""Coalesce: sums of columns, loaded along the rows."""

import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def sum_kernel(x_ptr, out_ptr, rows, columns, SIZE: tl.constexpr):
    # TODO: take a block of columns, and let the lanes go along a row.
    column = tl.program_id(0)
    total = tl.zeros([SIZE], tl.float32)
    for first in range(0, rows, SIZE):
        row = first + tl.arange(0, SIZE)
        pointers = x_ptr + row * columns + column
        total += tl.load(pointers, mask=row < rows, other=0.0)
    tl.store(out_ptr + column, tl.sum(total, axis=0))


def column_sums(x: torch.Tensor) -> torch.Tensor:
    """The sum of each column of x (rows, columns)."""
    rows, columns = x.shape
    out = x.new_empty(columns)
    grid = (columns,)
    sum_kernel[grid](x, out, rows, columns, SIZE=BLOCK)
    return out


if __name__ == "__main__":
    if torch.cuda.is_available():
        x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda")
        print(column_sums(x))
    else:
        print("Triton kernels need a GPU, and there is none here.")
