"""`fairlead keys` for apps with agents, whose keys are in the store; and `fairlead audit`, who did what with them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fairlead.gateway.agents import SQL, own_agents
from fairlead.gateway.audit import MOST_LISTED, Audit
from fairlead.gateway.keys import ADMIN, MOST_PER_MINUTE, ApiKey, Keys
from fairlead.store import Store, open_store
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.console import YELLOW, harmless_line
from fairlead.surfaces.cli.hints import near_miss, wrong_option
from fairlead.surfaces.cli.render import table
from fairlead.surfaces.cli.spans import DATA_ROW, choose_store, span, whole

if TYPE_CHECKING:
    from fairlead.surfaces.cli.program import Program

#: Whose keys are that say nothing else, as the gateway has it.
OWNER = "local"


def new_key(program: Program, options: Options, name: str, expires: float | None) -> int:
    """Make a key and print it, this once."""
    given = options.values
    permissions = given.get("--permissions", "").replace(",", " ").split()
    if "--admin" in options.on:
        permissions.append(ADMIN)
    agents = given.get("--agents")
    minute = given.get("--per-minute")
    with _Opened(program) as store:
        token, key = Keys(store).issue_now(
            name,
            owner=given.get("--owner") or given.get("--user") or OWNER,
            per_minute=None if minute is None else whole("--per-minute", minute, 1, MOST_PER_MINUTE),
            expires=expires,
            agents=None if agents is None else [each for each in agents.replace(",", " ").split() if each],
            permissions=permissions,
            of_agent="--of-agent" in options.on,
        )
        unreached = list(_unreached(program, store, key))
    told = key.to_dict(time.time())
    for each in unreached:
        program.console.say(f"{program.console.err('warning:', YELLOW)} {harmless_line(each)}")
    if "--json" in options.on:
        return program.write_json({"key": token, **told})
    program.console.write(f"{token}\n")
    may = f"agents {', '.join(key.agents)}" if key.agents is not None else "all agents and actions"
    until = f"until {told['expires_at']}" if key.expires else "until it is revoked"
    words = f"The key {key.name!r} of {key.owner!r} is for {may}, and is good {until}."
    program.console.say(harmless_line(words))
    program.console.say("The store keeps its hash only: this is the one time it is shown.")
    return 0


def list_keys(program: Program, options: Options) -> int:
    """List the keys: a table on a terminal, else JSON."""
    now = time.time()
    with _Opened(program) as store:
        listed = [key.to_dict(now) for key in Keys(store).list_now()]
    if options.on or not program.console.out_tty:
        return program.write_json(listed)
    program.console.write(table([_row(key) for key in listed], program.console) + "\n")
    return 0


def revoke_key(program: Program, options: Options, word: str) -> int:
    """Stop accepting a key."""
    with _Opened(program) as store:
        key = Keys(store).revoke_now(word)
    told = key.to_dict(time.time())
    if options.on:
        return program.write_json(told)
    program.console.say(
        harmless_line(f"The key {key.name!r} of {key.owner!r} was revoked at {told['revoked_at']}.")
    )
    return 0


def has_agents(program: Program) -> bool:
    """Whether the app at hand has agents. One that cannot be had has none: keys in files need no app."""
    from fairlead.failures import Failure

    try:
        app = program.find_app(whole=False)
    except Failure:
        return False
    return app is not None and any("agent" in action.metadata for action in app.catalogue)


def _unreached(program: Program, store: Store, key: ApiKey) -> Iterator[str]:
    """Which agents that the key is for it does not find as things are. Callers are told of none of them why."""
    app = program.find_app(whole=False)
    own = [] if app is None else own_agents(app)
    named = own if key.agents is None else key.agents
    rows = store.read_now(lambda tx: {id: tx.one(SQL.agent_by_id, id=id) for id in named})
    private = []
    for id, row in rows.items():
        # A row without an instance is of an agent of the app's own.
        if row is None or (row[6] is None) != (id in own):
            owner, visibility = OWNER, "private"
            if id not in own:
                yield f"There is no agent {id!r} yet.{near_miss(id, own)}"
                continue
        else:
            owner, visibility = row[1:3]
        if visibility == "private" and owner != key.owner:
            private.append(id)
    if private:
        yield (
            f"Keys of {key.owner!r} do not find {', '.join(private)}: private agents are for their owner alone, "
            f"which is {OWNER!r} for the app's own. A key of the owner opens one to others by "
            f'PATCH /api/v1/agents/{private[0]} with {{"visibility": "unlisted"}}.'
        )


def _row(key: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": key["id"],
        "name": key["name"],
        "key": f"{key['key_prefix']}…",
        "owner": key["owner"],
        "agents": "all" if key["agents"] is None else " ".join(key["agents"]),
        "per minute": key["rate_limit_per_minute"] or "",
        "permissions": " ".join(key["permissions"]),
        "expires": (key["expires_at"] or "")[:10],
        "last used": (key["last_used_at"] or "")[:16].replace("T", " "),
        "status": key["status"],
    }


class _Opened:
    """The store of the app, or of those programs that have no app."""

    def __init__(self, program: Program) -> None:
        app = program.find_app(whole=False)
        self._own = app is None
        self._store: Store = open_store() if app is None else app.store

    def __enter__(self) -> Store:
        return self._store

    def __exit__(self, *about: object) -> None:
        if self._own:
            self._store.close()


def _audit(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--json",), ("--since", "--owner", "--limit", "--data"))
    given = options.values
    choose_store(given.get("--data"))
    most = whole("--limit", given.get("--limit", "50"), 1, MOST_LISTED)
    since = _since(given.get("--since"))
    with _Opened(program) as store:
        lines = Audit(store, time.time).page_now(owner=given.get("--owner"), since=since, most=most)
    listed = [each.to_dict() for each in reversed(lines)]
    if options.on or not program.console.out_tty:
        return program.write_json(listed)
    program.console.write(table([_line(each) for each in listed], program.console) + "\n")
    if len(lines) == most:
        program.console.say(f"These are the newest {most}. --limit N shows more, --since the latest only.")
    return 0


def _since(given: str | None) -> float:
    if given is None:
        return 0.0
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        return time.time() - span("--since", given)
    at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if at < 0:
        raise wrong_option("--since", "expected a time after 1970")
    return at


def _line(line: dict[str, Any]) -> dict[str, Any]:
    return {
        "time": line["time"][:19].replace("T", " "),
        "owner": line["owner"] or "(unknown)",
        "key": line["key_id"][:8],
        "what": line["endpoint"],
        "agent": line["agent"] or "",
        "target": line["target"] or "",
        "status": line["status"],
        "from": line["address"] or "",
    }


AUDIT = Command(
    "audit [--since TIME] [--owner ID] [--limit N] [--json]",
    (
        ("--since TIME", "From then on: 1h, 7d, or a time such as 2030-01-31T12:00."),
        ("--owner ID", "What this owner's keys did."),
        ("--limit N", f"The newest so many, at most {MOST_LISTED}. [default: 50]"),
        DATA_ROW,
        ("--json", "Print JSON."),
    ),
    _audit,
    ("audit --since 1h", "audit --owner ann --json"),
)
