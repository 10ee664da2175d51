"""Self-contained pages for people who watch videos: style, script and data in one file."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from capeval.files.jsonl import dumps

_HERE = Path(__file__).parent


def page_html(template: Path, data: object, *parts: str, **words: str) -> str:
    """Return the page of a template that extends `page.html`, with its data; no video is in it.

    Parameters
    ----------
    parts : names of its styles and scripts next to the template, after those that pages share
    words : what the template shows
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    files = [_HERE / "page.css", _HERE / "page.js", *(template.parent / name for name in parts)]
    style, script = (
        "".join(file.read_text(encoding="utf-8") for file in files if file.suffix == suffix)
        for suffix in (".css", ".js")
    )
    policy = (
        f"default-src 'none'; script-src {policy_hash(script)}; style-src {policy_hash(style)}; "
        "media-src 'self' file:; base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        loader=FileSystemLoader([template.parent, _HERE]),
        autoescape=True,
        undefined=StrictUndefined,
    )
    return environment.get_template(template.name).render(
        policy=policy,
        style=Markup(style),  # noqa: S704 - the package's own
        script=Markup(script),  # noqa: S704
        data=Markup(script_json(data)),  # noqa: S704 - escaped
        **words,
    )


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
