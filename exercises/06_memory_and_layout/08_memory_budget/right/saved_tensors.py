# Runs the forward pass on the CPU, and adds up the storages that autograd saves.
import copy

import torch


def memory_budget(model, rows, optimizer):
    model = copy.deepcopy(model)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    batch = torch.ones(rows, model[0].in_features, dtype=model[0].weight.dtype)
    there = {tensor.untyped_storage().data_ptr() for tensor in (batch, *model.parameters())}
    kept = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in there:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        model(batch).square().mean()
    state = {"sgd": 0, "momentum": weights, "adam": 2 * weights}[optimizer]
    return {"weights": weights, "activations": sum(kept.values()), "gradients": weights, "optimizer": state}
