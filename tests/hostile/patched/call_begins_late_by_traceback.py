# attacks: hurry
# tries: to move the start of the call, by the frames of an exception's traceback
# ends: needs review, failed
# isolation: both
import torch


def slow(matrix):
    for _ in range(8):
        product = matrix
        for _ in range(20):
            product = torch.tanh(product @ matrix)
    return product


def chain(matrix):
    result = slow(matrix)
    try:
        raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame
    while "measurement" not in frame.f_locals:
        frame = frame.f_back
    measurement = frame.f_locals["measurement"]
    measurement.span["started"] = measurement._meter.synchronize()
    return result
