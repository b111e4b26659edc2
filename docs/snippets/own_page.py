"""A service that shows cases on a page of its own, and sends the answers to Placet."""

import os
import secrets
from html import escape

from flask import Flask, abort, request

from placet import PlacetClient

placet = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
app = Flask(__name__)
waiting: dict[str, tuple[str, str]] = {}
"""Ticket -> the case and what it asks; a table of your database."""


def ask(question: str) -> dict:
    """The 202 body: its review_url is your page."""
    ticket = secrets.token_urlsafe(32)
    asked = placet.open("confirmation", question, review_url=f"https://shop.example/decide/{ticket}")
    waiting[ticket] = asked["hitl"]["case_id"], question
    return asked


@app.get("/decide/<ticket>")
def show(ticket: str) -> str:
    _, question = waiting.get(ticket) or abort(404)
    buttons = "".join(f"<button name=action value={word}>{word}</button>" for word in ("confirm", "cancel"))
    return f"<form method=post><p>{escape(question)}</p>{buttons}</form>"


@app.post("/decide/<ticket>")
def decide(ticket: str) -> str:
    case_id, _ = waiting.get(ticket) or abort(404)
    person = {"name": "Ada", "email": "ada@shop.example"}  # whom your service has signed in
    said = placet.answer(case_id, request.form["action"], responded_by=person)
    return f"Your answer was recorded at {said['completed_at']}."


asked = ask("Delete the backup of 2019?")
page = asked["hitl"]["review_url"].removeprefix("https://shop.example")
browser = app.test_client()
assert "Delete the backup" in browser.get(page).text
assert "recorded" in browser.post(page, data={"action": "confirm"}).text
assert placet.status(asked["hitl"]["case_id"])["responded_by"]["name"] == "Ada"
placet.close()
