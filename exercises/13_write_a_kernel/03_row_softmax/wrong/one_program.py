# fails: programs
# One program goes through all rows; the rest of the GPU has nothing to do.
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, columns, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    inside = at < columns
    for number in range(rows):
        row = number * columns
        x = tl.load(x_ptr + row + at, mask=inside, other=float("-inf"))
        powers = tl.exp(x - tl.max(x, axis=0))
        softmax = powers / tl.sum(powers, axis=0)
        tl.store(out_ptr + row + at, softmax, mask=inside)


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    rows, columns = x.shape
    softmax_kernel[(1,)](x, out, rows, columns, SIZE=triton.next_power_of_2(columns))
    return out
