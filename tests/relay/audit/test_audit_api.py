"""The audit over HTTP: every filter, traces, the export, and walls between tenants."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from placet.ports.audit_store import AuditRow
from placet.relay.audit.audit_log import AuditLog
from placet.relay.settings import GroupSettings, RelaySettings, TenantSettings
from tests.relay.audit.samples import build_subscription
from tests.server.running import RunningServer, running
from tests.waiting import PATIENCE_S

READ = ("AUDIT:READ",)
GROUPS = {
    "auditors": GroupSettings(members=("ada",), permissions=READ, tenant="acme"),
    "keepers": GroupSettings(members=("kim",), permissions=(*READ, "GROUPS:WRITE"), tenant="kept"),
    "others": GroupSettings(members=("oscar",), permissions=(*READ, "GROUPS:WRITE"), tenant="other"),
    "reviewers": GroupSettings(members=("rita",), permissions=("AGENT_CONVERSATIONS:READ",), tenant="acme"),
    "fixed": GroupSettings(members=("fay",), permissions=(*READ, "GROUPS:WRITE"), tenant="fixed"),
}
EVENTS, TRACES, EXPORT = "/audit/v1/events", "/audit/v1/traces", "/audit/v1/export"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    relay = RelaySettings(
        enabled=True, groups=GROUPS, tenants={"fixed": TenantSettings(payloads="none", keep_events_for="90d")}
    )
    with running(tmp_path_factory.mktemp("audit"), relay=relay) as found:
        found.run(store_sample_calls(found))
        yield found


def get_audit_log(server: RunningServer) -> AuditLog:
    relay = server.parts.relay
    assert relay is not None
    return relay.audit_log


async def store_sample_calls(server: RunningServer) -> None:
    """Two calls of acme's, a minute apart, and one of somebody else's."""
    trail = get_audit_log(server)
    planner, ada = (
        build_subscription(tenant="acme"),
        build_subscription("ada", "bank", kind="user", tenant="acme"),
    )
    first: dict[str, Any] = {"correlation_id": "call-1", "transport": "JSONRPC", "task_id": "t-1"}
    rows: list[AuditRow] = [
        trail.build_event("COMMUNICATION_AUDIT", planner, action="LOG", message="Asked.", **first),
        trail.build_event(
            "REGEX_DETECTION", planner, action="MASK", took_for=timedelta(microseconds=700), **first
        ),
    ]
    server.advance(seconds=2)
    rows.append(trail.build_event("COMMUNICATION_AUDIT", planner, action="LOG", message="Answered.", **first))
    server.advance(seconds=60)
    rows += [
        trail.build_event(
            "HITL", ada, correlation_id="call-2", transport="REST", action="HUMAN_REVIEW_REQUIRED"
        ),
        trail.build_event("HITL_GUARD", ada, correlation_id="call-2", transport="REST"),
        trail.build_event("HITL", build_subscription(tenant="other"), correlation_id="call-1", task_id="t-1"),
    ]
    server.advance(seconds=1)
    trail.record(*rows)


@pytest.fixture(scope="module")
def clients(server: RunningServer) -> Iterator[dict[str, httpx.Client]]:
    found = {
        name: httpx.Client(
            base_url=server.url,
            headers={"Authorization": f"Bearer {server.create_key(name, *scopes)}"},
            timeout=PATIENCE_S,
        )
        for name, scopes in {
            "ada": (),
            "kim": (),
            "oscar": (),
            "rita": (),
            "fay": (),
            "root": ("admin",),
            "stranger": (),
        }.items()
    }
    yield found
    for client in found.values():
        client.close()


@pytest.fixture
def auditor(clients: dict[str, httpx.Client]) -> httpx.Client:
    return clients["ada"]


def list_events(client: httpx.Client, **query: Any) -> list[tuple[str, str]]:
    reply = client.get(EVENTS, params=query)
    assert reply.status_code == 200, reply.text
    return [(one["auditType"], one["correlationId"]) for one in reply.json()["content"]]


ALL = [
    ("HITL_GUARD", "call-2"),
    ("HITL", "call-2"),
    ("COMMUNICATION_AUDIT", "call-1"),
    ("REGEX_DETECTION", "call-1"),
    ("COMMUNICATION_AUDIT", "call-1"),
]


def test_events_are_listed_the_newest_first(auditor: httpx.Client):
    assert list_events(auditor) == ALL


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ({"auditType": "HITL"}, [1]),
        ({"auditType": ["HITL", "HITL_GUARD"]}, [0, 1]),
        ({"auditType": "HITL,REGEX_DETECTION"}, [1, 3]),
        ({"auditType": "X_OWN_DETECTION"}, []),
        ({"transport": "REST"}, [0, 1]),
        ({"auditAction": "MASK"}, [3]),
        ({"correlationId": "call-1"}, [2, 3, 4]),
        ({"correlationId": "call-1", "auditAction": "LOG"}, [2, 4]),
        ({"sourceAgentId": "trip-planner"}, [2, 3, 4]),
        ({"sourceUserId": "ada"}, [0, 1]),
        ({"sinkAgentId": "bank"}, [0, 1]),
        ({"taskId": "t-1"}, [2, 3, 4]),
        ({"startTime": "2026-01-01T06:00:02Z"}, [0, 1, 2]),
        ({"endTime": "2026-01-01T06:00:02Z"}, [3, 4]),
        ({"startTime": "2026-01-01T08:00:01+02:00", "endTime": "2026-01-01T06:01:00Z"}, [2]),
        ({"sinkAgentId": "nobody"}, []),
    ],
)
def test_each_filter_finds_what_it_names(auditor: httpx.Client, query: dict[str, Any], places: list[int]):
    assert list_events(auditor, **query) == [ALL[place] for place in places]


def test_pages_are_counted_from_zero(auditor: httpx.Client):
    page = auditor.get(EVENTS, params={"size": 2, "page": 1}).json()
    assert [one["auditType"] for one in page["content"]] == [kind for kind, _ in ALL[2:4]]
    del page["content"]
    assert page == {
        "totalElements": 5,
        "totalPages": 3,
        "number": 1,
        "size": 2,
        "first": False,
        "last": False,
    }


def test_one_event_is_shown_by_its_id(auditor: httpx.Client):
    event = auditor.get(EVENTS).json()["content"][0]
    assert auditor.get(f"{EVENTS}/{event['eventId']}").json() == event
    assert auditor.get(f"{EVENTS}/evt_nothing").status_code == 404


def test_a_call_is_followed_step_by_step(auditor: httpx.Client):
    trace = auditor.get(f"{TRACES}/call-1").json()
    steps = trace.pop("steps")
    assert trace == {
        "correlationId": "call-1",
        "startTime": "2026-01-01T05:59:59.999300Z",
        "endTime": "2026-01-01T06:00:02Z",
        "totalDurationMicros": 2_000_700,
        "stepCount": 3,
    }
    assert [(one["auditType"], one["offsetMicros"], one["durationMicros"]) for one in steps] == [
        ("REGEX_DETECTION", 0, 700),
        ("COMMUNICATION_AUDIT", 700, None),
        ("COMMUNICATION_AUDIT", 2_000_700, None),
    ]
    assert auditor.get(f"{TRACES}/call-3").status_code == 404


def test_traces_are_listed_the_newest_first_and_filtered_by_their_events(auditor: httpx.Client):
    page = auditor.get(TRACES).json()
    assert [(one["correlationId"], one["stepCount"]) for one in page["content"]] == [
        ("call-2", 2),
        ("call-1", 3),
    ]
    masked = auditor.get(TRACES, params={"auditAction": "MASK"}).json()
    assert [(one["correlationId"], one["stepCount"]) for one in masked["content"]] == [("call-1", 3)]


def test_the_export_is_json_lines_in_the_order_of_writing(auditor: httpx.Client):
    reply = auditor.get(EXPORT)
    assert reply.headers["content-type"] == "application/x-ndjson"
    events = [json.loads(line) for line in reply.text.splitlines()]
    assert [(one["auditType"], one["correlationId"]) for one in events] == ALL[::-1]
    assert events[::-1] == auditor.get(EVENTS).json()["content"]


def test_the_export_takes_the_same_filters(auditor: httpx.Client):
    reply = auditor.get(EXPORT, params={"auditType": ["HITL", "HITL_GUARD"]})
    assert [json.loads(line)["auditType"] for line in reply.text.splitlines()] == ["HITL", "HITL_GUARD"]
    assert auditor.get(EXPORT, params={"sinkAgentId": "nobody"}).text == ""


@pytest.mark.parametrize("path", [EVENTS, TRACES, EXPORT])
@pytest.mark.parametrize(
    ("query", "about"),
    [
        ("auditTypes=HITL", "auditTypes"),
        ("auditType=NOTHING", "auditType"),
        ("auditType=", "auditType"),
        ("auditType=HITL,,HITL", "auditType"),
        ("auditAction=DELETE", "auditAction"),
        ("transport=SMTP", "transport"),
        ("startTime=yesterday", "startTime"),
        ("startTime=2026-01-01", "startTime"),
        ("startTime=2026-01-01T00:00:00", "startTime"),
        ("startTime=0001-01-01T00:00:00%2B14:00", "startTime"),
        ("endTime=9999-12-31T23:59:59-14:00", "endTime"),
        ("endTime=1e400", "endTime"),
        ("startTime=2026-01-02T00:00:00Z&endTime=2026-01-01T00:00:00Z", "startTime"),
        ("correlationId=", "correlationId"),
        ("taskId=" + "x" * 201, "taskId"),
        ("taskId=a&taskId=b", "more than once"),
        ("sinkAgentId=" + "x" * 9000, "larger than"),
    ],
)
def test_invalid_filter_value_is_refused_with_a_message(
    auditor: httpx.Client, path: str, query: str, about: str
):
    reply = auditor.get(f"{path}?{query}")
    assert reply.status_code == 400, reply.text
    assert about in reply.json()["message"]


@pytest.mark.parametrize(
    "query", ["page=-1", "page=x", "page=1.5", "size=0", "size=201", "page=50000&size=2"]
)
def test_invalid_page_number_is_refused(auditor: httpx.Client, query: str):
    assert auditor.get(f"{EVENTS}?{query}").status_code == 400
    assert auditor.get(f"{EXPORT}?{query}").status_code == 400


@pytest.mark.parametrize(
    "value",
    ["' OR 1=1 --", "%25", "\x00", "*", "a\nb", "\ud800".encode("utf-8", "surrogatepass"), "🦜" * 100],
)
def test_unknown_filter_value_finds_nothing(auditor: httpx.Client, value: Any):
    for name in ("correlationId", "taskId", "sourceAgentId", "sourceUserId", "sinkAgentId"):
        assert list_events(auditor, **{name: value}) == []


@pytest.mark.parametrize("path", ["x" * 4000, "%00", "..%2f..%2fevents", "%F0%9F%A6%9C", "'"])
def test_unknown_id_is_not_found(auditor: httpx.Client, path: str):
    for kind in (EVENTS, TRACES):
        assert auditor.get(f"{kind}/{path}").status_code == 404


def test_tenants_never_see_each_others_events(clients: dict[str, httpx.Client]):
    oscar = clients["oscar"]
    assert list_events(oscar) == [("HITL", "call-1")]
    assert list_events(oscar, taskId="t-1") == [("HITL", "call-1")]
    assert oscar.get(f"{TRACES}/call-1").json()["stepCount"] == 1
    assert oscar.get(f"{TRACES}/call-2").status_code == 404
    assert [one["correlationId"] for one in oscar.get(TRACES).json()["content"]] == ["call-1"]
    assert len(oscar.get(EXPORT).text.splitlines()) == 1
    foreign = clients["ada"].get(EVENTS).json()["content"][0]["eventId"]
    assert oscar.get(f"{EVENTS}/{foreign}").status_code == 404
    assert oscar.get(EVENTS, params={"tenantId": "acme"}).status_code == 403


def test_an_administrator_names_the_tenant(clients: dict[str, httpx.Client]):
    assert list_events(clients["root"], tenantId="acme") == ALL
    assert list_events(clients["root"], tenantId="other") == [("HITL", "call-1")]


@pytest.mark.parametrize("path", [EVENTS, f"{EVENTS}/x", TRACES, f"{TRACES}/x", EXPORT, "/relay/v1/tenant"])
def test_the_audit_is_for_those_who_may_read_it(
    server: RunningServer, clients: dict[str, httpx.Client], path: str
):
    assert clients["rita"].get(path).status_code == 403
    assert clients["stranger"].get(path).status_code == 403
    assert httpx.get(server.url + path, timeout=PATIENCE_S).status_code == 401
    assert clients["ada"].post(path).status_code == 405


def test_tenant_sets_its_retention(clients: dict[str, httpx.Client]):
    kim, tenant = clients["kim"], "/relay/v1/tenant"
    assert kim.get(tenant).json() == {
        "keepEventsFor": "365d",
        "keepPayloadsFor": "30d",
        "payloads": "masked",
        "tenantId": "kept",
        "origin": "store",
        "rev": 0,
    }
    asked = {"keepEventsFor": "10d", "keepPayloadsFor": "1d", "payloads": "full"}
    assert kim.put(tenant, json=asked).json() == {**asked, "tenantId": "kept", "origin": "store", "rev": 1}
    assert kim.get(tenant).json()["payloads"] == "full"
    assert clients["oscar"].get(tenant).json()["payloads"] == "masked"
    change = kim.get(EVENTS, params={"auditType": "POLICY_LIFECYCLE"}).json()["content"][0]
    assert change["sourceUser"] == {"id": "kim", "name": "kim"}
    assert change["metadata"]["after"] == asked


def test_retention_change_needs_the_current_revision(clients: dict[str, httpx.Client]):
    oscar, tenant = clients["oscar"], "/relay/v1/tenant"
    seen = str(oscar.get(tenant).json()["rev"])
    first = oscar.put(tenant, json={"payloads": "none"}, headers={"If-Match": seen})
    late = oscar.put(tenant, json={"keepEventsFor": "90d"}, headers={"If-Match": seen})
    assert (first.status_code, late.status_code, late.json()["error"]) == (200, 409, "conflict")
    assert oscar.get(tenant).json()["payloads"] == "none"


@pytest.mark.parametrize(
    ("body", "about"),
    [
        ({"payloads": "some"}, "payloads"),
        ({"keepEventsFor": "for ever"}, "keepEventsFor"),
        ({"keepEventsFor": "1d", "keepPayloadsFor": "2d"}, "longer"),
        ({"keepEvents": "1d"}, "keepEvents"),
    ],
)
def test_invalid_retention_is_refused(clients: dict[str, httpx.Client], body: Any, about: str):
    reply = clients["kim"].put("/relay/v1/tenant", json=body)
    assert reply.status_code == 400
    assert about in reply.json()["message"]


def test_audit_reader_cannot_change_retention(auditor: httpx.Client):
    assert auditor.put("/relay/v1/tenant", json={"payloads": "none"}).status_code == 403


def test_retention_from_settings_cannot_be_changed_by_the_api(clients: dict[str, httpx.Client]):
    fay = clients["fay"]
    assert fay.get("/relay/v1/tenant").json()["payloads"] == "none"
    assert fay.put("/relay/v1/tenant", json={"payloads": "full"}).status_code == 409
    assert fay.get("/relay/v1/tenant").json()["origin"] == "settings"
