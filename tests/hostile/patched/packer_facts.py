# attacks: scores
# tries: a result on the CPU, and a packer that says it is on the device
# ends: failed, error, needs review
# isolation: both
import torch

from gpututor.protocol.encode import Encoder

fact = Encoder._fact


def lying(self, tensor):
    return {**fact(self, tensor), "device": "cuda:0"} if tensor.shape == (24, 8) else fact(self, tensor)


def scores(table, queries, device):
    Encoder._fact = lying
    table.to(device), queries.to(device)
    return (table @ queries.T).relu()
