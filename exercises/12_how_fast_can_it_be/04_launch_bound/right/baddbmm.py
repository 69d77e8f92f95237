# Adds the biases within the products.
import torch


def stacked(layers):
    weight = torch.stack([layer.weight for layer in layers])
    bias = torch.stack([layer.bias for layer in layers])
    return weight.transpose(1, 2), bias[:, None]


@torch.inference_mode()
def ensemble(models, batch):
    weight, bias = stacked([model[0] for model in models])
    inputs = batch.expand(len(models), *batch.shape)
    hidden = torch.baddbmm(bias, inputs, weight).relu_()
    weight, bias = stacked([model[2] for model in models])
    return torch.baddbmm(bias, hidden, weight).mean(dim=0)
