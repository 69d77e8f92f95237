# fails: runs
# Leaves BatchNorm2d out, so that the names in the checkpoint and in the model differ.
from torch import nn


def move_a_model(checkpoint, channels, classes, device):
    model = nn.Sequential(
        nn.Conv2d(channels, 8, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 16),
        nn.ReLU(),
        nn.Linear(16, classes),
    )
    model.load_state_dict(checkpoint)
    return model.to(device)
