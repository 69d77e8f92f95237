# fails: traffic
# Loads the row for the maximum, for the sum, and for the quotient.
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    inside = at < columns
    row = tl.program_id(0) * columns
    pointers, least = x_ptr + row + at, float("-inf")
    largest = tl.max(tl.load(pointers, mask=inside, other=least), axis=0)
    powers = tl.exp(tl.load(pointers, mask=inside, other=least) - largest)
    total = tl.sum(powers, axis=0)
    powers = tl.exp(tl.load(pointers, mask=inside, other=least) - largest)
    softmax = powers / total
    tl.store(out_ptr + row + at, softmax, mask=inside)


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    rows, columns = x.shape
    size = triton.next_power_of_2(columns)
    softmax_kernel[(rows,)](x, out, columns, SIZE=size)
    return out
