"""The four-eyes rule: the principal and the people who asked cannot approve, by any way to answer."""

from typing import Any

import pytest

from placet.cases.case import Case
from placet.desk.answer import Answer
from placet.desk.four_eyes import REFUSALS
from placet.errors import SecondPersonRequired, ValidationFailed
from placet.ports.store import Store
from placet.protocol.poll import RespondedBy, Status
from placet.reviews.registry import DECLARATIONS
from placet.testing.desk import ANONYMOUS, DeskForTests, OpenedCase, create_desk_for_tests

pytestmark = pytest.mark.anyio

ADA = RespondedBy(name="Ada", email="ada@acme.example")


async def answer(kit: DeskForTests, opened: OpenedCase, by: RespondedBy) -> Case:
    given = Answer(action="approve", data={}, path="browser_submit", actor="link:1", responded_by=by)
    return await kit.desk.answer(opened.id, given)


async def test_a_known_second_person_may_approve(kit: DeskForTests) -> None:
    case = await answer(kit, await kit.open(four_eyes=True), ADA)
    assert (case.status, case.decision is not None) == (Status.COMPLETED, True)


@pytest.mark.parametrize("name", ["acme", "Acme", " ACME ", "ａｃｍｅ", "асmе"])
async def test_the_principal_that_asked_cannot_approve(kit: DeskForTests, name: str) -> None:
    opened = await kit.open(four_eyes=True)
    with pytest.raises(SecondPersonRequired):
        await answer(kit, opened, RespondedBy(name=name))
    assert (await kit.desk.store.get_case(opened.id)).status is Status.PENDING  # type: ignore[union-attr]


@pytest.mark.parametrize("asker", ["Ada", "ada@acme.example", "ADA@ACME.EXAMPLE"])
async def test_a_person_who_asked_through_the_principal_cannot_approve(kit: DeskForTests, asker: str) -> None:
    opened = await kit.open(four_eyes=True, asked_by=["somebody", asker])
    with pytest.raises(SecondPersonRequired):
        await answer(kit, opened, ADA)
    await answer(kit, opened, RespondedBy(name="Grace"))


async def test_the_agent_cannot_approve_with_the_review_link_it_got(kit: DeskForTests) -> None:
    opened = await kit.open(four_eyes=True)
    with pytest.raises(SecondPersonRequired):
        await kit.human(opened).answer("approve")
    colleague = await kit.human(opened).pass_on()
    with pytest.raises(SecondPersonRequired):
        await colleague.answer("approve")


async def test_the_agent_cannot_approve_with_the_submit_token_it_got(kit: DeskForTests) -> None:
    opened = await kit.open(four_eyes=True, inline_actions=["approve", "reject"])
    with pytest.raises(SecondPersonRequired) as caught:
        await kit.human(opened).press("approve")
    assert (caught.value.code, caught.value.status) == ("verification_required", 403)
    assert (await kit.human(opened).press("reject")).status == "completed"


@pytest.mark.parametrize("person", [RespondedBy(), RespondedBy(name=" "), RespondedBy(name="", email="")])
async def test_a_person_without_a_name_is_not_known(kit: DeskForTests, person: RespondedBy) -> None:
    with pytest.raises(SecondPersonRequired):
        await answer(kit, await kit.open(four_eyes=True), person)


async def test_an_anonymous_question_has_no_second_person(kit: DeskForTests) -> None:
    with pytest.raises(SecondPersonRequired):
        await answer(kit, await kit.open(principal=ANONYMOUS, four_eyes=True), ADA)


async def test_anyone_with_the_link_may_reject(kit: DeskForTests) -> None:
    case = await kit.human(await kit.open(four_eyes=True)).answer("reject")
    assert case.status is Status.COMPLETED


async def test_a_custom_type_cannot_declare_a_refusal_affirmative(kit: DeskForTests) -> None:
    draft: dict[str, Any] = {"actions": ["reject", "wait"], "affirmative_actions": ["reject"]}
    opened = await kit.open("x-deploy", four_eyes=True, **draft)
    for action in ("reject", "wait"):
        with pytest.raises(SecondPersonRequired):
            await kit.human(opened).answer(action)


async def test_no_refusal_is_a_yes_in_any_type() -> None:
    for declaration in DECLARATIONS.values():
        assert not declaration.affirmative_actions & REFUSALS


async def test_the_server_can_require_it_for_every_case(store: Store) -> None:
    kit = create_desk_for_tests(store=store, four_eyes=True)
    for opened in (await kit.open(), await kit.open(four_eyes=False)):
        with pytest.raises(SecondPersonRequired):
            await kit.human(opened).answer("approve")


async def test_a_missing_answer_never_counts_as_an_approval(kit: DeskForTests) -> None:
    with pytest.raises(ValidationFailed, match="four-eyes"):
        await kit.open(four_eyes=True, default_action="approve", allow_default_approve=True)


async def test_it_is_off_by_default(kit: DeskForTests) -> None:
    opened = await kit.open()
    assert (await kit.human(opened).answer("approve")).status is Status.COMPLETED
