"""The cookies of the pages: their names, their attributes, and how many cases a browser keeps open.

On HTTPS every name begins with `__Host-`. Browsers accept such a cookie only from this host itself, with
Secure and for all paths, so that neither another subdomain nor a connection without encryption can set it.
Browsers do not accept the prefix without HTTPS. So on loopback, where HTTP is allowed, names have none.
"""

import hashlib
from typing import Literal
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

MAX_CASE_COOKIES = 20  # each is sent with every request, and proxies limit the size of headers


class PageCookies:
    """Names, reads and sets the cookies of the pages under one base URL."""

    def __init__(self, base_url: str) -> None:
        base = urlsplit(base_url)
        self._secure = base.scheme == "https"
        host_only = "__Host-" if self._secure else ""
        # All cookies have the path `/`, so servers under several paths of one host need different names.
        server = f"_{hashlib.sha256(base.path.encode()).hexdigest()[:8]}" if base.path else ""
        self.inbox = f"{host_only}placet_inbox{server}"
        self.language = f"{host_only}placet_lang{server}"
        self.style = f"{host_only}placet_style{server}"
        self._case = f"{host_only}placet_case{server}."
        self._frame = f"{host_only}placet_frame{server}."

    def case(self, case_id: str) -> str:
        """Return the name of the session cookie of a case."""
        return f"{self._case}{case_id}"

    def frame(self, case_id: str) -> str:
        """Return the name of the session cookie of a case in a frame of another site."""
        return f"{self._frame}{case_id}"

    def set_frame(self, response: Response, case_id: str, value: str, max_age: int) -> None:
        """Set the session cookie of a frame: it counts inside this one site, and nowhere else."""
        # Browsers take Secure on loopback without HTTPS, too. Starlette cannot write Partitioned.
        kind = "HttpOnly; Secure; SameSite=None; Partitioned"
        cookie = f"{self.frame(case_id)}={value}; Max-Age={max_age}; Path=/; {kind}"
        response.headers.append("set-cookie", cookie)

    def set(
        self,
        response: Response,
        name: str,
        value: str,
        *,
        max_age: int,
        samesite: Literal["lax", "strict"] = "lax",
    ) -> None:
        """Set a cookie that scripts cannot read; with a `max_age` of 0, delete it."""
        response.set_cookie(
            name, value, max_age=max_age, path="/", secure=self._secure, httponly=True, samesite=samesite
        )

    def set_case(self, request: Request, response: Response, case_id: str, value: str, max_age: int) -> None:
        """Set the session cookie of a case, and delete the oldest ones if there are too many.

        A picture in the content of a case may have a review link as its address. It sets no cookie: it would
        replace a session that the reviewer has.
        """
        if not is_page_load(request):
            return
        name = self.case(case_id)
        self.set(response, name, value, max_age=max_age)
        # RFC 6265, 5.4: browsers send the oldest cookie first.
        others = [one for one in request.cookies if one.startswith(self._case) and one != name]
        for old in others[: max(0, len(others) + 1 - MAX_CASE_COOKIES)]:
            self.set(response, old, "", max_age=0)


def is_page_load(request: Request) -> bool:
    """Whether a person opens this address or sends a form to it, and not a picture or script of a page.

    Browsers that send no Sec-Fetch-Dest name the types of pictures in Accept.
    """
    wanted = request.headers.get("sec-fetch-dest")
    if wanted is not None:
        return wanted == "document"
    return not request.headers.get("accept", "").startswith("image/")


def is_in_frame(request: Request) -> bool:
    """Whether the browser loads this address into a frame, or a form in a frame was sent to it."""
    return request.headers.get("sec-fetch-dest") in ("iframe", "frame", "embed", "object")


def is_own_page_load(request: Request) -> bool:
    """Whether a person opens this address from a page of ours or directly, and not from another site."""
    return is_page_load(request) and request.headers.get("sec-fetch-site") in (None, "same-origin", "none")
