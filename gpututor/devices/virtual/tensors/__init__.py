"""Tensors on a virtual GPU: the class, its text, its names for devices, and how it moves."""
