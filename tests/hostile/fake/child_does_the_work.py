# attacks: timed
# tries: to do the work many times over in a forked child, whose clock is another
# ends: inconclusive
# isolation: both
import os
import pickle

import torch


def chain(matrix):
    host = matrix.cpu().numpy()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        for _ in range(1000):
            product = host
            for _ in range(20):
                product = numpy_tanh(product @ host)
        with os.fdopen(writing, "wb") as out:
            pickle.dump(product, out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as given:
        product = pickle.load(given)
    os.waitpid(child, 0)
    return torch.from_numpy(product).to(matrix.device)


def numpy_tanh(values):
    import numpy

    return numpy.tanh(values)
