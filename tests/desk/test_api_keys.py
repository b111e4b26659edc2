"""API keys: shown once, kept as digests, revoked for good."""

from datetime import timedelta

import pytest

from placet.cases.tokens import digest_token
from placet.desk.api_keys import create_key, revoke_key
from placet.errors import ValidationFailed
from placet.ports.store import Store
from placet.testing.clock import DAYBREAK

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)


async def test_a_key_is_kept_as_its_digest_alone(store: Store) -> None:
    secret = await create_key(store, "ci", now=DAYBREAK)
    key = await store.get_api_key(digest_token(secret))
    assert key is not None
    assert (key.name, key.scopes, key.created_at) == ("ci", ("cases:write", "cases:read"), DAYBREAK)
    assert secret.startswith("placet_")
    assert secret not in repr(await store.list_api_keys())


async def test_keys_of_one_name_are_different_keys(store: Store) -> None:
    assert await create_key(store, "ci", now=DAYBREAK) != await create_key(store, "ci", now=DAYBREAK)
    assert len(await store.list_api_keys()) == 2


async def test_a_key_ends_at_its_expiry(store: Store) -> None:
    secret = await create_key(store, "ci", now=DAYBREAK, expires_for=HOUR)
    key = await store.get_api_key(digest_token(secret))
    assert key is not None
    assert key.is_valid(DAYBREAK + HOUR - timedelta(microseconds=1))
    assert not key.is_valid(DAYBREAK + HOUR)


async def test_a_revoked_key_stays_revoked_since_the_first_time(store: Store) -> None:
    secret = await create_key(store, "ci", now=DAYBREAK)
    (key,) = await store.list_api_keys()
    await revoke_key(store, key.id, DAYBREAK + HOUR)
    await revoke_key(store, key.id, DAYBREAK + 2 * HOUR)
    revoked = await store.get_api_key(digest_token(secret))
    assert revoked is not None
    assert revoked.revoked_at == DAYBREAK + HOUR
    assert not revoked.is_valid(DAYBREAK + HOUR)


@pytest.mark.parametrize("name", ["", "  ", "n" * 101, "a\nb", "\ud800"])
async def test_unprintable_key_name_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ValidationFailed):
        await create_key(store, name, now=DAYBREAK)
    assert not await store.list_api_keys()


@pytest.mark.parametrize(
    "name",
    [
        *("Payroll", "PAYROLL", " payroll", "payroll ", "pay\u00adroll", "payrol\N{HANGUL FILLER}l"),
        *(
            "p\N{CYRILLIC SMALL LETTER A}yroll",
            "payroll\N{VARIATION SELECTOR-1}",
            "payr\N{GREEK SMALL LETTER OMICRON}ll",
        ),
        *("payrolI", "payro1l", "\N{FULLWIDTH LATIN SMALL LETTER P}ayroll"),
        *("payr\N{ARMENIAN SMALL LETTER OH}ll", "\N{CHEROKEE LETTER TLV}AYROLL", "PAYRO\N{LISU LETTER LA}L"),
        "\N{LATIN LETTER SMALL CAPITAL P}AYROLL",
    ],
    ids=ascii,
)
async def test_a_key_that_people_could_take_for_another_principals_is_refused(
    store: Store, name: str
) -> None:
    await create_key(store, "payroll", now=DAYBREAK)
    with pytest.raises(ValidationFailed):
        await create_key(store, name, now=DAYBREAK)
    assert [key.name for key in await store.list_api_keys()] == ["payroll"]


async def test_names_that_differ_for_people_are_different_principals(store: Store) -> None:
    names = ["mail", "mall", "ci", "ci 2", "c i", "ada", "адам"]
    for name in (*names, *names):
        await create_key(store, name, now=DAYBREAK)
    assert len(await store.list_api_keys()) == 2 * len(names)


@pytest.mark.parametrize("name", ["relay:acme", "Relay:acme", "relay\N{FULLWIDTH COLON}acme"])
async def test_a_key_is_not_named_like_the_owner_of_held_messages(store: Store, name: str) -> None:
    with pytest.raises(ValidationFailed, match="reserved for the relay"):
        await create_key(store, name, now=DAYBREAK)


async def test_an_unknown_key_cannot_be_revoked(store: Store) -> None:
    with pytest.raises(ValidationFailed, match="no key"):
        await revoke_key(store, "nothing", DAYBREAK)
