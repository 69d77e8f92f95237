# fails: runs
# Tries sizes without a handler: the first batch that is too large raises an error.


def largest_batch(step, most):
    n = most
    while n:
        step(n)
        n //= 2
    return n
