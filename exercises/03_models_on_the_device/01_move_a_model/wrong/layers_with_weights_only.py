# fails: placement
# Moves the layers that "have weights", and forgets the normalization.
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
    for layer in model:
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            layer.to(device)
    return model
