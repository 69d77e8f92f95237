# fails: parity
# Gives masked lanes a number that is small, but larger than some rows.
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    inside = at < columns
    row = tl.program_id(0) * columns
    x = tl.load(x_ptr + row + at, mask=inside, other=-200.0)
    powers = tl.exp(x - tl.max(x, axis=0))
    softmax = powers / tl.sum(powers, axis=0)
    tl.store(out_ptr + row + at, softmax, mask=inside)


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    rows, columns = x.shape
    size = triton.next_power_of_2(columns)
    softmax_kernel[(rows,)](x, out, columns, SIZE=size)
    return out
