from placet import Placet

placet = Placet(base_url="http://localhost:8000/placet")

PASSKEY = {
    "mode": "required",
    "required_for": ["browser_submit"],
    "requirements": {"any_of": [{"all_of": [{"proof_type": "x-passkey"}]}]},
    "binding": {"case_id": True, "action": True, "freshness_seconds": 300, "single_use": True},
    "fallback": {"on_missing": "reject", "on_invalid": "reject"},
}


async def ask_to_pay(amount: str):
    return await placet.confirmation(
        f"Pay {amount}?", verification_policy=PASSKEY, reviewers=["ada@acme.example"], owner="shop"
    )


# What follows is for the tests.
import asyncio  # noqa: E402

import msgspec  # noqa: E402


async def main() -> None:
    hitl = msgspec.json.decode((await ask_to_pay("40 EUR")).body)["hitl"]
    assert hitl["verification_policy"] == PASSKEY
    await placet.aclose()


asyncio.run(main())
