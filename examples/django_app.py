"""A Django project in one file with Placet beside it: it asks which flight to book, and books that one.

python -m examples.django_app
"""

import json
from typing import Any

import django
import httpx
from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.test import Client
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from examples.stage import answer, run_placet_server
from placet import PlacetClient

settings.configure(ROOT_URLCONF=__name__, SECRET_KEY="only-for-this-example", ALLOWED_HOSTS=["*"])
django.setup()


def placet() -> PlacetClient:
    """One client for each process, made from your settings."""
    client: PlacetClient = settings.PLACET_CLIENT
    return client


@csrf_exempt
@require_POST
def find_flights(request: HttpRequest) -> JsonResponse:
    flights = json.loads(request.body)["flights"]
    asked = placet().open(
        "selection",
        "Which flight shall be booked?",
        context={"options": flights, "multiple": False},
        timeout="2h",
        agent_request=request,
    )
    return JsonResponse(asked, status=202)


@require_GET
def booking(request: HttpRequest, case_id: str) -> JsonResponse:
    poll = placet().status(case_id)
    chosen = poll["result"]["data"]["selected"] if poll["status"] == "completed" else []
    return JsonResponse({"booked": chosen})


urlpatterns = [path("flights", find_flights), path("bookings/<str:case_id>", booking)]

FLIGHTS = [
    {"id": "early", "title": "07:10, direct", "price": "190 EUR"},
    {"id": "late", "title": "19:45, one stop", "price": "120 EUR"},
]


def main() -> None:
    agent: Any = Client()
    with run_placet_server() as (url, key), PlacetClient(url, key) as client:
        settings.PLACET_CLIENT = client
        credential = {"Authorization": "Bearer key-of-the-agent"}
        wanted = json.dumps({"flights": FLIGHTS})
        asked = agent.post("/flights", wanted, content_type="application/json", headers=credential)
        assert asked.status_code == 202
        hitl = asked.json()["hitl"]
        poll = httpx.get(hitl["poll_url"], headers=credential).json()
        assert poll["status"] == "pending"
        answer(hitl["review_url"], "select", {"selected": "late"})
        assert agent.get(f"/bookings/{hitl['case_id']}").json() == {"booked": ["late"]}
    print("chosen and booked")


if __name__ == "__main__":
    main()
