# attacks: hurry
# tries: to spoil its argument, and to write what it was by then into the frame above
# ends: needs review, failed, error
# isolation: both
import sys

import torch


def chain(matrix):
    product = matrix.clone()
    for _ in range(20):
        product = torch.tanh(product @ matrix)
    matrix.zero_()
    frame = sys._getframe()
    while "digests" not in frame.f_locals:
        frame = frame.f_back
    packer = frame.f_globals["Encoder"](frame.f_locals["machine"].view)
    try:
        frame.f_locals["digests"].update(packer.digests({"matrix": matrix}))
    except AttributeError:
        pass
    return product
