# fails: share
# Both ranks go through the rows of both: the same training, and no time is saved.
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DistributedSampler


def distributed(model, dataset, batch_size, epochs, rank, world_size, init_method):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samplers = [DistributedSampler(dataset, num_replicas=world_size, rank=r) for r in range(world_size)]
    for epoch in range(epochs):
        for s in samplers:
            s.set_epoch(epoch)
        orders = [list(s) for s in samplers]
        for start in range(0, len(orders[0]), batch_size):
            rows = [i for order in orders for i in order[start : start + batch_size]]
            x = torch.stack([dataset[i][0] for i in rows]).cuda()
            y = torch.stack([dataset[i][1] for i in rows]).cuda()
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.all_reduce(torch.zeros(1, device="cuda"))
    dist.destroy_process_group()
    return model.state_dict()
