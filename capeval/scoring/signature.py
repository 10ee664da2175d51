"""The signature: one line that says how a score was made, in the manner of sacreBLEU."""

from __future__ import annotations

from capeval.text import one_line


def signature(
    *,
    judge: str,
    prompts: str,
    repeats: int,
    data_hash: str,
    annotated: int,
    version: str,
) -> str:
    """Return the signature of a TUNA-CAP score.

    `judge` is the model snapshot that answered, `prompts` the set's name and hash, `data_hash`
    the SHA-256 of the annotations and `annotated` their number.

    >>> signature(judge="gpt-4o-2024-08-06", prompts="tuna-cap-v1@1f3a9c", repeats=1,
    ...           data_hash="9be2c4ff", annotated=1000, version="0.1.0")
    'capeval:tuna-cap|judge:gpt-4o-2024-08-06|prompts:tuna-cap-v1@1f3a9c|repeats:1|avg:macro|data:9be2c4@1000|v:0.1.0'
    """
    fields = {
        "capeval": "tuna-cap",
        "judge": judge,
        "prompts": prompts,
        "repeats": str(repeats),
        "avg": "macro",
        "data": f"{data_hash[:6]}@{annotated}",
        "v": version,
    }
    # Names come from endpoints: a separator or a line break in one would forge another field.
    return "|".join(f"{key}:{one_line(value).replace('|', '/')}" for key, value in fields.items())
