# Maps one call over stacked states.
import torch
from torch.func import functional_call, stack_module_state


@torch.no_grad()
def ensemble(models, batch):
    states, buffers = stack_module_state(models)

    def call(state):
        return functional_call(models[0], (state, buffers), (batch,))

    return torch.vmap(call)(states).mean(dim=0)
