def label(number: int) -> dict[str, object]:
    return {"words": f"number {number}", "half": number / 2}
