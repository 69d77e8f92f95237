# fails: parity
# Everything is on the device, but the checkpoint was never loaded.
from torch import nn


def move_a_model(checkpoint, channels, classes, device):
    model = nn.Sequential(
        nn.Conv2d(channels, 8, kernel_size=3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 16),
        nn.ReLU(),
        nn.Linear(16, classes),
    )
    return model.to(device)
