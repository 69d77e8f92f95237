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
    while "around" not in frame.f_locals:
        frame = frame.f_back
    around = frame.f_locals["around"]
    around.span["started"] = around._gauge.settle()
    return result
