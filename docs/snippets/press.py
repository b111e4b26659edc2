import httpx


def press(hitl: dict, action: str, user_id: str) -> httpx.Response:
    """Send what the user pressed; only after they pressed it."""
    return httpx.post(
        hitl["submit_url"],
        headers={"Authorization": f"Bearer {hitl['submit_token']}", "Idempotency-Key": f"{user_id} {action}"},
        json={
            "action": action,
            "submitted_via": "telegram_inline_button",
            "submitted_by": {"platform": "telegram", "platform_user_id": user_id},
        },
    )


# What follows is for the tests.
import os  # noqa: E402

from placet import PlacetClient  # noqa: E402

with PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"]) as placet:
    hitl = placet.open("confirmation", "Restart?", inline_actions=["confirm", "cancel"])["hitl"]
    assert press(hitl, "retry", "7").json()["error"] == "invalid_action"
    assert press(hitl, "confirm", "7").status_code == 200
    assert press(hitl, "confirm", "7").status_code == 200
    assert press(hitl, "cancel", "8").json()["error"] == "duplicate_submission"
    poll = placet.status(hitl["case_id"])
    assert poll["submission_context"]["submitted_by"]["platform_user_id"] == "7"
    assert "responded_by" not in poll
