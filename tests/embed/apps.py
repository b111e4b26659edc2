"""Small services that ask people, each built on another framework; all of them know their callers by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from assent import Assent

PREFIX = "/hitl"
Build = Callable[[str], Any]


def known(request: Request) -> str | None:
    return request.headers.get("x-user")


async def known_later(request: Request) -> str | None:
    return known(request)


def embedded(url: str, folder: Path, **options: Any) -> Assent:
    options.setdefault("authenticate", known)
    return Assent(base_url=url, db=str(folder / "cases.db"), allow_loopback=True, **options)


def asking(assent: Assent) -> Callable[[Request], Any]:
    """A handler that puts the question of the request's body."""

    async def ask(request: Request) -> Response:
        body = await request.json()
        return await getattr(assent, body.pop("how"))(request=request, **body)

    return ask


def fastapi_app(folder: Path, *, lifespan: bool = True, **options: Any) -> Build:
    def build(url: str) -> FastAPI:
        assent = embedded(url + PREFIX, folder, **options)
        app = FastAPI(
            lifespan=assent.lifespan if lifespan else None,
            exception_handlers=assent.exception_handlers,
        )
        app.add_route("/ask", asking(assent), methods=["POST"])
        app.mount(PREFIX, assent)

        @app.get("/mine/{case_id}")
        async def mine(request: Request, case_id: str) -> Any:
            found = await assent.status(case_id, request=request)
            return {"status": found.status}

        @app.post("/withdraw/{case_id}")
        async def withdraw(request: Request, case_id: str) -> Any:
            found = await assent.cancel(case_id, request=request, reason="changed our mind")
            return {"status": found.status, "reason": found.reason}

        return app

    return build


def starlette_app(folder: Path, **options: Any) -> Build:
    def build(url: str) -> Starlette:
        assent = embedded(url + PREFIX, folder, **options)
        return Starlette(
            routes=[Route("/ask", asking(assent), methods=["POST"]), Mount(PREFIX, assent)],
            lifespan=assent.lifespan,
            exception_handlers=assent.exception_handlers,
        )

    return build


def at_the_root(folder: Path, **options: Any) -> Build:
    """Assent mounted at the root of a Starlette app, behind the service's own routes."""

    def build(url: str) -> Starlette:
        assent = embedded(url, folder, **options)
        return Starlette(
            routes=[Route("/ask", asking(assent), methods=["POST"]), Mount("/", assent)],
            lifespan=assent.lifespan,
        )

    return build


def raw_asgi_app(folder: Path, *, strip: bool = False, **options: Any) -> Build:
    """An ASGI app without a framework; `strip` leaves the prefix to root_path alone, as older servers do."""

    def build(url: str) -> Any:
        assent = embedded(url + PREFIX, folder, **options)
        ask = asking(assent)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan":
                await assent(scope, receive, send)
            elif scope["path"].startswith(PREFIX):
                path = scope["path"].removeprefix(PREFIX) if strip else scope["path"]
                await assent({**scope, "root_path": PREFIX, "path": path}, receive, send)
            elif scope["path"] == "/ask":
                await (await ask(Request(scope, receive)))(scope, receive, send)
            else:
                await JSONResponse({"detail": "nothing"}, status_code=404)(scope, receive, send)

        return app

    return build
