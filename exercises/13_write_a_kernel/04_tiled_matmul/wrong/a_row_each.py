# fails: traffic
# Gives each program a row of the result: it loads all of b.
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, n, k, SIZE: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, SIZE)
    inside = column < n
    total = tl.zeros([SIZE], tl.float32)
    for step in range(k):
        b = tl.load(b_ptr + step * n + column, mask=inside, other=0.0)
        total += tl.load(a_ptr + row * k + step) * b
    tl.store(out_ptr + row * n + column, total, mask=inside)


def tiled_matmul(a, b):
    (m, k), n = a.shape, b.shape[1]
    out = a.new_empty(m, n)
    matmul_kernel[(m,)](a, b, out, n, k, SIZE=triton.next_power_of_2(n))
    return out
