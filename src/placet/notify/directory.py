"""The recipients of the settings, and the rules that choose them."""

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from placet.notify.settings import NotifyRule, NotifySettings, list_answerers
from placet.ports.recipients import CaseTraits, Recipient


class SettingsDirectory:
    """Implements `RecipientDirectory` with the `[notify]` section of the settings."""

    def __init__(self, settings: NotifySettings) -> None:
        self._rules = settings.rules
        self._recipients = {
            name: Recipient(name=name, addresses=one.send_to, answerers=list_answerers(one), kinds=one.events)
            for name, one in settings.recipients.items()
        }

    async def choose(self, traits: CaseTraits) -> Sequence[str]:
        """Return the names of the recipients that the rules choose for a case."""
        chosen = (name for rule in self._rules if matches(rule, traits) for name in rule.recipients)
        return tuple(dict.fromkeys(chosen))

    async def resolve(self, names: Collection[str]) -> Sequence[Recipient]:
        """Return the recipients with these names, in their order; unknown names are left out."""
        return [self._recipients[name] for name in names if name in self._recipients]


def matches(rule: NotifyRule, traits: CaseTraits) -> bool:
    """Return whether the rule applies to a case: each condition that it sets holds."""
    return (
        (not rule.types or any(fnmatchcase(traits.type, one) for one in rule.types))
        and (not rule.entry_points or traits.entry_point in rule.entry_points)
        and (not rule.principals or traits.principal in rule.principals)
        and (not rule.labels or any(label in rule.labels for label in traits.labels))
    )
