# fails: parity
# Takes the softmax over each column.
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, columns, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    inside = at < rows
    row = tl.program_id(0)
    x = tl.load(x_ptr + row + at * columns, mask=inside, other=float("-inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    softmax = powers / tl.sum(powers, axis=0)
    tl.store(out_ptr + row + at * columns, softmax, mask=inside)


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    rows, columns = x.shape
    size = triton.next_power_of_2(rows)
    softmax_kernel[(columns,)](x, out, rows, columns, SIZE=size)
    return out
