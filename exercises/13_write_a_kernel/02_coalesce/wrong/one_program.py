# fails: programs
# One program takes all columns; the rest of the GPU has nothing to do.
import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, rows, columns, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    inside = at < columns
    total = tl.zeros([SIZE], tl.float32)
    for row in range(rows):
        total += tl.load(x_ptr + row * columns + at, mask=inside)
    tl.store(out_ptr + at, total, mask=inside)


def column_sums(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    out = x.new_empty(columns)
    sum_kernel[(1,)](x, out, rows, columns, SIZE=triton.next_power_of_2(columns))
    return out
