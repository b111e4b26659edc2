"""Policies are in force as soon as their change is told, and never none while others are made ready."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from placet.bootstrap.storage import open_memory_store
from placet.desk import clock
from placet.errors import SettingsError
from placet.ports.detector import PreparedRules, Rule, Scannable
from placet.ports.store import Store
from placet.relay.audit.audit_log import AuditLog
from placet.relay.detectors.policy_evaluator import PolicyEvaluator
from placet.relay.detectors.regex import RegexDetector
from placet.relay.detectors.registry import DetectorRegistry
from placet.relay.inspection.policy_cache import PolicyCache, read_settings_policies
from placet.relay.inspection.policy_repository import PolicyRepository
from placet.relay.policy.policy import Leg, Policy
from placet.relay.policy.policy_set import (
    StoredPolicy,
    build_binding_record,
    build_group_record,
    build_policy_record,
    build_revision_record,
)
from tests.relay.policies.samples import NOW, build_binding, build_group, build_regex_policy

TENANT = "acme"


async def store_bound_policies(store: Store, *policies: Policy, rev: int = 1, tenant: str = TENANT) -> None:
    """Put these policies in force for everyone of the tenant, in one change."""
    bound = build_group("g", *(one.policy_id for one in policies))
    await store.change_records(
        save=[
            *(
                build_policy_record(tenant, StoredPolicy(policy=one, created_by="t"), rev=1, now=NOW)
                for one in policies
            ),
            build_group_record(tenant, bound, rev=rev, now=NOW),
            *([build_binding_record(tenant, build_binding("b", "g"), rev=1, now=NOW)] if rev == 1 else []),
            build_revision_record(tenant, rev=rev, now=NOW),
        ]
    )


def build_policy_cache(
    store: Store, detectors: DetectorRegistry, settings_policies: list[Policy] | None = None
) -> PolicyCache:
    repository = PolicyRepository(
        store,
        audit_log=AuditLog(store, now=clock.now),
        now=clock.now,
        settings_policies=settings_policies or (),
    )
    return PolicyCache(repository, detectors)


@asynccontextmanager
async def open_policy_cache(
    store: Store,
    *,
    settings_policies: list[Policy] | None = None,
    detectors: DetectorRegistry | None = None,
) -> AsyncIterator[PolicyCache]:
    found = build_policy_cache(store, detectors or DetectorRegistry([RegexDetector()]), settings_policies)
    try:
        yield found
    finally:
        await found.aclose()


async def evaluate_text(inspector: PolicyEvaluator | None, text: str) -> str:
    assert inspector is not None
    pieces = [Scannable("message.parts[0].text", text)]
    found = await inspector.inspect(pieces, source="a", sink="b", leg=Leg.REQUEST_TO_SINK, at=clock.now())
    return found.outcome.value


async def wait_for_outcome(policy_cache: PolicyCache, text: str, wanted: str, tenant: str = TENANT) -> None:
    async with asyncio.timeout(60):
        while await evaluate_text(policy_cache.find(tenant), text) != wanted:  # noqa: ASYNC110 - told by nobody
            await asyncio.sleep(0.005)


@contextmanager
def capture_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING, logger="placet.relay"):
        yield


@pytest.mark.anyio
async def test_stored_policies_are_in_force_for_their_tenant_only() -> None:
    store = open_memory_store()
    await store_bound_policies(store, build_regex_policy("secret"))
    async with open_policy_cache(store) as policy_cache:
        await policy_cache.open()
        assert await evaluate_text(policy_cache.find(TENANT), "a secret") == "BLOCK"
        assert await evaluate_text(await policy_cache.load_evaluator("other"), "a secret") == "PASS"


@pytest.mark.anyio
async def test_policies_of_the_settings_are_in_force_for_the_default_tenant_besides_stored_ones() -> None:
    store = open_memory_store()
    await store_bound_policies(store, build_regex_policy("secret", "MASK"), tenant="default")
    async with open_policy_cache(
        store, settings_policies=[build_regex_policy("password", "BLOCK", "file")]
    ) as policy_cache:
        await policy_cache.open()
        found = policy_cache.find("default")
        assert [await evaluate_text(found, text) for text in ("secret", "password")] == ["MASK", "BLOCK"]
        assert await evaluate_text(await policy_cache.load_evaluator("other"), "password") == "PASS"


@pytest.mark.anyio
async def test_a_change_is_in_force_once_a_reload_returns() -> None:
    store = open_memory_store()
    await store_bound_policies(store, build_regex_policy("secret"))
    async with open_policy_cache(store) as policy_cache:
        await policy_cache.open()
        await store_bound_policies(store, build_regex_policy("password", policy_id="p2"), rev=2)
        await policy_cache.reload(TENANT)
        found = policy_cache.find(TENANT)
        assert [await evaluate_text(found, text) for text in ("secret", "password")] == ["PASS", "BLOCK"]


@pytest.mark.anyio
async def test_stored_change_is_loaded_in_the_background() -> None:
    store = open_memory_store()
    await store_bound_policies(store, build_regex_policy("secret"))
    async with open_policy_cache(store) as policy_cache:
        await policy_cache.open()
        await store_bound_policies(store, build_regex_policy("password", policy_id="p2"), rev=2)
        await wait_for_outcome(policy_cache, "password", "BLOCK")


@pytest.mark.anyio
async def test_policies_of_a_new_tenant_are_loaded() -> None:
    store = open_memory_store()
    async with open_policy_cache(store) as policy_cache:
        await policy_cache.open()
        await store_bound_policies(store, build_regex_policy("secret"), tenant="new")
        assert await evaluate_text(await policy_cache.load_evaluator("new"), "secret") == "BLOCK"


@pytest.mark.anyio
async def test_the_old_policies_serve_until_the_new_ones_are_ready() -> None:
    class Gated(RegexDetector):
        def __init__(self) -> None:
            super().__init__()
            self.loop = asyncio.get_running_loop()
            self.preparing = asyncio.Event()
            self.may_go_on = asyncio.Event()
            self.may_go_on.set()

        def prepare(self, rules: Sequence[Rule]) -> PreparedRules:
            self.loop.call_soon_threadsafe(self.preparing.set)
            asyncio.run_coroutine_threadsafe(self.may_go_on.wait(), self.loop).result(60)
            return super().prepare(rules)

    store, detector = open_memory_store(), Gated()
    await store_bound_policies(store, build_regex_policy("secret"))
    async with open_policy_cache(store, detectors=DetectorRegistry([detector])) as policy_cache:
        await policy_cache.open()
        detector.may_go_on.clear()
        detector.preparing.clear()
        await store_bound_policies(store, build_regex_policy("password", policy_id="p2"), rev=2)
        await asyncio.wait_for(detector.preparing.wait(), 60)
        found = policy_cache.find(TENANT)
        assert [await evaluate_text(found, text) for text in ("secret", "password")] == ["BLOCK", "PASS"]
        detector.may_go_on.set()
        await wait_for_outcome(policy_cache, "password", "BLOCK")


@pytest.mark.anyio
async def test_policies_that_fail_to_compile_leave_the_old_ones_and_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = open_memory_store()
    await store_bound_policies(store, build_regex_policy("secret"))
    async with open_policy_cache(store) as policy_cache:
        await policy_cache.open()
        assert not policy_cache.failures
        dangling = build_group_record(TENANT, build_group("g", "nowhere"), rev=2, now=NOW)
        with capture_logs(caplog):
            await store.change_records(save=[dangling, build_revision_record(TENANT, rev=2, now=NOW)])
            await policy_cache.reload(TENANT)
        assert "earlier policies stay in force" in policy_cache.failures[TENANT]
        assert "policy_load_failed" in caplog.text
        assert await evaluate_text(policy_cache.find(TENANT), "secret") == "BLOCK"

        repaired = build_group_record(TENANT, build_group("g", "p1"), rev=3, now=NOW)
        await store.change_records(save=[repaired, build_revision_record(TENANT, rev=3, now=NOW)])
        await policy_cache.reload(TENANT)
        assert not policy_cache.failures


@pytest.mark.anyio
async def test_policies_that_cannot_be_loaded_at_start_block_their_tenant(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = open_memory_store()
    await store_bound_policies(store, build_regex_policy("secret"))
    broken = replace(
        build_revision_record(TENANT, rev=2, now=NOW), kind="binding", id="broken", rev=1, body=b"{"
    )
    await store.save_record(broken)
    async with open_policy_cache(store) as policy_cache:
        with capture_logs(caplog):
            await policy_cache.open()
        assert policy_cache.find(TENANT) is None
        assert await policy_cache.load_evaluator(TENANT) is None
        assert "no messages pass" in policy_cache.failures[TENANT]
        assert policy_cache.find("default") is not None


def test_policies_of_the_settings_that_cannot_be_checked_here_stop_the_start() -> None:
    with pytest.raises(SettingsError, match="no detector for"):
        build_policy_cache(open_memory_store(), DetectorRegistry([]), [build_regex_policy("secret")])


@pytest.mark.parametrize("content", ["", "nonsense", "[[policies]]\nname = 'x'"])
def test_a_file_without_sound_policies_stops_the_start(tmp_path: Path, content: str) -> None:
    file = tmp_path / "policies.toml"
    file.write_text(content)
    with pytest.raises(SettingsError, match=r"relay\.policies"):
        read_settings_policies(str(file), now=NOW)


def test_a_file_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_settings_policies(str(tmp_path / "none.toml"), now=NOW)


def test_file_policy_keeps_its_id_until_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "policies.toml"
    config = "[config]\ntype = 'REGEX_DETECTION'\nenabledLegs = {requestToSink = true}\n"
    file.write_text(f"name = 'x'\n{config}pattern = {{regex = 'a', action = 'LOG'}}\n")
    [first] = read_settings_policies(str(file), now=NOW)
    [again] = read_settings_policies(str(file), now=clock.now())
    assert first.policy_id == again.policy_id
    file.write_text(f"name = 'x'\n{config}pattern = {{regex = 'b', action = 'LOG'}}\n")
    [other] = read_settings_policies(str(file), now=NOW)
    assert other.policy_id != first.policy_id
