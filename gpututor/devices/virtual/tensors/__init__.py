"""Tensors on a virtual GPU: their class, text, storages, copies and files."""
