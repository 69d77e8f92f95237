# fails: runs
# Looks for the size without a handler: the first batch that is too large ends it.


def largest_batch(step, most):
    n = most
    while n:
        step(n)
        n //= 2
    return n
