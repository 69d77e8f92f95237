# attacks: label
# tries: to print the secrets of the home folder, of a watched one, and of another grading
# ends: failed
# isolation: bubblewrap
import pathlib


def label(number):
    for place in ("@home@", "@watched@", "@victim@", "@exercise@", "/root", "/home", "/etc", "/tmp"):
        for path in list(pathlib.Path(place).rglob("*"))[:500]:
            try:
                text = path.read_text()
            except (OSError, ValueError):
                continue
            if "canary" in text:
                print(path, text)
    return None
