# One dimension of programs, pointers that move on, and strides as arguments.
import triton
import triton.language as tl

TILE = 32


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, m, n, k, a_row, b_row, SIZE: tl.constexpr):
    across = tl.cdiv(n, SIZE)
    rows = tl.program_id(0) // across * SIZE + tl.arange(0, SIZE)
    columns = tl.program_id(0) % across * SIZE + tl.arange(0, SIZE)
    steps = tl.arange(0, SIZE)
    a_at = a_ptr + rows[:, None] * a_row + steps[None, :]
    b_at = b_ptr + steps[:, None] * b_row + columns[None, :]
    total = tl.zeros([SIZE, SIZE], tl.float32)
    for step in range(tl.cdiv(k, SIZE)):
        left = k - step * SIZE
        a = tl.load(a_at, mask=(rows[:, None] < m) & (steps[None, :] < left), other=0.0)
        b = tl.load(b_at, mask=(steps[:, None] < left) & (columns[None, :] < n), other=0.0)
        total = tl.dot(a, b, acc=total)
        a_at += SIZE
        b_at += SIZE * b_row
    at = out_ptr + rows[:, None] * n + columns[None, :]
    tl.store(at, total, mask=(rows[:, None] < m) & (columns[None, :] < n))


def tiled_matmul(a, b):
    (m, k), n = a.shape, b.shape[1]
    out = a.new_empty(m, n)
    grid = (triton.cdiv(m, TILE) * triton.cdiv(n, TILE),)
    matmul_kernel[grid](a, b, out, m, n, k, a.stride(0), b.stride(0), SIZE=TILE)
    return out
