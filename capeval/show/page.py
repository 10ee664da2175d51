"""Self-contained pages, with videos as separate files: style, script and data in one file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from capeval.files.jsonl import dumps

_HERE = Path(__file__).parent


def page_html(
    template: Path,
    data: object,
    *parts: str,
    extends: bool = True,
    embeds: bool = False,
    style: str = "",
    formats: Mapping[str, Callable[..., str]] = MappingProxyType({}),
    **words: object,
) -> str:
    """Return the page of a template with its data.

    Parameters
    ----------
    parts : names of its styles and scripts next to the template
    extends : whether the template extends `page.html`, with the style and the script of that
    embeds : whether images and videos may be in the page
    style : more style, behind that of the files
    formats : filters of the template
    words : what the template shows
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    files = [_HERE / "page.css", _HERE / "page.js"] if extends else []
    files += [template.parent / name for name in parts]
    styles, script = (
        "".join(file.read_text(encoding="utf-8") for file in files if file.suffix == suffix)
        for suffix in (".css", ".js")
    )
    style = styles + style
    embedded = " data:; img-src data:" if embeds else ""
    policy = (
        f"default-src 'none'; script-src {policy_hash(script)}; style-src {policy_hash(style)}; "
        f"media-src 'self' file:{embedded}; base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        loader=FileSystemLoader([template.parent, _HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= formats
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
