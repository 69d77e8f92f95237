# fails: parity
# Forgets to normalize the features.
import torch


def tower(x, layers):
    for layer in layers:
        x = x @ layer
    return torch.tanh(x)


def two_towers(features, left, right):
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        of_right = tower(features, right)
    of_left = tower(features, left)
    main.wait_stream(side)
    of_right.record_stream(main)
    return (of_left * of_right).sum(dim=1)
