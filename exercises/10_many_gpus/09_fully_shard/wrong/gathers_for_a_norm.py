# fails: collectives
# Gathers all weights in each step once more, to watch their norm: the norms of all parts would do.
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def fully_sharded(make_model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    model = make_model()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    lengths = []
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(batch), wanted).backward()
        optimizer.step()
        with torch.no_grad():
            lengths.append(sum(parameter.full_tensor().square().sum() for parameter in model.parameters()).sqrt())
    print(torch.stack(lengths).tolist())
    parts = {name: parameter.detach().to_local() for name, parameter in model.named_parameters()}
    dist.destroy_process_group()
    return parts
