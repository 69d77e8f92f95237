# attacks: scores
# tries: nothing: it wraps its function
# ends: passed
# isolation: both
import functools

import torch


def without_gradients(function):
    @functools.wraps(function)
    def wrapped(*arguments, **named):
        with torch.no_grad():
            return function(*arguments, **named)

    return wrapped


@torch.inference_mode()
@without_gradients
def scores(table, queries, device):
    return (table.to(device) @ queries.to(device).T).relu()
