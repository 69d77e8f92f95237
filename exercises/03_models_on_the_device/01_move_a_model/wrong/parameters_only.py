# fails: placement
# Moves every parameter; the running statistics of BatchNorm2d are buffers and stay behind.
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
    model.load_state_dict(checkpoint)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(device)
    return model
