# attacks: label
# tries: nothing: it writes a file and reads it
# ends: passed
# isolation: both
import json
import pathlib
import tempfile


def label(number):
    pathlib.Path("notes.json").write_text(json.dumps({"half": number / 2}))
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "words").write_text(f"number {number}")
        return {
            "words": pathlib.Path(folder, "words").read_text(),
            **json.loads(pathlib.Path("notes.json").read_text()),
        }
