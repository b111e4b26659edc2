"""The contract suites of Channel.

A channel's tests subclass a contract and provide a fixture `harness`; see `placet.testing.platforms`.
"""

import logging
import traceback
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from placet.errors import ChannelRefused, PlacetError, SettingsError, SignatureInvalid, Unreachable
from placet.ports.channel import Button
from placet.testing.platforms import (
    ACTIONS,
    CLOSURES,
    HIDDEN,
    HOSTILE,
    MARKUP,
    REVIEW_TOKEN,
    REVIEW_URL,
    ChannelHarness,
    InteractiveHarness,
    sample_card,
    sample_closure,
)


@pytest.mark.anyio
class SendingContract:
    """Tests of sent cards and closures: complete, without active markup, within the platform's limits."""

    @pytest.mark.parametrize("type", ACTIONS)
    async def test_every_type_is_shown_with_its_link_and_no_limit_broken(
        self, harness: ChannelHarness, type: str
    ) -> None:
        card = sample_card(type)
        sent_message = await harness.channel.send(card)
        (shown,) = harness.list_messages()
        assert shown.problems == ()
        assert card.prompt in shown.text
        assert "Acme" in shown.text
        assert "Open until" in shown.text
        assert "If nobody answers" in shown.text
        assert card.review_url in shown.links
        assert sent_message.channel == harness.channel.name
        assert sent_message.message_id

    @pytest.mark.parametrize("type", ["selection", "input"])
    async def test_a_question_without_inline_actions_shows_only_the_link(
        self, harness: ChannelHarness, type: str
    ) -> None:
        await harness.channel.send(sample_card(type))
        (shown,) = harness.list_messages()
        assert shown.references == ()
        assert REVIEW_URL in shown.links

    @pytest.mark.parametrize("name", HOSTILE)
    async def test_a_hostile_question_breaks_nothing(self, harness: ChannelHarness, name: str) -> None:
        card = sample_card(**HOSTILE[name])
        sent_message = await harness.channel.send(card)
        (shown,) = harness.list_messages()
        assert shown.problems == ()
        assert set(shown.links) == {REVIEW_URL}
        assert not set(shown.text) & set("\u202e\u200b\x00\x1b")
        assert all(label.strip() for label in shown.labels)
        await harness.channel.mark_closed(sent_message, card, sample_closure(by=MARKUP + HIDDEN * 99))
        assert [one.problems for one in harness.list_messages()] == [()] * len(harness.list_messages())
        assert harness.list_messages()[-1].references == ()

    async def test_markup_is_read_as_it_was_written(self, harness: ChannelHarness) -> None:
        await harness.channel.send(sample_card(prompt=MARKUP))
        assert MARKUP in harness.list_messages()[0].text

    @pytest.mark.parametrize(
        "review_url",
        [
            f"http://localhost:8400/review/review_1?token={REVIEW_TOKEN}",
            f"http://127.0.0.1:8400/review/review_1?token={REVIEW_TOKEN}",
            f"http://[::1]:8400/review/review_1?token={REVIEW_TOKEN}",
            f"https://acme.example/{'deep/' * 130}review?token={REVIEW_TOKEN}&a=1&b=_*2*_",
        ],
        ids=["localhost", "IPv4", "IPv6", "long"],
    )
    async def test_any_link_is_offered(self, harness: ChannelHarness, review_url: str) -> None:
        await harness.channel.send(sample_card(review_url=review_url))
        (shown,) = harness.list_messages()
        assert shown.problems == ()
        assert review_url in shown.links

    async def test_an_endless_link_is_refused_or_shown_whole(self, harness: ChannelHarness) -> None:
        review_url = f"https://acme.example/{'x' * 50_000}?token={REVIEW_TOKEN}"
        try:
            await harness.channel.send(sample_card(review_url=review_url))
        except ChannelRefused as error:
            refusal = error.message
            assert harness.list_messages() == []
        else:
            refusal = ""
            (shown,) = harness.list_messages()
            assert shown.problems == ()
            assert review_url in shown.links
        assert REVIEW_TOKEN not in refusal

    async def test_a_reminder_is_a_message_of_its_own_and_says_so(self, harness: ChannelHarness) -> None:
        card = sample_card()
        first = await harness.channel.send(card)
        second = await harness.channel.send(replace(card, is_reminder=True))
        assert first.message_id != second.message_id
        shown = harness.list_messages()
        assert len(shown) == 2
        assert "Reminder" not in shown[0].text
        assert "Reminder" in shown[1].text
        assert REVIEW_URL in shown[1].links

    @pytest.mark.parametrize("words", CLOSURES)
    async def test_an_ended_question_has_no_buttons_and_says_how_it_ended(
        self, harness: ChannelHarness, words: str
    ) -> None:
        card = sample_card()
        sent_message = await harness.channel.send(card)
        # A restarted process closes the message without the buttons' references.
        await harness.channel.mark_closed(sent_message, replace(card, buttons=()), CLOSURES[words])
        last = harness.list_messages()[-1]
        assert words in last.text
        assert last.references == ()
        assert last.problems == ()
        assert len(harness.list_messages()) == (1 if harness.can_edit else 2)

    async def test_every_copy_of_a_message_is_updated(self, harness: ChannelHarness) -> None:
        card = sample_card()
        sent = [await harness.channel.send(card) for _ in range(3)]
        for sent_message in sent:
            await harness.channel.mark_closed(sent_message, card, sample_closure())
        closed = [shown for shown in harness.list_messages() if "Approved by Ada" in shown.text]
        assert len(closed) == 3

    async def test_settling_twice_has_no_further_effect(self, harness: ChannelHarness) -> None:
        card = sample_card()
        sent_message = await harness.channel.send(card)
        for _ in range(2):
            await harness.channel.mark_closed(sent_message, card, sample_closure())
        assert "Approved by Ada" in harness.list_messages()[-1].text

    async def test_a_refused_message_raises_channel_refused(self, harness: ChannelHarness) -> None:
        harness.refuse_next()
        with pytest.raises(ChannelRefused):
            await harness.channel.send(sample_card())
        assert harness.list_messages() == []

    async def test_a_rate_limited_message_is_sent_later(self, harness: ChannelHarness) -> None:
        harness.slow_down_next()
        await harness.channel.send(sample_card())
        assert len(harness.list_messages()) == 1

    async def test_an_invalid_platform_response_raises_unreachable(self, harness: ChannelHarness) -> None:
        harness.fail_next()
        with pytest.raises(Unreachable):
            await harness.channel.send(sample_card())

    async def test_no_secret_is_logged_or_reported(
        self, harness: ChannelHarness, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        errors: list[PlacetError] = []
        troubles: list[Callable[[], None]] = [harness.refuse_next, harness.fail_next, lambda: None]
        for trouble in troubles:
            trouble()
            try:
                sent_message = await harness.channel.send(sample_card())
            except PlacetError as error:
                errors.append(error)
            else:
                await harness.channel.mark_closed(sent_message, sample_card(), sample_closure())
        assert len(errors) == 2
        written = caplog.text + "".join(
            f"{error.body()}{''.join(traceback.format_exception(error))}" for error in errors
        )
        assert [secret for secret in (*harness.secrets, REVIEW_TOKEN) if secret in written] == []
        assert [
            secret for secret in harness.secrets for one in harness.list_messages() if secret in one.text
        ] == []


@pytest.mark.anyio
class NotListeningContract:
    """Tests of a channel without `listen`: interactions arrive by webhook only, or not at all."""

    async def test_listening_raises_if_the_channel_cannot_listen(self, harness: ChannelHarness) -> None:
        with pytest.raises(SettingsError):
            async for _ in harness.channel.listen():
                pass


@pytest.mark.anyio
class InteractionContract:
    """Tests of interactions: authenticated, with the user's id, and equal when delivered again."""

    @pytest.mark.parametrize("type", ["approval", "confirmation", "escalation", "x-vote"])
    async def test_every_button_is_shown_with_its_label_and_reference(
        self, harness: InteractiveHarness, type: str
    ) -> None:
        card = sample_card(type)
        await harness.channel.send(card)
        (shown,) = harness.list_messages()
        assert shown.references == tuple(button.reference for button in card.buttons)
        assert shown.labels == tuple(button.label for button in card.buttons)

    async def test_an_interaction_names_the_button_and_the_user(self, harness: InteractiveHarness) -> None:
        card = sample_card()
        sent_message = await harness.channel.send(card)
        for button in card.buttons:
            request = harness.press(sent_message, button.reference, user_id="4711", name="Ada")
            (interaction,) = (await harness.channel.handle_webhook(request)).interactions
            assert interaction.reference == button.reference
            assert interaction.user.platform == harness.channel.name
            assert interaction.user.user_id == harness.get_user_id("4711")
            assert interaction.user.name is None or "Ada" in interaction.user.name
            assert interaction.via == harness.via

    async def test_the_longest_reference_comes_back_whole(self, harness: InteractiveHarness) -> None:
        longest = "aZ09_-.:" * 4
        button = Button(action="approve", label="Approve", reference=longest)
        sent_message = await harness.channel.send(sample_card(buttons=(button,)))
        (shown,) = harness.list_messages()
        assert shown.references == (longest,)
        result = await harness.channel.handle_webhook(
            harness.press(sent_message, longest, user_id="7", name="Ada")
        )
        assert result.interactions[0].reference == longest

    async def test_a_repeated_interaction_has_the_same_id(self, harness: InteractiveHarness) -> None:
        card = sample_card()
        sent_message = await harness.channel.send(card)
        request = harness.press(sent_message, card.buttons[0].reference, user_id="7", name="Ada")
        first, again = (
            await harness.channel.handle_webhook(request),
            await harness.channel.handle_webhook(request),
        )
        assert first.interactions == again.interactions
        other = harness.press(sent_message, card.buttons[0].reference, user_id="7", name="Ada")
        assert (await harness.channel.handle_webhook(other)).interactions[0].id != first.interactions[0].id

    async def test_the_platform_gets_an_immediate_response(self, harness: InteractiveHarness) -> None:
        card = sample_card()
        sent_message = await harness.channel.send(card)
        result = await harness.channel.handle_webhook(
            harness.press(sent_message, card.buttons[0].reference, user_id="7", name="Ada")
        )
        assert 200 <= result.status < 300

    async def test_a_call_without_a_valid_signature_is_refused(self, harness: InteractiveHarness) -> None:
        card = sample_card()
        sent_message = await harness.channel.send(card)
        request = harness.press(sent_message, card.buttons[0].reference, user_id="7", name="Ada")
        forgeries = harness.forgeries(request)
        assert forgeries
        for forgery in forgeries:
            with pytest.raises(SignatureInvalid):
                await harness.channel.handle_webhook(forgery)

    async def test_a_call_without_an_interaction_is_only_acknowledged(
        self, harness: InteractiveHarness
    ) -> None:
        for request in harness.noise():
            result = await harness.channel.handle_webhook(request)
            assert result.interactions == ()
            assert result.status < 500

    async def test_the_user_who_pressed_gets_a_reply(self, harness: InteractiveHarness) -> None:
        card = sample_card()
        sent_message = await harness.channel.send(card)
        result = await harness.channel.handle_webhook(
            harness.press(sent_message, card.buttons[0].reference, user_id="7", name="Ada")
        )
        await harness.channel.reply(result.interactions[0], "Your answer was recorded.")
        assert list(harness.list_replies()) == ["Your answer was recorded."]

    async def test_the_response_reports_the_result_where_the_platform_allows(
        self, harness: InteractiveHarness
    ) -> None:
        card = sample_card()
        sent_message = await harness.channel.send(card)
        request = harness.press(sent_message, card.buttons[0].reference, user_id="7", name="Ada")
        reply = (await harness.channel.handle_webhook(request)).reply
        body = reply("Your answer was recorded.") if reply is not None else b"Your answer was recorded."
        assert b"Your answer was recorded." in body

    async def test_a_long_reply_is_truncated(self, harness: InteractiveHarness) -> None:
        card = sample_card()
        sent_message = await harness.channel.send(card)
        result = await harness.channel.handle_webhook(
            harness.press(sent_message, card.buttons[0].reference, user_id="7", name="Ada")
        )
        await harness.channel.reply(result.interactions[0], "word " * 5_000)
        (shown,) = harness.list_replies()
        assert shown.startswith("word word")
        assert shown.endswith("…")
        assert [one.problems for one in harness.list_messages()] == [()] * len(harness.list_messages())

    async def test_a_hostile_name_is_made_visible(self, harness: InteractiveHarness) -> None:
        card = sample_card()
        sent_message = await harness.channel.send(card)
        request = harness.press(
            sent_message, card.buttons[0].reference, user_id="7", name="Ada\u202e\n" + "x" * 900
        )
        name = (await harness.channel.handle_webhook(request)).interactions[0].user.name or ""
        assert not set(name) & set("\u202e\n")
        assert len(name) <= 200


class ChannelContract(SendingContract, InteractionContract):
    """All tests for a platform with native buttons."""
