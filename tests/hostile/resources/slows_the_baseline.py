# attacks: timed
# tries: to look fast beside a baseline that busy processes slow down while it is timed; its own work takes thrice as long
# ends: too slow, inconclusive
# isolation: both
# device: cpu
import os
import time

import torch


def busy(until):
    while time.monotonic() < until:
        pass


for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            busy(time.monotonic() + 60)
        os._exit(0)


def chain(matrix):
    for _ in range(3):
        product = matrix
        for _ in range(20):
            product = torch.tanh(product @ matrix)
    return product
