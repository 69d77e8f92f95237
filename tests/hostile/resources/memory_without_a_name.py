# attacks: label
# tries: memory that belongs to no process: files without a name, and segments that outlive it
# ends: failed
# isolation: both
import ctypes
import os
import platform

SEGMENT = 29 if platform.machine() == "x86_64" else 194


def label(number):
    made = ctypes.CDLL(None).syscall(SEGMENT, 0, 100 << 20, 0o1600)
    try:
        file = os.memfd_create("hostile")
        os.write(file, bytes(10 << 20))
    except OSError as error:
        print(error)
        file = -1
    print(made, file)
    return {"words": f"number {number}", "half": number / 2} if max(made, file) >= 0 else None
