# attacks: label
# tries: links out of the scratch folder, that the cleaning up would follow
# ends: failed, error
# isolation: both
import os


def label(number):
    for index, place in enumerate(("@watched@", "@home@", "@victim@", "/", "..")):
        os.symlink(place, f"link{index}")
    os.makedirs("deep/" * 50, exist_ok=True)
    os.chmod("deep", 0)
    os.mkfifo("pipe")
    return None
