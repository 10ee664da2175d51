"""Whether the Hugging Face hub can be reached."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from huggingface_hub import constants

# Answers of a reachable hub take a tenth of a second; a firewall that drops packets never answers.
_SECONDS = 5.0


def use_downloads_if_unreachable() -> None:
    """Load only what was downloaded before, from now on, if the hub cannot be reached.

    Without this, huggingface_hub tries each file of a model again and again, for minutes, although
    all of them are on disk. Behind a proxy nothing is tried here.
    """
    if constants.HF_HUB_OFFLINE:
        return
    hub = urlsplit(constants.ENDPOINT)
    host = hub.hostname or ""
    if hub.scheme in getproxies() and not proxy_bypass(host):
        return
    try:
        port = hub.port or (80 if hub.scheme == "http" else 443)
        socket.create_connection((host, port), timeout=_SECONDS).close()
    except (OSError, ValueError):
        constants.HF_HUB_OFFLINE = True
