# attacks: hurry
# tries: to move the start of the call to its end, in the object of a frame above
# ends: needs review, failed
# isolation: both
import sys

import torch


def slow(matrix):
    for _ in range(8):
        product = matrix
        for _ in range(20):
            product = torch.tanh(product @ matrix)
    return product


def chain(matrix):
    result = slow(matrix)
    frame = sys._getframe()
    while "measurement" not in frame.f_locals:
        frame = frame.f_back
    measurement = frame.f_locals["measurement"]
    measurement.span["started"] = measurement._meter.synchronize()
    return result
