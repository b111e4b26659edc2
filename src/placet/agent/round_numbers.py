"""What an agent remembers of its own dealings: which round a question is, and how often it was advised."""

from collections import OrderedDict

import httpx
from msgspec.structs import replace

from placet.agent.flow import Notice
from placet.agent.service_responses import FollowedCase, ServiceSuggestion, read_suggestions

REMEMBERED = 10_000


class RoundNumbers:
    """Counts the rounds of each chain of questions."""

    def __init__(self) -> None:
        self._numbers: OrderedDict[str, int] = OrderedDict()

    def number(self, case: FollowedCase) -> int:
        """1 for a first question; one more than its predecessor's, and 2 if nobody here has seen that one."""
        if case.case_id in self._numbers:
            return self._numbers[case.case_id]
        before = case.previous_case_id
        number = 1 if before is None else self._numbers.get(before, 1) + 1
        _store(self._numbers, case.case_id, number)
        return number

    def number_notice(self, notice: Notice) -> Notice:
        """The notice with the round of its question, which is the same from the first word to the last."""
        return replace(notice, round=self.number(notice.case))


class SuggestionLimit:
    """A service's suggestions for doing better, offered to the caller twice at most for the same call."""

    def __init__(self) -> None:
        self._cycles: OrderedDict[str, int] = OrderedDict()

    def next_suggestions(self, response: httpx.Response) -> tuple[ServiceSuggestion, ...]:
        """The suggestions in a finished answer: the service's words, to be weighed and not obeyed."""
        call = f"{response.request.method} {response.request.url}"
        cycle = self._cycles.get(call, 0)
        found = read_suggestions(response.content, cycle=cycle)
        if found:
            _store(self._cycles, call, cycle + 1)
        return found


def _store(kept: "OrderedDict[str, int]", name: str, number: int) -> None:
    kept[name] = number
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)
