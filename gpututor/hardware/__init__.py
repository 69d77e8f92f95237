"""Descriptions of hardware: GPU models, the machine's real devices, and the scenario that an exercise asks for.

No module here imports torch. They import `errors`, `files`, `paths`, `processes` and `text` only.
"""
