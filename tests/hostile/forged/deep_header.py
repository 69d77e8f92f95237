# attacks: scores
# tries: a header nested 100,000 deep, which breaks a careless parser's stack
# ends: error, needs review
# isolation: both
import os
import struct


def scores(table, queries, device):
    text = b'{"event":"returned","output":' + b'{"k":"list","v":[' * 20_000 + b"]}" * 20_000 + b',"buffers":[]}'
    for descriptor in range(3, 64):
        try:
            os.set_blocking(descriptor, True)
            os.write(descriptor, struct.pack(">4sI", b"GPT1", len(text)) + text)
        except OSError:
            pass
    os._exit(0)
