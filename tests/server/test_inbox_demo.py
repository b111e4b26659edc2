"""The demo's inbox: its terminal says where it is and how to sign in."""

import re
from pathlib import Path

from placet.reviews.registry import SAMPLES
from tests.cli.process import serving
from tests.server.inboxes import InboxPerson
from tests.waiting import eventually


def test_the_demo_prints_a_key_that_opens_its_inbox(tmp_path: Path) -> None:
    with serving(tmp_path, command="demo") as demo, demo.client(follow_redirects=True) as browser:
        eventually(lambda: "Ctrl+C stops" in demo.stdout)
        told = re.search(rf"{re.escape(demo.url())}/inbox\n\s+Sign in with this key: (\S+)\n", demo.stdout)
        assert told is not None
        person = InboxPerson(browser)
        assert person.sign_in(told[1]).status_code == 200
        listed = person.list_cases()
        assert len(listed) == len(SAMPLES)
        opened = person.page(listed[0])
        assert "Back to the inbox" in opened.text
        assert 'href="/inbox"' in browser.get("/").text
        eventually(lambda: f"…{listed[0][-6:]}  opened by a person" in demo.stdout)
