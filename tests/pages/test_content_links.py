"""Where an address leads is said, and what imitates another is pointed out."""

import pytest

from placet.pages.content import ValueRenderer
from placet.pages.content.links import find_disguise, find_ordinary_host, find_warning, imitates, is_link
from placet.pages.language import ENGLISH
from tests.pages.markup import Markup

VALUES = ValueRenderer(ENGLISH)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "https://xn--pple-43d.com/",
            "imitates letters of another script: аpple.com, really xn--pple-43d.com",
        ),
        ("https://аpple.com/", "imitates letters of another script: аpple.com, really xn--pple-43d.com"),
        ("https://аррӏе.com/", "imitates letters of another script"),
        ("https://gооgle.com/", "imitates letters of another script"),
        ("https://ρaypal.com/", "imitates letters of another script"),
        ("https://xn--mnchen-3ya.de/", "written with special letters: münchen.de, really xn--mnchen-3ya.de"),
        ("https://почта.рф/", "written with special letters"),
        ("https://日本語.jp/", "written with special letters"),
        ("https://192.168.0.1/login", "is a number, not a name: 192.168.0.1"),
        ("https://2130706433/", "is a number, not a name"),
        ("https://0x7f.1/", "is a number, not a name"),
        ("https://[::1]/", "is a number, not a name"),
        ("https://google.com@evil.example/", "leads to evil.example"),
        ("http://user:secret@evil.example/", "leads to evil.example"),
    ],
)
def test_an_odd_address_is_pointed_out_in_words(address: str, said: str) -> None:
    assert said in (find_warning(address) or "")
    shown = " ".join(Markup(str(VALUES.show(address))).text.split())
    assert said in shown
    assert address in shown


@pytest.mark.parametrize(
    "address",
    [
        "https://example.com",
        "https://sub.example.co.uk:8443/a/b?c=d&e=f#g",
        "https://a-b.example/%20x",
        "https://4chan.example/",
    ],
)
def test_an_ordinary_address_is_left_alone(address: str) -> None:
    assert is_link(address)
    assert find_warning(address) is None
    link = Markup(str(VALUES.show(address))).all("a")[0]
    assert link["href"] == address
    assert link["rel"] == "noopener noreferrer nofollow"
    assert link["referrerpolicy"] == "no-referrer"
    assert link["target"] == "_blank"


def test_odd_addresses_inside_a_text_are_pointed_out_once() -> None:
    text = (
        "See https://аpple.com/a, then (https://аpple.com/b) and https://example.com.\nOr http://10.0.0.1/x"
    )
    shown = Markup(str(VALUES.show(text))).text
    assert shown.count("imitates letters of another script") == 1
    assert shown.count("is a number, not a name: 10.0.0.1") == 1
    assert shown.count("This address") == 2
    formatted = Markup(str(VALUES.show({"format": "markdown", "content": text}))).text
    assert formatted.count("is a number, not a name") == 1


def test_the_quick_look_never_takes_what_the_careful_one_refuses() -> None:
    odd = [
        "https://xn--a.com/",
        "https://a.xn--b.com/",
        "https://user@host.com/",
        "https://1.2.3.4/",
        "https://localhost/",
        "https://exa mple.com/",
        'https://example.com/"x',
        "https://example.com/<x",
        "HTTPS://example.com/",
    ]
    assert [address for address in odd if find_ordinary_host(address)] == []
    assert is_link("https://example.com/a@b") == bool(find_ordinary_host("https://example.com/a@b"))


def test_the_host_stands_out() -> None:
    assert "https://<b>example.com</b>/a" in VALUES.show("https://example.com/a")


def test_what_may_not_be_a_link_is_text() -> None:
    for address in (
        "http://example.com/",
        "https://a@b.example/",
        "javascript:alert(1)",
        "https://аpple.com/",
    ):
        page = Markup(str(VALUES.show(address)))
        assert page.all("a") == []
        assert address in page.text


@pytest.mark.parametrize(
    ("text", "address", "odd"),
    [
        ("apple.com", "https://evil.example/", True),
        ("https://apple.com/login", "https://evil.example/", True),
        ("APPLE.com", "https://apple.com/", False),
        ("www.apple.com", "https://apple.com/", False),
        ("our dashboard", "https://apple.com/", False),
        ("version 4.2", "https://apple.com/", False),
        ("4.2", "https://apple.com/", False),
    ],
)
def test_a_text_that_names_another_address_is_a_disguise(text: str, address: str, odd: bool) -> None:
    assert (find_disguise(text, address) is not None) is odd


def test_scripts_that_belong_together_imitate_nothing() -> None:
    assert not imitates("日本語ひらがなカタカナ.jp")
    assert not imitates("example.com")
    assert not imitates("größe.de")
    assert imitates("pаypal.com")
