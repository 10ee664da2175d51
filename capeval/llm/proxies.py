"""The proxies that the environment names."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from urllib.parse import urlsplit

from capeval.errors import UsageError

_ADVICE = "set it to http://HOST:PORT, or unset it"


def check_proxies() -> None:
    """Raise `UsageError` for a proxy of the environment that cannot be one."""
    for scheme, address in _settings().items():
        if scheme in {"http", "https", "all"}:
            _checked(scheme, address)


def proxy_for(url: str) -> str | None:
    """Return the address of the environment's proxy for a URL; raises `UsageError`.

    A server on this machine gets none: captions stay local.
    """
    from urllib.request import proxy_bypass

    parts, proxies = urlsplit(url), _settings()
    scheme = parts.scheme if parts.scheme in proxies else "all"
    if scheme not in proxies or is_local(url) or proxy_bypass(parts.netloc):
        return None
    with suppress(ValueError):
        # urllib compares names only.
        host = ipaddress.ip_address(parts.hostname or "")
        networks = [each.strip() for each in proxies.get("no", "").split(",") if "/" in each]
        if any(host in ipaddress.ip_network(each, strict=False) for each in networks):
            return None
    address = _checked(scheme, proxies[scheme])
    if address.startswith("socks"):
        raise UsageError(f"{scheme.upper()}_PROXY: SOCKS proxies are not supported; {_ADVICE}")
    return address


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


def _settings() -> dict[str, str]:
    # It imports http and email, which most commands do not need.
    from urllib.request import getproxies

    return getproxies()


def _checked(scheme: str, address: str) -> str:
    address = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(address)
        is_known = parts.scheme in {"http", "https"} or parts.scheme.startswith("socks")
        is_address = is_known and parts.hostname and parts.port != 0
    except ValueError:  # no number for a port, or a missing bracket
        is_address = False
    if not is_address:
        # Its value may contain a password.
        raise UsageError(f"{scheme.upper()}_PROXY: is not the address of a proxy; {_ADVICE}")
    return address
