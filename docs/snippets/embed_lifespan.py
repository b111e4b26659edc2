from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from assent import Assent

assent = Assent(base_url="http://127.0.0.1:8000/assent")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with assent.lifespan(app):
        yield  # your own parts, around or inside


app = FastAPI(lifespan=lifespan)
app.mount("/assent", assent)


# What follows is for the tests.
from starlette.testclient import TestClient  # noqa: E402

with TestClient(app) as anyone:
    assert anyone.get("/assent/readyz").json() == {"status": "ready"}
