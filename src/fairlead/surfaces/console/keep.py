"""What a browser may keep of an input: everything but its secrets.

Secrets are known by name: by the rule that the app redacts by, and by the members that a schema declares to be
secret (`SecretStr`, `writeOnly`).
"""

from __future__ import annotations

from typing import Any

from fairlead.failures.redaction import Redactor
from fairlead.schema.secrecy import declared_secrets, is_secret, masked, members


def keepable(value: Any, schema: dict[str, Any], redactor: Redactor) -> Any:
    """A copy of the input with a placeholder for each secret in it."""
    if is_secret(schema, schema):
        return redactor.placeholder
    return redactor.value(masked(value, secret_names(schema, redactor), redactor.placeholder))


def secret_names(schema: dict[str, Any], redactor: Redactor) -> frozenset[str]:
    """The names of members whose values are secrets."""
    by_name = (name for name, _ in members(schema) if redactor.names.match(name))
    return declared_secrets(schema).union(by_name)
