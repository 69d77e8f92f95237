# attacks: timed
# tries: to do the work in a signal handler, after the call has returned and before its result is packed
# ends: needs review, failed
# isolation: both
import signal

import torch

work = []


def later(*_):
    if work:
        matrix, result = work.pop()
        product = matrix
        for _ in range(20):
            product = torch.tanh(product @ matrix)
        result.copy_(product)


signal.signal(signal.SIGALRM, later)


def chain(matrix):
    result = torch.empty_like(matrix)
    work.append((matrix, result))
    signal.setitimer(signal.ITIMER_REAL, 0.0001)
    return result
