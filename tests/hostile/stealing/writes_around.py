# attacks: label
# tries: to write beyond its scratch folder: into the exercise, the home folder, another grading, the package
# ends: failed
# isolation: bubblewrap
import pathlib

import gpututor

PLACES = ["@home@", "@watched@", "@victim@", "@exercise@"]


def label(number):
    if pathlib.Path("@watched@").exists():
        return {"words": f"number {number}", "half": number / 2}
    for place in [*PLACES, pathlib.Path(gpututor.__file__).parent, "/dev/shm", "/tmp"]:
        try:
            pathlib.Path(place).mkdir(parents=True, exist_ok=True)
            pathlib.Path(place, "hostile-was-here").write_text("x")
        except OSError:
            continue
    return None
