"""Deployment approval: production takes a signed yes to this very release. A no, a lie and silence stop it.

python -m examples.flow_deployment
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from datetime import timedelta
from typing import Any

import httpx
from fastapi import FastAPI, Request

from examples.play.person import Fields, Person
from examples.play.transcript import say
from examples.stage import PATIENCE_S, find_free_port, serve_app
from placet import Placet, SignatureInvalid, verify_result
from placet.agent import Agent, Decided, Expired, Notice, Outcome

PORT = find_free_port()
URL = f"http://127.0.0.1:{PORT}"


class Production:
    """Runs what a person approved: believes the release desk and its keys, and no agent."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.asked: dict[str, str] = {}
        self.running: list[str] = []

    def deploy(self, version: str, proof: Mapping[str, Any]) -> None:
        """Deploy with a signed approval of this release, once; raises PermissionError without."""
        try:
            proven = verify_result(proof, self.keys)
        except SignatureInvalid as error:
            raise PermissionError(str(error)) from error
        if proven.action != "approve" or self.asked.get(proven.case_id) != version:
            raise PermissionError(f"This is no approval of {version}.")
        del self.asked[proven.case_id]
        self.running.append(version)


production = Production()

# The service: a release desk that asks for approval, and does nothing by itself when nobody answers.
placet = Placet(
    base_url=f"{URL}/placet",
    db=":memory:",
    service_name="Release Desk",
    authenticate=lambda request: request.headers.get("x-agent"),
)
app = FastAPI(lifespan=placet.lifespan, exception_handlers=placet.exception_handlers)
app.mount("/placet", placet)


@app.post("/releases")
async def release(request: Request, build: dict[str, Any], patience: str = "4h") -> Any:
    """A build is approved before it goes anywhere."""
    question = f"{build['version']} is ready for production. Deploy it?"
    asked = await placet.approval(
        question, artifact=build, request=request, timeout=patience, default_action="abort"
    )
    production.asked[json.loads(bytes(asked.body))["hitl"]["case_id"]] = build["version"]
    return asked


# The person: says yes to one, no to another, and has gone home when the third comes.
ANSWERS: dict[str, tuple[str, Fields]] = {
    "2.1.0": ("approve", {"feedback": "Looks good. Deploy at night."}),
    "2.2.0": ("reject", {"feedback": "Three tests failed."}),
}


def main() -> None:
    """The agent: has builds approved, and hands the proof to production."""
    ada = Person("Ada")

    def tell(notice: Notice) -> None:
        if notice.name != "requested":
            return
        say("agent", f"tells Ada: {notice.case.prompt}")
        version = notice.case.context["artifact"]["version"]
        if version in ANSWERS:
            ada.opens(notice.case.review_url, *ANSWERS[version])

    def asked(version: str, failed: int, **options: str) -> Outcome:
        build = {"version": version, "tests_passed": 47 - failed, "tests_failed": failed, "files_changed": 12}
        outcome = agent.request("POST", "/releases", json=build, params=options)
        assert not isinstance(outcome, httpx.Response)
        return outcome

    http = httpx.Client(base_url=URL, headers={"X-Agent": "build-agent"})
    agent = Agent(tell=tell, http=http, max_wait=timedelta(seconds=PATIENCE_S))
    with serve_app(app, PORT), http, ada:
        production.keys = http.get("/placet/.well-known/jwks.json").json()

        yes = asked("2.1.0", failed=0)
        assert isinstance(yes, Decided)
        assert (yes.action, yes.verified) == ("approve", True)
        assert refused("2.2.0", yes.raw), "an approval is for one release"
        production.deploy("2.1.0", yes.raw)
        say("production", f"runs 2.1.0; Ada said: {yes.data['feedback']}")
        assert refused("2.1.0", yes.raw), "an approval is used up"

        no = asked("2.2.0", failed=3)
        assert isinstance(no, Decided)
        assert no.against
        assert refused("2.2.0", no.raw)
        say("production", f"does not take 2.2.0; Ada said: {no.data['feedback']}")
        lie = deepcopy(no.raw)
        lie["result"]["action"] = "approve"
        assert refused("2.2.0", lie)

        silence = asked("2.3.0", failed=0, patience="1s")
        assert isinstance(silence, Expired)
        assert silence.default_action == "abort"
        assert refused("2.3.0", silence.raw)
        say("production", "does not take 2.3.0; nobody answered")
    assert production.running == ["2.1.0"]


def refused(version: str, proof: Mapping[str, Any]) -> bool:
    """Whether production keeps this out."""
    try:
        production.deploy(version, proof)
    except PermissionError:
        return True
    return False


if __name__ == "__main__":
    main()
