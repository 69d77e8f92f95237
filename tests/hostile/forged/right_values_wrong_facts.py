# attacks: scores
# tries: to send a frame of its own before the real one, with values computed on the CPU and a lie about their place
# ends: failed, error, needs review
# isolation: both
import gc
import json
import socket
import struct

import torch


def channel():
    sockets = [item for item in gc.get_objects() if isinstance(item, socket.socket) and item.fileno() > 2]
    return sockets[0].fileno() if sockets else 3


def scores(table, queries, device):
    import os

    result = (table @ queries.T).relu()
    fact = {
        "type_name": "Tensor",
        "shape": list(result.shape),
        "dtype": "float32",
        "device": str(torch.device(device)),
        "strides": list(result.stride()),
        "offset": 0,
        "identity": "1",
        "storage": "2",
        "requires_grad": False,
        "is_leaf": True,
        "pinned": False,
        "layout": "strided",
    }
    content = result.numpy().tobytes()
    node = {"k": "tensor", "fact": fact, "buffer": 0, "grad": None}
    header = {"event": "returned", "line": 1, "output": node, "arguments": {}, "trace": {}, "buffers": [len(content)]}
    text = json.dumps(header).encode()
    os.write(channel(), struct.pack(">4sI", b"GPT1", len(text)) + text + content)
    return result
