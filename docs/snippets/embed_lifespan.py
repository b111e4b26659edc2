from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from placet import Placet

placet = Placet(base_url="http://127.0.0.1:8000/placet")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with placet.lifespan(app):
        yield  # your own parts, around or inside


app = FastAPI(lifespan=lifespan)
app.mount("/placet", placet)


# What follows is for the tests.
from starlette.testclient import TestClient  # noqa: E402

with TestClient(app) as anyone:
    assert anyone.get("/placet/readyz").json() == {"status": "ready"}
