"""The pages that wait for nothing, and the steps of wizards, in a real browser: as good as those that ask."""

from typing import ClassVar

from tests.pages.gallery import every_page
from tests.pages.page_examination import Looks


class TestPagesThatTell(Looks):
    """Every page without a bar of answers."""

    pages: ClassVar = {name: html for name, html in every_page().items() if 'class="bar"' not in html}
