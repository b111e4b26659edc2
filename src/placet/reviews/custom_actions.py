"""Custom actions: those that a case of a standard type declares beyond the actions of its type.

A reviewer and an agent must never take one for an action that the protocol defines.
"""

from collections import Counter
from collections.abc import Sequence

from placet.errors import ValidationFailed
from placet.reviews.declaration import TypeDeclaration
from placet.text.characters import keep_letters


def list_affirmative_actions(
    declared: TypeDeclaration, actions: Sequence[str], affirmative: Sequence[str]
) -> tuple[str, ...]:
    """Return those of the actions that are a yes, in their order; none if all actions are the type's.

    Raises ValidationFailed for a name that cannot be declared, and if the reviewer could not say no.
    """
    custom = [action for action in actions if action not in declared.action_names]
    for action in custom:
        if not declared.allows_custom_action(action):
            raise ValidationFailed(
                f"actions: {action!r} reads like an action that the review types define. Rename it."
            )
    if twice := [name for name, count in Counter(map(keep_letters, custom)).items() if count > 1]:
        raise ValidationFailed(f"actions: several read as {twice[0]!r}. Rename all but one.")
    for one in declared.actions:
        if not one.is_affirmative and one.name not in actions:
            raise ValidationFailed(f"actions: add {one.name!r}, so that a person can always say no.")
        if not one.is_affirmative and one.name in affirmative:
            raise ValidationFailed(f"affirmative_actions: {one.name!r} is never a yes. Leave it out.")
    if not custom:
        return ()
    return tuple(one for one in actions if one in affirmative or one in declared.affirmative_actions)
