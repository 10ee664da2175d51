"""Parts of self-contained HTML pages: data inside a script, and the policy that allows a script."""

from __future__ import annotations

import base64
import hashlib

from capeval.files.jsonl import dumps


def script_json(data: object) -> str:
    """Return JSON that can neither end the script element around it nor begin a comment.

    >>> script_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = dumps(data)
    # str.translate takes eight times as long for text that is not ASCII.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def policy_hash(text: str) -> str:
    """Return the source expression that allows an inline script or style in a page's policy."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
