"""Small services that ask people, each built on another framework; all of them know their callers by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from placet import Placet

PREFIX = "/hitl"
Build = Callable[[str], Any]


def known(request: Request) -> str | None:
    return request.headers.get("x-user")


async def known_later(request: Request) -> str | None:
    return known(request)


def embedded(url: str, folder: Path, **options: Any) -> Placet:
    options.setdefault("authenticate", known)
    return Placet(base_url=url, db=str(folder / "cases.db"), allow_loopback=True, **options)


def asking(placet: Placet) -> Callable[[Request], Any]:
    """A handler that puts the question of the request's body."""

    async def ask(request: Request) -> Response:
        body = await request.json()
        return await getattr(placet, body.pop("how"))(request=request, **body)

    return ask


def fastapi_app(folder: Path, *, lifespan: bool = True, **options: Any) -> Build:
    def build(url: str) -> FastAPI:
        placet = embedded(url + PREFIX, folder, **options)
        app = FastAPI(
            lifespan=placet.lifespan if lifespan else None,
            exception_handlers=placet.exception_handlers,
        )
        app.add_route("/ask", asking(placet), methods=["POST"])
        app.mount(PREFIX, placet)

        @app.get("/mine/{case_id}")
        async def mine(request: Request, case_id: str) -> Any:
            found = await placet.status(case_id, request=request)
            return {"status": found.status}

        @app.post("/withdraw/{case_id}")
        async def withdraw(request: Request, case_id: str) -> Any:
            found = await placet.cancel(case_id, request=request, reason="changed our mind")
            return {"status": found.status, "reason": found.reason}

        return app

    return build


def starlette_app(folder: Path, **options: Any) -> Build:
    def build(url: str) -> Starlette:
        placet = embedded(url + PREFIX, folder, **options)
        return Starlette(
            routes=[Route("/ask", asking(placet), methods=["POST"]), Mount(PREFIX, placet)],
            lifespan=placet.lifespan,
            exception_handlers=placet.exception_handlers,
        )

    return build


def at_the_root(folder: Path, **options: Any) -> Build:
    """Placet mounted at the root of a Starlette app, behind the service's own routes."""

    def build(url: str) -> Starlette:
        placet = embedded(url, folder, **options)
        return Starlette(
            routes=[Route("/ask", asking(placet), methods=["POST"]), Mount("/", placet)],
            lifespan=placet.lifespan,
        )

    return build


def raw_asgi_app(folder: Path, *, strip: bool = False, **options: Any) -> Build:
    """An ASGI app without a framework; `strip` leaves the prefix to root_path alone, as older servers do."""

    def build(url: str) -> Any:
        placet = embedded(url + PREFIX, folder, **options)
        ask = asking(placet)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan":
                await placet(scope, receive, send)
            elif scope["path"].startswith(PREFIX):
                path = scope["path"].removeprefix(PREFIX) if strip else scope["path"]
                await placet({**scope, "root_path": PREFIX, "path": path}, receive, send)
            elif scope["path"] == "/ask":
                await (await ask(Request(scope, receive)))(scope, receive, send)
            else:
                await JSONResponse({"detail": "nothing"}, status_code=404)(scope, receive, send)

        return app

    return build
