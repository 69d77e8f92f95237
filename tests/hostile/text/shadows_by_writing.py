# attacks: label
# tries: to leave modules in the scratch folder that a later process would import
# ends: failed
# isolation: both
import pathlib


def label(number):
    for name in ("torch", "json", "socket", "sitecustomize", "usercustomize", "gpututor", "given"):
        pathlib.Path(f"{name}.py").write_text("raise SystemExit(0)")
    pathlib.Path("python311.pth").write_text("import os; os._exit(0)")
    return None
