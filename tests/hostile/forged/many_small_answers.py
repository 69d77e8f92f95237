# attacks: patience
# tries: ten thousand tiny frames of nonsense events, to confuse code that counts answers
# ends: failed, error, timeout, needs review
# isolation: both
import json
import os
import struct


def scores(table, queries, device):
    for number in range(10_000):
        text = json.dumps({"event": f"passed {number}", "buffers": []}).encode()
        for descriptor in range(3, 8):
            try:
                os.write(descriptor, struct.pack(">4sI", b"GPT1", len(text)) + text)
            except OSError:
                pass
    return None
