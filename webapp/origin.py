"""Where a request comes from: another site may make a browser send one, but not hide that it did."""

import ipaddress

from flask import request

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LOCAL_NAMES = frozenset({"localhost"})
_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-Ip")


def is_same_site() -> bool | None:
    """Whether a page of this very site sent the request; None if the sender does not say, as programs do not."""
    site = request.environ.get("HTTP_SEC_FETCH_SITE")
    if site is not None:
        return site in {"same-origin", "none"}
    origin = request.environ.get("HTTP_ORIGIN")
    return None if origin is None else origin == f"{request.scheme}://{request.host}"


def own_path(path: str) -> str:
    """A path of this site; what could lead to another one is replaced by the root."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_own else f"{request.script_root}/"


def is_from_here() -> bool:
    """Whether the request was made on this machine, under a name that only this machine has, through no proxy."""
    if any(name in request.headers for name in _FORWARDED):
        return False
    return _is_loopback(request.remote_addr or "") and _is_loopback(_name_of(request.host))


def keeps_cookies() -> bool:
    """Whether a browser that made this request keeps a cookie that is for encrypted connections only.

    It does so for names of its own machine too. A proxy may have encrypted the way here without being trusted to say
    so; that a browser tells where a request comes from is a sign of it, because it does not over a plain connection.
    """
    if request.scheme == "https" or _is_loopback(_name_of(request.host)):
        return True
    said = f"{request.headers.get('X-Forwarded-Proto', '')} {request.headers.get('Forwarded', '')}".lower()
    return "https" in said or "Sec-Fetch-Site" in request.headers


def _name_of(host: str) -> str:
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name.strip("[]").lower()


def _is_loopback(name: str) -> bool:
    try:
        return name in _LOCAL_NAMES or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
