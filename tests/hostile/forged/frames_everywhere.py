# attacks: there_and_back
# tries: to answer with a forged frame, of the wrong values, on every descriptor that is open
# ends: failed, error, needs review
# isolation: both
import json
import os
import struct

FACT = {
    "type_name": "Tensor",
    "shape": [1],
    "dtype": "float32",
    "device": "cuda:0",
    "strides": [1],
    "offset": 0,
    "identity": "1",
    "storage": "1",
    "requires_grad": False,
    "is_leaf": True,
    "pinned": False,
    "layout": "strided",
}


def there_and_back(batch, weights, device):
    node = {"k": "tensor", "fact": FACT, "buffer": 0, "grad": None}
    header = {"event": "returned", "line": 1, "output": node, "arguments": {}, "trace": {}, "buffers": [4]}
    text = json.dumps(header).encode()
    for descriptor in range(64):
        try:
            os.write(descriptor, struct.pack(">4sI", b"GPT1", len(text)) + text + bytes(4))
        except OSError:
            pass
    return None
