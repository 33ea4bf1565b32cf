"""Asking the resolvers of an edge, in order, who is calling. Whatever they do wrong ends as a failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from fairlead.failures import Failure, from_exception
from fairlead.failures.redaction import DEFAULT, Redactor
from fairlead.runtime.hooks import report
from fairlead.runtime.redaction import for_callers
from fairlead.surfaces.auth import ANONYMOUS, Caller
from fairlead.surfaces.auth.credentials import InvalidCredentials, credential

if TYPE_CHECKING:
    from fairlead.surfaces.http.asgi import Request

Answer = Caller | Mapping[str, Any] | None
Resolver = Callable[["Request"], Answer | Awaitable[Answer]]


async def resolve(
    resolvers: Resolver | Iterable[Resolver], request: Request, redactor: Redactor = DEFAULT
) -> Caller:
    """The caller by the first resolver that knows one, or nobody. What breaks is logged as the app would show it.

    Raises:
        Failure: a resolver refused the credentials, or broke.
    """
    asked = (resolvers,) if callable(resolvers) else tuple(resolvers)
    for resolver in asked:
        try:
            answer: Any = resolver(request)
            if isawaitable(answer):
                answer = await answer
            caller = _caller(answer)
        except Failure as failure:
            told = for_callers(redactor, failure)
            if told is failure:
                raise
            raise told from failure
        except Exception as exc:
            report("A context resolver failed.", redactor)
            # What it says may tell of the inside, and whoever is asking has not said who they are.
            raise Failure(
                from_exception(exc).kind, "The caller could not be identified: the server's resolver failed."
            ) from exc
        if caller is not None:
            return caller
    if any(getattr(resolver, "reads_credentials", False) for resolver in asked) and credential(request):
        raise InvalidCredentials("The request's credentials are of no kind that is known here.")
    return ANONYMOUS


def _caller(answer: Any) -> Caller | None:
    """What a resolver's answer says; nothing where it names neither user, credentials nor metadata."""
    if isinstance(answer, Mapping):
        answer = Caller(answer.get("user"), answer.get("auth"), answer.get("metadata") or ANONYMOUS.metadata)
    if not isinstance(answer, Caller):
        return None
    if not isinstance(answer.metadata, Mapping):
        answer = answer._replace(metadata=ANONYMOUS.metadata)
    return None if answer.user is None and answer.auth is None and not answer.metadata else answer
