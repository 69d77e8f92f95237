# attacks: timed
# tries: to do ten times the work on the CPU in a thread of the lowest kind, and to wait for it without a call that waits
# ends: too slow
# isolation: both
import _thread

import torch


def chain(matrix):
    done = []

    def work():
        host = matrix.cpu()
        for _ in range(10):
            product = host
            for _ in range(20):
                product = torch.tanh(product @ host)
        done.append(product)

    _thread.start_new_thread(work, ())
    while not done:
        pass
    return done[0].to(matrix.device)
