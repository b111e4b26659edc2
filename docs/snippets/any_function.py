"""One function behind a person: in the terminal, on a page, and over days."""

import os

from placet import PlacetClient
from placet.errors import ApprovalPending
from placet.hook import ServerReviews, SqliteSaver, requires_approval

client = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
reviews = ServerReviews(client)


@requires_approval("Refunds over 100 need approval", when=lambda call, state: call.arguments["amount"] > 100)
def refund(order: str, amount: int) -> str:
    return f"refunded {amount} for {order}"


assert refund("order-16", 20) == "refunded 20 for order-16"


@requires_approval("Deployments need approval", reviews=reviews)
async def deploy(version: str) -> str:
    return f"deployed {version}"


@requires_approval(reviews=reviews, saver=SqliteSaver("calls.db"), key=lambda call: call.arguments["order"])
def cancel_order(order: str) -> dict[str, str]:
    return {"cancelled": order}


seen = ""
try:
    cancel_order("order-17")
except ApprovalPending as pending:
    print("Please decide:", pending.details["review_url"])
    seen = pending.details["review_url"]

assert seen.startswith("http")
client.close()
