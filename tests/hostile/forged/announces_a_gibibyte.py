# attacks: patience
# tries: to announce a frame of 60 MiB and a buffer of 500 MiB, and never to send them
# ends: timeout, error, needs review
# isolation: both
import os
import select
import struct


def scores(table, queries, device):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, struct.pack(">4sI", b"GPT1", 60 << 20) + b"{")
        except OSError:
            pass
    select.select([], [], [], 60)
