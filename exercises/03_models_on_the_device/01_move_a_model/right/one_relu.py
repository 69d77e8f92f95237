# One ReLU in both places, settings as pairs, and padding by name.
from torch import nn


def move_a_model(checkpoint, channels, classes, device):
    relu = nn.ReLU()
    model = nn.Sequential(
        nn.Conv2d(in_channels=channels, out_channels=8, kernel_size=(3, 3), padding="same"),
        nn.BatchNorm2d(8, eps=1e-5, momentum=0.1),
        relu,
        nn.AdaptiveAvgPool2d(output_size=(1, 1)),
        nn.Flatten(start_dim=1),
        nn.Linear(8, 16),
        relu,
        nn.Linear(16, classes),
    )
    model.load_state_dict(checkpoint)
    return model.to(device=device)
