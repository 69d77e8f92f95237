# fails: no_graph
# Scores with autograd on, so the graph keeps all activations.
from torch import nn


def conv_net(weights, images, classes, device):
    channels, height, width = images.shape[1:]
    rows, columns = ((side // 2 - 2) // 2 for side in (height, width))
    model = nn.Sequential(
        nn.Conv2d(channels, 8, kernel_size=3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, kernel_size=3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * rows * columns, classes),
    )
    model.load_state_dict(weights)
    model.to(device).eval()
    return model(images.to(device))
