"""Secrets go, prose and data stay, twice is the same as once, and hostile text costs its length."""

from __future__ import annotations

import base64
import datetime
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead import _json
from fairlead.failures import Failure, Issue, Kind, Redactor, action, gateway, host, names, runtime, tool
from fairlead.failures.redaction import DEFAULT

HEX = "0123456789abcdef" * 4
ALNUM = "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA2bC5"
# Put together here, so that nobody's scanner takes them for real ones.
TOKENS = [
    "sk-" + ALNUM,
    "sk-" + "proj-" + ALNUM,
    "sk_" + "live_" + ALNUM,
    "pk_" + "test_" + ALNUM,
    "rk-" + ALNUM,
    *("gh" + letter + "_" + ALNUM for letter in "pousr"),
    "github_pat_" + ALNUM + "_" + ALNUM,
    "glpat-" + ALNUM[:20],
    "flk_" + ALNUM[:12] + "_" + ALNUM,
    *("xox" + letter + "-1234567890-" + ALNUM for letter in "bpasr"),
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ASIA" + "IOSFODNN7EXAMPLE",
    "AIza" + ALNUM[:35],
    "npm_" + ALNUM,
    "pypi-" + "AgEIcHlwaS5vcmc" + ALNUM,
    "hf_" + ALNUM,
    "oag_" + HEX,
    "bak_" + HEX,
    "whsec_" + ALNUM,
    "SG." + ALNUM[:22] + "." + ALNUM,
    "ya29." + ALNUM,
    "dop_v1_" + HEX,
    "shpat_" + HEX[:32],
    "glsa_" + ALNUM,
    "dckr_pat_" + ALNUM,
    "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0" + ".c2lnbmF0dXJl-" + ALNUM,
    "eyJhbGciOiJub25lIn0.e30.",
    "-----BEGIN RSA PRIVATE KEY-----\n" + ALNUM + "\n" + HEX + "\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\\n" + ALNUM,
]
SECRET = "hu/nt+er2.Z"
WITH_SECRET = [
    "Authorization: Bearer {}",
    "authorization: bearer {}, retrying",
    "Authorization: {}",
    "Authorization: Custom {} more",
    "Authorization=Token {}",
    'Authorization: Digest username="bob", response="{}"',
    'curl -H "Authorization: Custom {}" https://api.example',
    "{{'Authorization': 'Custom {}'}}",
    "Proxy-Authorization: Custom {}",
    "sent Bearer {} to the server",
    "BEARER {}",
    "Cookie: sid={}; theme=dark",
    "Set-Cookie: theme=dark; sid={}",
    "cookie={}",
    "password: {}",
    "password={}",
    "password = {}",
    "password => {}",
    "PASSWORD:{}",
    'password="{}"',
    "password='{} and more'",
    '"password": "{} with spaces"',
    '"password": "spaces and {}"',
    '"password": "an \\" escaped quote and {}"',
    "'password': 'it\\'s {}'",
    '{{\\"password\\": \\"twice wrapped {}\\"}}',
    "password=b'{} bytes'",
    'password="{} never closed',
    'secret: {{"value": "{}"}}',
    "secret: [first, {}]",
    "userToken={}",
    "clientSecret: {}",
    "client_secret={}&grant=x",
    "x-api-key: {}",
    "X-API-Key={}",
    "apiKey={}",
    "API key: {}",
    "private key: {}",
    "passwordHash={}",
    "access_token={}",
    "refresh_token: {}",
    "session={}",
    "sessionId: {}",
    "aws_secret_access_key = {}",
    "SecretAccessKey: {}",
    "PGPASSWORD={}",
    "config.db.password={}",
    "AccountKey={};EndpointSuffix=x",
    "mysql --password {} -h db",
    "pass={}",
    "https://h.example/p?user=bob&pass={}",
    '{{"user": "bob", "pass": "{} with spaces"}}',
    "DB_PASS={}",
    "smtp_pass: {}",
    "token_v2={}",
    "tokenV2: {}",
    "user[password]={}&user[name]=bob",
    "params['password'] = '{} with spaces'",
    "cli --api-key={}",
    "postgres://user:{}@db.example/app",
    "redis://:{}@cache:6379/0",
    "amqp://user:a@b{}@mq.example",
    "https://h.example/p?api_key={}&user=bob",
    "https://h.example/p?user=bob&token={}",
    "https://h.example/p?sig={}#part",
    "password= Authorization=Token {}",
    'password= secret="in quotes {}"',
    "token: cookie: a=b; c={}",
    "cli --password --token {}",
    "password= BEARER {}",
    'password= "password": "{} with spaces"',
    "password= password: {}",
    'Cookie: " password="{}"',
]
PROSE = [
    "the token was refused",
    "password must have 8 characters",
    "Expected key: value pairs",
    "password: Field required",
    "Invalid token: expected a string",
    "Bearer token missing",
    "basic authentication required",
    "the secretary keeps the cookies in a jar",
    "max_tokens: 100",
    "token_count=3, tokens_used: 9",
    "session_count=2",
    "secretary: Ann",
    "password_policy: strict",
    "http://localhost:8080/users/a@b.example",
    "https://git@code.example/x/y",
    "10:30 on 2024-01-02, 3 of 5 done",
    "task-abcdefghijklmnop in risk_assessment_module",
    "npm_config_registry and hf_transformers",
    "primary key: id",
    '{"password": null, "token": true}',
    "see --password for more",
    "std::vector<int> x = {}",
    "pass=12 fail=3",
    "PASS: test_login",
    "first_pass=ok, boarding_pass: A12",
    "compass: north, bypass=all, passenger: Ann",
    "[session]: started",
]
PLACEHOLDERS = ["[REDACTED]", "***", "<hidden>", "(removed by policy)", "x"]
HOSTILE = [
    "a",
    "a:",
    "password=",
    "password= ",
    'password="',
    "password: [",
    "password=,",
    "password=\\",
    "://",
    "://u:p@",
    "a ",
    "Bearer ",
    "-----BEGIN PRIVATE KEY-----",
    "eyJ",
    "eyJa.",
    "sk-",
    "token=&",
    "--password ",
    "Authorization: ",
    'Cookie: "',
    "secret key ",
    "\\",
    " ",
    "_",
    "=",
    "{",
    '"',
]


def everything_told(failure: Failure) -> str:
    bodies: list[Any] = [wire.render(failure) for wire in (action, tool, host, gateway, runtime)]
    bodies += [gateway.error_frame(failure), gateway.done_frame(failure), runtime.tool_response("i", failure)]
    bodies.append(tool.dumps(tool.render(failure, tool="t")))
    return _json.dumps(bodies)


def failure_full_of(text: str) -> Failure:
    return Failure(
        Kind.invalid_input,
        text,
        field=text,
        expected=text,
        issues=[Issue((text,), "odd", text, text, text)],
        details={"note": text, "deep": [{"list": (text, {text})}], text: 1, "error": ValueError(text)},
    )


@pytest.mark.parametrize("token", TOKENS, ids=[token[:9].strip("-") for token in TOKENS])
@pytest.mark.parametrize(
    "around", ["{}", "got {} from the peer", "({})", "key {}, then", "x={}", '"{}"', "a/{}/b"]
)
def test_a_token_is_known_by_its_looks(token: str, around: str) -> None:
    for part in (token, *token.split("\n")[1:2]):
        assert part not in DEFAULT.text(around.format(token))


@pytest.mark.parametrize("template", WITH_SECRET)
def test_a_secret_is_known_by_what_stands_before_it(template: str) -> None:
    shown = DEFAULT.text(template.format(SECRET))
    for part in (SECRET, "hu/nt", "er2.Z"):
        assert part not in shown
    assert "[REDACTED]" in shown


@pytest.mark.parametrize("template", WITH_SECRET)
@pytest.mark.parametrize("secret", ["x", "opaque", "12345678", "pä55wörd", "a-b_c.d~e"])
def test_any_value_is_a_secret_in_a_secret_s_place(template: str, secret: str) -> None:
    shown = DEFAULT.text(template.format(f"{secret}QQQ"))
    assert "QQQ" not in shown


def test_basic_credentials_are_known_by_what_they_decode_to() -> None:
    credentials = base64.b64encode(b"user:hunter2").decode()
    assert credentials not in DEFAULT.text(f"sent Basic {credentials} along")
    assert credentials not in DEFAULT.text(f"Authorization: Basic {credentials}")


@pytest.mark.parametrize("prose", PROSE)
def test_prose_and_data_survive(prose: str) -> None:
    assert DEFAULT.text(prose) == prose


def test_what_stands_around_a_secret_survives() -> None:
    assert (
        DEFAULT.text("user: bob, password: hunter2, port: 80") == "user: bob, password: [REDACTED], port: 80"
    )
    assert DEFAULT.text("https://h/p?token=abc&user=bob") == "https://h/p?token=[REDACTED]&user=bob"
    assert DEFAULT.text("postgres://bob:pw@db/app") == "postgres://bob:[REDACTED]@db/app"
    assert DEFAULT.text('{"password": "a b", "n": 1}') == '{"password": "[REDACTED]", "n": 1}'


@pytest.mark.parametrize("template", WITH_SECRET)
@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_redacting_twice_changes_nothing(template: str, placeholder: str) -> None:
    redactor = Redactor(placeholder=placeholder)
    once = redactor.text(template.format(SECRET))
    assert SECRET not in once
    assert placeholder in once
    assert redactor.text(once) == once


PIECES = st.sampled_from(
    [
        *WITH_SECRET,
        *PROSE,
        *HOSTILE,
        *TOKENS[:6],
        "[REDACTED]",
        "\n",
        " ",
        "'",
        '"',
        ";",
        "&",
        ",",
        "abc",
        "]",
    ]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=8).map("".join))
def test_redacting_twice_changes_nothing_for_any_text(text: str) -> None:
    once = DEFAULT.text(text)
    assert DEFAULT.text(once) == once


NAMES_OF_SECRETS = sorted(
    names.STRONG | names.WEAK | names.KEY_OF | names.PASS_OF | names.PLURAL_OF | names._WHOLE
)
NAMES = st.lists(
    st.sampled_from([*NAMES_OF_SECRETS, *names._ENDS, "key", "keys", "pass", "tokens", "x"]),
    min_size=1,
    max_size=3,
)


@given(
    NAMES, st.sampled_from(["", "_", "-", "."]), st.sampled_from([str.lower, str.upper, str.title]), PIECES
)
def test_whatever_is_hidden_could_be_told_before(
    words: list[str], between: str, spelled: Callable[[str], str], text: str
) -> None:
    name = between.join(map(spelled, words))
    for value in ({name: "x"}, {name: 1}, {"deep": [{"name": name, "value": "x"}]}, [text], f"{name}={text}"):
        if DEFAULT.value(value) != value:
            assert DEFAULT.may_hide(_json.dumps(value))


@pytest.mark.parametrize("text", [*TOKENS, *(template.format(SECRET) for template in WITH_SECRET)])
def test_a_text_with_a_secret_may_hide_one(text: str) -> None:
    assert DEFAULT.may_hide(_json.dumps([text]))
    assert not DEFAULT.may_hide(
        _json.dumps({"file": "orders-2026_11.csv", "to": "https://shop.example/a?b=c"})
    )
    assert Redactor(["pin"]).may_hide(_json.dumps({"p_in": "4711"}))


@given(
    st.text(alphabet=st.characters(min_codepoint=33, exclude_characters="\"'`\\"), min_size=3, max_size=30)
)
def test_any_quoted_password_is_hidden(secret: str) -> None:
    assume(secret not in "[REDACTED]" and secret not in '{"password": ""}')
    assert secret not in DEFAULT.text(f'{{"password": "{secret}"}}')


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_takes_time_in_proportion_to_its_length(piece: str) -> None:
    def cost(length: int) -> float:
        text = piece * (length // len(piece))
        best = float("inf")
        for _ in range(3):
            start = time.thread_time()
            DEFAULT.text(text)
            best = min(best, time.thread_time() - start)
        return best

    # A quadratic scan would take sixteen times as long for four times the text.
    assert cost(80_000) < 10 * cost(20_000) + 0.05


@pytest.mark.parametrize(
    "key",
    [
        *("password", "Passwd", "pwd", "passphrase", "secret", "token", "apikey", "api_key", "authorization"),
        *("cookie", "session", "x-api-key", "access_token", "refresh_token", "private_key", "client_secret"),
        *(
            "userToken",
            "clientSecret",
            "X-Api-Key",
            "passwordHash",
            "PGPASSWORD",
            "dbPassword",
            "db.password",
        ),
        *(
            "accessToken",
            "accesstoken",
            "idToken",
            "sessionId",
            "session_token",
            "Set-Cookie",
            "awsSecretAccessKey",
        ),
        *(
            "AWS_SECRET_ACCESS_KEY",
            "OPENAI_API_KEY",
            "stripeApiKey2",
            "signing_key",
            "credentials",
            "authToken",
        ),
        *("Proxy-Authorization", "x-csrf-token", "oauth_tokens", "APIKey", "token_value", "password2", "jwt"),
        *("db_pass", "SMTP_PASS", "mysqlPass", "token_v2", "tokenV2", "token2"),
    ],
)
def test_a_field_is_hidden_by_its_name(key: str) -> None:
    for value in ("plain", 12345, ["a"], {"a": 1}):
        assert DEFAULT.value({"outer": [{key: value}]}) == {"outer": [{key: "[REDACTED]"}]}


@pytest.mark.parametrize(
    "key",
    [
        *("max_tokens", "token_count", "tokens_used", "session_count", "secretary", "tokens", "total_tokens"),
        *(
            "prompt_tokens",
            "maxTokens",
            "tokenizer",
            "token_type",
            "token_bucket",
            "password_policy",
            "secret_name",
        ),
        *(
            "password_changed_at",
            "passwordless",
            "key",
            "primary_key",
            "public_key",
            "author",
            "session_timeout",
        ),
        *(
            "next_page_token",
            "cookie_policy",
            "keyboard",
            "monkey",
            "api_version",
            "access",
            "cookiecutter",
            "",
        ),
        *("passenger", "compass", "bypass", "first_pass", "boardingPass", "pass_rate", "token_vocabulary"),
    ],
)
def test_a_field_that_only_sounds_like_a_secret_stays(key: str) -> None:
    assert DEFAULT.value({key: "plain"}) == {key: "plain"}


def test_a_text_under_pass_is_a_secret_and_a_number_is_none() -> None:
    told = DEFAULT.value({"pass": "plain", "inner": {"pass": 12, "fail": 3}})
    assert told == {"pass": "[REDACTED]", "inner": {"pass": 12, "fail": 3}}


def test_none_and_yes_and_no_are_no_secrets() -> None:
    value = {"password": None, "secret": True, "token": False}
    assert DEFAULT.value(value) == value


def test_a_user_s_keys_extend_the_built_in_ones_in_every_spelling() -> None:
    redactor = Redactor(keys=["ssn", "credit_card", "tokens"])
    value = {
        "ssn": "1",
        "userSsn": "2",
        "creditCard": "3",
        "CREDIT-CARD-NUMBER": "4",
        "tokens": ["5"],
        "password": "6",
    }
    assert set(redactor.value(value).values()) == {"[REDACTED]"}
    assert redactor.value({"ssn_count": 1, "token_count": 2}) == {"ssn_count": 1, "token_count": 2}
    assert redactor.text("ssn: 078-05-1120, creditCard=4111") == "ssn: [REDACTED], creditCard=[REDACTED]"
    assert Redactor(keys="ssn").text("ssn=1 s=2") == "ssn=[REDACTED] s=2"


def test_the_placeholder_is_used_everywhere() -> None:
    redactor = Redactor(placeholder="***")
    failure = failure_full_of(f"password=hunter2 and {TOKENS[0]}")
    for wire in (action, tool, host, gateway, runtime):
        told = _json.dumps(wire.render(failure, redactor=redactor))
        assert "hunter2" not in told
        assert "REDACTED" not in told
        assert "***" in told


@pytest.mark.parametrize("placeholder", ["", "  ", 'a"b', "a'b", "a\nb", "a\\b"])
def test_a_placeholder_that_would_break_text_is_refused(placeholder: str) -> None:
    with pytest.raises(ValueError):
        Redactor(placeholder=placeholder)


def test_values_are_copied_and_dates_stay_dates() -> None:
    when = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
    value = {"when": when, "day": when.date(), "rows": [(1, "a")], "text": "ok"}
    copy = DEFAULT.value(value)
    assert copy == value
    assert copy is not value
    assert copy["rows"] is not value["rows"]


def test_what_json_has_no_word_for_becomes_its_redacted_text() -> None:
    class Request:
        def __str__(self) -> str:
            return "password=hunter2"

    class Mute:
        def __str__(self) -> str:
            raise RuntimeError

    shown = DEFAULT.value(
        {"a": ValueError("password=hunter2"), "b": Request(), "c": b"token=x1", "d": {1}, "e": Mute()}
    )
    assert shown == {
        "a": "ValueError: password=[REDACTED]",
        "b": "password=[REDACTED]",
        "c": "token=[REDACTED]",
        "d": [1],
        "e": "[Mute]",
    }


def test_shared_values_are_fine_and_circles_are_cut() -> None:
    shared = {"n": 1}
    assert DEFAULT.value([shared, shared]) == [shared, shared]
    circle: dict[str, Any] = {"n": 1}
    circle["self"] = circle
    assert DEFAULT.value(circle) == {"n": 1, "self": "[Circular]"}


def test_bottomless_values_are_cut() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert "[Too deep]" in str(DEFAULT.value(deep))
    assert action.render(Failure(Kind.internal, "m", details={"deep": deep}))["details"]


def test_a_redacted_failure_is_a_copy_that_keeps_what_is_not_secret() -> None:
    cause = ValueError("inner")
    failure = gateway.Conflict("password=hunter2", field="token", details={"password": "x"}, cause=cause)
    shown = DEFAULT.failure(failure)
    assert shown.message == "password=[REDACTED]"
    assert shown.details == {"password": "[REDACTED]"}
    assert (type(shown), shown.code, shown.field, shown.__cause__) == (
        gateway.Conflict,
        "conflict",
        "token",
        cause,
    )
    assert failure.message == "password=hunter2"


@pytest.mark.parametrize("token", TOKENS, ids=[token[:9].strip("-") for token in TOKENS])
def test_no_token_appears_in_a_rendered_failure(token: str) -> None:
    told = everything_told(failure_full_of(f"the peer said {token} and hung up"))
    assert ALNUM not in told
    assert token not in told


@pytest.mark.parametrize("template", WITH_SECRET)
def test_no_named_secret_appears_in_a_rendered_failure(template: str) -> None:
    assert SECRET not in everything_told(failure_full_of(template.format(SECRET)))


@given(
    st.sampled_from(WITH_SECRET),
    st.text(alphabet=st.characters(categories=["L", "N"]), min_size=6, max_size=20),
    st.sampled_from(["", "Failed: ", "row 3, ", "see (", "\n"]),
)
def test_no_secret_of_any_spelling_appears_in_a_rendered_failure(
    template: str, secret: str, before: str
) -> None:
    secret = f"Q{secret}Q"
    failure = failure_full_of(before + template.format(secret))
    assert secret not in _json.dumps(_json.loads(everything_told(failure)))


def test_a_secret_sent_by_a_peer_is_not_passed_on() -> None:
    for wire in (action, tool, host, gateway, runtime):
        body: dict[str, Any] = {
            "code": TOKENS[0],
            "kind": TOKENS[0],
            "error": TOKENS[0],
            "message": "m",
            "detail": TOKENS[0],
        }
        body |= {"password": "hunter2", "origin": {"family": "tool", "code": TOKENS[0]}}
        told = everything_told(wire.parse(body))
        assert "hunter2" not in told
        assert ALNUM not in told


def test_harmless_text_comes_back_as_the_same_object() -> None:
    text = "Loaded 3 items from the disk"
    assert DEFAULT.text(text) is text
