# fails: transfers
# Prints the loss in each step, which is a copy to the host and a wait.
from torch import nn


def split_the_model(model, cut, batch, targets):
    first, second = model[:cut].to("cuda:0"), model[cut:].to("cuda:1")
    hidden = first(batch.to("cuda:0"))
    outputs = second(hidden.to("cuda:1"))
    loss = nn.functional.mse_loss(outputs, targets.to("cuda:1"))
    print(loss)
    loss.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
