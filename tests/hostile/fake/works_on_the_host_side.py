# attacks: hurry
# tries: to compute with the CPU tensor behind its argument, and to dress the result as one of the device
# ends: needs review, failed
# isolation: both
import numpy
import torch


def chain(matrix):
    values = matrix._host.numpy()
    product = values
    for _ in range(20):
        product = numpy.tanh(product @ values)
    return type(matrix)(torch.from_numpy(product), matrix.device)
