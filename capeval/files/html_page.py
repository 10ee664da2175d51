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
    return dumps(data).translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def policy_hash(text: str) -> str:
    """Return the source expression that allows an inline script or style in a page's policy."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
