"""What of a tool's result is not for models. Every surface that tells one leaves it out."""

from __future__ import annotations

from typing import Any, Final

from fairlead.actions import Action

#: Where an action says in its metadata which keys of its result are not for models.
HIDDEN: Final = "not_for_models"


def for_models(action: Action[..., Any], data: Any) -> Any:
    """What a tool gave, without what only people can use: a drawing, say."""
    hidden = action.metadata.get(HIDDEN)
    if not hidden or not isinstance(data, dict):
        return data
    return {key: value for key, value in data.items() if key not in hidden}
