"""Which names are names of secrets: `userToken` and `x-api-key` are, `max_tokens` and `secretary` are not.

One rule for structured data and for `key: value` pairs found in text. It never looks at values.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache, lru_cache


def words_of(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


# Always a secret, unless the name goes on to something one knows about it (`password_policy`).
STRONG = words_of(
    "password passwords passwd passwds pwd passphrase passcode secret secrets credential credentials "
    "creds apikey apikeys accesskey secretkey privatekey signingkey encryptionkey sessionid sessionkey "
    "sessiontoken"
)
# A secret only as the last word, or followed by a word for its value (`token_bucket` is data).
WEAK = words_of("token jwt bearer authorization cookie cookies session")
# Words that make the `key` after them one to a lock.
KEY_OF = words_of(
    "api access private secret encryption decryption signing master auth account storage shared "
    "subscription service ssh session admin client deploy hmac"
)
# Words that make the `pass` after them a password: a `first_pass` or a `boarding_pass` is none.
PASS_OF = words_of(
    "account admin amqp auth basic cert client database db email ftp http imap jdbc keystore ldap login mail mongo "
    "mongodb mqtt mysql my pg postgres proxy rabbitmq redis root router server sftp smtp sql ssh sudo truststore "
    "user vault wifi"
)
ABOUT = words_of(
    "age algorithm arn at attempts changed count counts created days disabled enabled endpoint expiration "
    "expire expired expires expiry field fields file hint id ids label len length limit limits manager "
    "max min name names path policies policy present provider ref required rule rules scope scopes size "
    "status store strength ttl type types updated uri url used valid version"
)
VALUE = words_of(
    "base64 b64 bytes confirm confirmation current data digest enc encoded encrypted hash header hex id "
    "key new old plain plaintext raw secret str string text v val value"
)
NOT_A_CREDENTIAL = words_of("bos cls continuation eos mask max min next num pad page sep stop total unk")
PLURAL_OF = words_of("access api auth bearer id oauth refresh session")

_ENDS = (
    *("password", "passwd", "passphrase", "secret", "token", "credential", "credentials"),
    *("apikey", "accesskey", "secretkey", "privatekey", "sessionid"),
)
_WHOLE = frozenset(
    stem + tail for stem in ("password", "passwd", "secret", "token") for tail in ("hash", "value", "key")
)
_LONGEST = 128


@cache
def _word() -> re.Pattern[str]:
    return re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


class Names:
    """The names of secrets: the built-in rule, and the names a user adds."""

    def __init__(self, extra: Collection[str] = ()) -> None:
        #: Whether a user has added any: these are known in every spelling, so that no part of one tells them.
        self.extended = bool(extra)
        self._exact = frozenset("".join(words(name)) for name in extra)
        self._extra = tuple(tuple(words(name)) for name in extra)
        self.match = lru_cache(maxsize=2048)(self._match)

    def _match(self, name: str) -> bool:
        found = words(name[-_LONGEST:])
        if not found:
            return False
        if "".join(found) in self._exact:
            return True
        return is_secret(found) or any(self._mentions(found, wanted) for wanted in self._extra)

    def _mentions(self, found: list[str], wanted: tuple[str, ...]) -> bool:
        if not wanted or found[-1] in ABOUT:
            return False
        return any(tuple(found[at : at + len(wanted)]) == wanted for at in range(len(found)))


def words(name: str) -> list[str]:
    """A name's words, in lower case: `userToken`, `user-token` and `USER_TOKEN` have the same."""
    return [word.lower() for word in _word().findall(name)]


def is_pass(name: str) -> bool:
    """Whether this is the one name whose value decides: a text under `pass` is a password, a number counts tests."""
    return name in ("pass", "PASS", "Pass")


def is_secret(found: list[str]) -> bool:
    """Whether these words, taken together, name a secret."""
    return any(_is_secret_at(found, at) for at in range(len(found)))


def _is_secret_at(found: list[str], at: int) -> bool:
    word, before, after = found[at], found[:at], [w for w in found[at + 1 :] if not w.isdigit()]
    if word in ("key", "keys") and before and before[-1] in KEY_OF:
        return not after or after[-1] not in ABOUT
    if word == "pass":
        return bool(before) and before[-1] in PASS_OF and not after
    if word == "tokens":
        return bool(before) and before[-1] in PLURAL_OF and not after
    if word in WEAK:
        return all(w in VALUE for w in after) and not (before and before[-1] in NOT_A_CREDENTIAL)
    if word in STRONG or word in _WHOLE or word.endswith(_ENDS):
        return not after or after[-1] not in ABOUT
    return False
