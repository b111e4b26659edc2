"""`placet db copy` moves a SQLite file into PostgreSQL, whole and verified."""

import asyncio
from pathlib import Path

import pytest

from placet.bootstrap.storage import copy_database, open_store
from placet.desk.log_verification import LogTotals, verify_log
from placet.errors import MigrationError, SettingsError
from placet.ports.audit_store import AuditFilter
from placet.ports.store import Store
from placet.testing.contracts.case_store import create_answered_case, create_sample_case
from placet.testing.relay_samples import (
    create_held_case,
    sample_audit,
    sample_hold,
    sample_record,
    sample_task,
)
from placet.testing.samples import sample_api_key, sample_endpoint, sample_idempotency_record
from tests.stores.postgres_database import empty_database


async def fill(path: Path) -> list[str]:
    """Store something of everything, and return the ids of the cases."""
    store = await open_store(str(path))
    answered = await create_answered_case(store)
    endpoint = sample_endpoint(secret="whsec_first")
    asked = await create_sample_case(store, endpoint=endpoint, replay=sample_idempotency_record("key"))
    await store.save_api_key(sample_api_key("acme"))
    await store.save_record(sample_record())
    await store.save_tasks([sample_task(id="zero \0 and one \1")])
    await create_held_case(store, sample_hold())
    await store.add_audit_events([sample_audit() for _ in range(3)])
    await store.aclose()
    return [answered.id, asked.case.id]


async def read(store: Store, case_ids: list[str]) -> list[object]:
    cases = [(await store.get_case_and_offer(one), await store.list_events(one)) for one in case_ids]
    audited = await store.list_audit_events("acme", AuditFilter(), page=0, size=50)
    return [
        cases,
        audited,
        await store.list_api_keys(),
        await store.count_log(),
        await store.get_usage("acme"),
    ]


def test_a_file_is_copied_whole_and_goes_on_in_its_new_place(tmp_path: Path, postgres_url: str) -> None:
    path = tmp_path / "placet.db"
    case_ids = asyncio.run(fill(path))
    asyncio.run(empty_database(postgres_url))
    copied = copy_database(str(path), postgres_url)
    assert copied["cases"] == 3
    assert copied["audit_events"] >= 3

    async def compare() -> None:
        source, target = await open_store(str(path)), await open_store(postgres_url)
        assert await read(target, case_ids) == await read(source, case_ids)
        assert await target.get_endpoint("acme", "https://acme.example/callback") is not None
        assert [one async for one in verify_log(target, (), LogTotals())] == []
        await create_answered_case(target)
        await target.save_api_key(sample_api_key("umbrella"))
        await target.add_audit_events([sample_audit()])
        assert [one async for one in verify_log(target, (), LogTotals())] == []
        await source.aclose()
        await target.aclose()

    asyncio.run(compare())
    with pytest.raises(SettingsError, match="not empty"):
        copy_database(str(path), postgres_url)


def test_only_a_current_sqlite_file_is_copied_into_postgresql(tmp_path: Path, postgres_url: str) -> None:
    with pytest.raises(SettingsError, match="nothing else"):
        copy_database(postgres_url, str(tmp_path / "other.db"))
    with pytest.raises(SettingsError, match="no database"):
        copy_database(str(tmp_path / "missing.db"), postgres_url)
    (tmp_path / "other.db").write_bytes(b"no database at all, but long enough to be taken for one" * 20)
    with pytest.raises(MigrationError):
        copy_database(str(tmp_path / "other.db"), postgres_url)
