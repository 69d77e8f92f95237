# fails: memory
# Trains with DDP, and cuts the weights when it is done.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def fully_sharded(make_model, inputs, targets, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    model = make_model()
    network = DistributedDataParallel(model.cuda(), device_ids=[rank], gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for batch, wanted in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(network(batch), wanted).backward()
        optimizer.step()
    parts = {name: parameter.detach().chunk(world_size)[rank].clone() for name, parameter in model.named_parameters()}
    dist.destroy_process_group()
    return parts
