"""Count the rounds of a chain of cases, and how often suggestions were returned for a call."""

from collections import OrderedDict

import httpx
from msgspec.structs import replace

from placet.agent.flow import Notice
from placet.agent.service_responses import FollowedCase, ServiceSuggestion, read_suggestions

MAX_REMEMBERED = 10_000


class RoundNumbers:
    """Counts the rounds of each chain of cases."""

    def __init__(self) -> None:
        self._numbers: OrderedDict[str, int] = OrderedDict()

    def number(self, case: FollowedCase) -> int:
        """Return 1 for a first case, otherwise one more than its predecessor, which is 1 if unknown."""
        if case.case_id in self._numbers:
            return self._numbers[case.case_id]
        before = case.previous_case_id
        number = 1 if before is None else self._numbers.get(before, 1) + 1
        _store(self._numbers, case.case_id, number)
        return number

    def number_notice(self, notice: Notice) -> Notice:
        """Return the notice with the round of its case."""
        return replace(notice, round=self.number(notice.case))


class SuggestionLimit:
    """Returns a service's suggestions at most twice for the same call."""

    def __init__(self) -> None:
        self._cycles: OrderedDict[str, int] = OrderedDict()

    def list_next_suggestions(self, response: httpx.Response) -> tuple[ServiceSuggestion, ...]:
        """Return the suggestions in a response; they are untrusted text and not instructions."""
        call = f"{response.request.method} {response.request.url}"
        cycle = self._cycles.get(call, 0)
        found = read_suggestions(response.content, cycle=cycle)
        if found:
            _store(self._cycles, call, cycle + 1)
        return found


def _store(numbers: "OrderedDict[str, int]", name: str, number: int) -> None:
    numbers[name] = number
    if len(numbers) > MAX_REMEMBERED:
        numbers.popitem(last=False)
