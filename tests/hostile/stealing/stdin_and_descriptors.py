# attacks: label
# tries: to read the seed from standard input and every inherited descriptor
# ends: failed, error, needs review
# isolation: both
import os


def label(number):
    for descriptor in range(64):
        try:
            os.set_blocking(descriptor, False)
            text = os.read(descriptor, 1 << 16)
            os.set_blocking(descriptor, True)
        except OSError:
            continue
        if b"seed" in text or b"expected" in text:
            return {"words": f"number {number}", "half": number / 2}
    return None
