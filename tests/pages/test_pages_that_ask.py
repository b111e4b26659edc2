"""The pages that wait for an answer, in a real browser: accessible, narrow, quiet under a strict policy."""

from typing import ClassVar

from tests.pages.gallery import every_page
from tests.pages.page_examination import Looks


class TestPagesThatAsk(Looks):
    """Every open question, in every state."""

    pages: ClassVar = {name: html for name, html in every_page().items() if 'class="bar"' in html}
