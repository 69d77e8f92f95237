# attacks: label
# tries: the kernel's keys: those of the user who started the judge, and what it leaves itself for the next one
# ends: failed
# isolation: both
import ctypes
import platform

libc = ctypes.CDLL(None)
X86 = platform.machine() == "x86_64"
ADD, REQUEST, KEYCTL = (248, 249, 250) if X86 else (217, 218, 219)
SESSION, USER = -3, -4


def label(number):
    made = [libc.syscall(ADD, b"user", b"hostile", b"left", 4, ring) for ring in (SESSION, USER)]
    made += [libc.syscall(KEYCTL, 0, SESSION, 0), libc.syscall(REQUEST, b"user", b"hostile", None, 0)]
    print(made)
    return {"words": f"number {number}", "half": number / 2} if max(made) > 0 else None
