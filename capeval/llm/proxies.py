"""The proxies that the environment names."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from capeval.errors import UsageError


def check_proxies() -> None:
    """Raise `UsageError` for a proxy of the environment that cannot be one."""
    from urllib.request import getproxies

    from httpx2 import InvalidURL, Proxy

    for scheme, address in getproxies().items():
        if scheme not in {"http", "https", "all"}:
            continue
        try:
            Proxy(address if "://" in address else f"http://{address}")
        except (ValueError, InvalidURL):
            # Its value may contain a password.
            raise UsageError(
                f"{scheme.upper()}_PROXY: is not the address of a proxy; set it to "
                "http://HOST:PORT, or unset it"
            ) from None


def is_local(url: str) -> bool:
    """Return whether a URL is of this machine.

    >>> is_local("http://localhost:8000/v1"), is_local("https://api.openai.com/v1")
    (True, False)
    """
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified
