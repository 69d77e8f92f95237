# fails: transfers
# Brings both results to the CPU, which waits for them, and moves the answer back.
import torch
import torch.nn.functional as F


def tower(x, layers):
    for layer in layers:
        x = x @ layer
    return torch.tanh(x)


def two_towers(features, left, right):
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    x = F.normalize(features, dim=1)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        of_right = tower(x, right).cpu()
    of_left = tower(x, left).cpu()
    return (of_left * of_right).sum(dim=1).to(features.device)
