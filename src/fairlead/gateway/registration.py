"""Agents that run elsewhere: who runs one, and for how long he is taken to be there.

Whoever runs an agent registers it and gets a lease, which every word from him renews. There is one registration of
an agent at a time: a newer one fences the older, and what the older held is lost to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead._json import dumps, loads
from fairlead.failures.gateway import Conflict, Forbidden, InvalidBody, InvalidParam, MissingParam
from fairlead.gateway.agents import AGENTS, instant
from fairlead.gateway.call import Answer, Call, Route
from fairlead.store import Tx
from fairlead.store.statements import statements
from fairlead.tasks import ledger
from fairlead.tasks.ledger import Held
from fairlead.tasks.records import Task
from fairlead.tasks.states import State

SQL = statements(__file__, "remote.sql")
#: All at once; one after the other, the rest waits; one, the rest is turned away.
MODES: Final = ("push", "queue", "busy_reject")
#: Seconds without a word after which nobody is taken to run an agent: what is usual, and what may be asked for.
LEASE: Final = 30.0
SHORTEST: Final = 1.0
LONGEST: Final = 300.0
#: How often a turn may take its agent down before it ends as failed.
ATTEMPTS: Final = {"push": 1, "busy_reject": 1, "queue": 5}
MOST_ATTEMPTS: Final = 20
MOST_SKILLS: Final = 100
#: Seconds that the engine's own house-keeping waits longer than ours: it cannot know that a gateway was away.
SLACK: Final = 60.0
#: Seconds in which a delivery has to be confirmed: by an `ack` or `renew`, or in the `holding` of the next read.
CONFIRMED: Final = 10.0
#: Takes that nobody confirmed, beyond a task's attempts, before they count as attempts.
_UNHEARD: Final = 8
LOST: Final = "agent_lost: whoever ran the agent was lost, or went away."
TAKEN_OVER: Final = "agent_lost: the app has an agent of this id itself now. Send the message again."
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def queue_of(agent: str) -> str:
    """Where an agent's turns wait."""
    return f"{ledger.APART}{agent}"


@dataclass(frozen=True, slots=True)
class Registration:
    """Whoever runs an agent, as he shows himself with each word."""

    agent: str
    owner: str
    lease: str

    @classmethod
    def of(cls, call: Call, body: Mapping[str, Any]) -> Registration:
        """Who speaks. Raises MissingParam or InvalidBody."""
        lease = body.get("leaseId")
        if lease is None:
            raise MissingParam("leaseId is missing: it is given with a registration.", field="leaseId")
        if not isinstance(lease, str) or not lease.partition("-")[0].isdecimal() or len(lease) > 64:
            raise InvalidBody("leaseId must be the one that the registration gave.", field="leaseId")
        agent = call.id("agentId")
        if not _ID.fullmatch(agent):
            raise fenced(agent)  # nobody can have registered it
        return cls(_allowed(call, agent), call.caller.owner, lease)

    @property
    def epoch(self) -> int:
        return int(self.lease.partition("-")[0][:9])

    @property
    def queue(self) -> str:
        return queue_of(self.agent)

    @property
    def worker(self) -> str:
        """As tasks know him."""
        return _worker(self.agent, self.lease)

    def keep(self, tx: Tx, now: float, draining: bool = False) -> float:
        """Renew it; one that is `draining` finishes what it has and counts as gone. Gives the lease's seconds.

        Raises:
            Conflict: another has registered the agent since, or nobody has.
        """
        known = self._known(tx)
        seconds = float(loads(known)["leaseSeconds"])
        self._set(tx, known, known, now if draining else now + seconds)
        return seconds

    def end(self, tx: Tx, now: float) -> None:
        """Nothing that comes under this lease counts any more: not even a read that still waits. Raises Conflict."""
        known = self._known(tx)
        about = loads(known)
        del about["lease"]
        self._set(tx, known, dumps(about), now)
        tx.tell(ledger.worker_topic(self.worker))

    def check(self, tx: Tx) -> float:
        """The seconds of the lease. Raises Conflict, as `keep`."""
        return float(loads(self._known(tx))["leaseSeconds"])

    def _known(self, tx: Tx) -> str:
        """What is kept of it, as it is written."""
        row = tx.one(SQL.registered, id=self.agent, owner=self.owner, epoch=self.epoch)
        if row is None or self.lease != f"{self.epoch}-{loads(row[0]).get('lease')}":
            raise fenced(self.agent)
        known: str = row[0]
        return known

    def _set(self, tx: Tx, known: str, about: str, lease: float) -> None:
        """Write it, if it is still as it was read: another may have ended or replaced it since."""
        row = {"id": self.agent, "owner": self.owner, "epoch": self.epoch, "known": known}
        if not tx.run(SQL.set_registered, **row, about=about, lease=lease):
            raise fenced(self.agent)


def fenced(agent: str) -> Conflict:
    """What is told to whoever runs an agent no more."""
    words = (
        f"This registration of {agent!r} is over: another has registered the agent since, or it was ended."
    )
    return Conflict(words, details={"reason": "fenced"})


def lose(tx: Tx, task: Task, now: float, words: str = LOST) -> None:
    """Take a task back from a registration that is heard of no more."""
    assert task.worker is not None
    held = Held(task.id, task.run, task.worker)
    heard = task.checkpoint == {"acked": task.run}
    if not heard and task.run < task.max_attempts + _UNHEARD:
        ledger.hand_back(tx, held, now)  # it never came there: that was no attempt
    elif task.attempt >= task.max_attempts:
        ledger.finish(tx, held, State.failed, None, words, (), now)
    else:
        log = {"level": "warn", "message": "The agent was lost. Trying again.", "fields": {}}
        ledger.again(tx, held, now + task.attempt - 1, [("log", now, log)])
    tx.tell(ledger.worker_topic(task.worker))


async def register(call: Call) -> Answer:
    asked = _asked(call, call.json())
    gateway, now, nonce = call.gateway, call.gateway.app.wall(), os.urandom(9).hex()
    id, about = asked["id"], {**asked["about"], "lease": nonce}
    if gateway.app.get(id) is not None:
        raise Conflict(f"{id!r} is an action of the app itself. Choose another id.")
    seconds = about["leaseSeconds"]
    row = {
        "id": id, "owner": call.caller.owner, "instance": asked["instance"], "about": dumps(about),
        "mode": asked["mode"], "lease": now + seconds, "now": now,
    }  # fmt: skip

    def work(tx: Tx) -> int:
        before = tx.one(SQL.previous, id=id)
        if before is not None and before[0] != call.caller.owner:
            raise Conflict(f"The id {id!r} is taken. Choose another one.")
        found = tx.one(SQL.register, **row)
        if found is None:  # somebody else was first, just now
            raise Conflict(f"The id {id!r} is taken. Choose another one.")
        epoch = int(found[0])
        old = None if before is None or before[1] is None else loads(before[1]).get("lease")
        if old is not None and epoch > 1:
            for held in tx.all(SQL.held_tasks, worker=_worker(id, f"{epoch - 1}-{old}")):
                lose(tx, Task.of(held), now)
            tx.tell(ledger.worker_topic(_worker(id, f"{epoch - 1}-{old}")))
        tx.tell(AGENTS)
        return epoch

    epoch = await gateway.app.store.write(work)
    told = {
        "status": "active",
        "agentId": id,
        "mode": asked["mode"],
        "leaseId": f"{epoch}-{nonce}",
        "epoch": epoch,
        "leaseSeconds": seconds,
        "leaseExpiresAt": instant(now + seconds),
        "heartbeatIntervalMs": int(seconds * 1000 / 3),
    }
    return Answer(told, status=201)


async def heartbeat(call: Call) -> Answer:
    body = call.json()
    who, now = Registration.of(call, body), call.gateway.app.wall()
    draining = body.get("draining") is True
    seconds = await call.gateway.app.store.write(lambda tx: who.keep(tx, now, draining))
    return Answer({"status": "renewed", "leaseExpiresAt": instant(now + seconds)})


async def unregister(call: Call) -> Answer:
    body = call.json()
    who, now = Registration.of(call, body), call.gateway.app.wall()
    remove = body.get("remove") is True

    def work(tx: Tx) -> None:
        who.end(tx, now)
        for row in tx.all(SQL.held_tasks, worker=who.worker):
            task = Task.of(row)
            ledger.hand_back(tx, Held(task.id, task.run, who.worker), now)
        if remove:
            tx.run(SQL.remove, id=who.agent, epoch=who.epoch)
            while found := tx.all(SQL.open_tasks, queue=who.queue, size=100):
                for (id,) in found:
                    ledger.cut(tx, id, State.failed, LOST, now)
        tx.tell(AGENTS)

    await call.gateway.app.store.write(work)
    return Answer({"status": "removed" if remove else "offline"})


def _worker(agent: str, lease: str) -> str:
    return f"{queue_of(agent)}#{lease}"


def _allowed(call: Call, agent: str) -> str:
    if call.caller.agents is not None and agent not in call.caller.agents:
        raise Forbidden("This key is for other agents.")
    return agent


def _asked(call: Call, body: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be registered. Raises the gateway's failures."""
    name = _text(body, "name", 128)
    if not name:
        raise MissingParam("name is missing: what the agent is called.", field="name")
    id = _text(body, "id", 64) or name
    if not _ID.fullmatch(id):
        words = "An agent's id has 1 to 64 letters, digits, dots, dashes and underscores. The name is the usual id."
        raise InvalidParam(words, field="id")
    mode = body.get("mode", "push")
    if mode not in MODES:
        raise InvalidParam(f"mode must be one of {', '.join(MODES)}.", field="mode")
    about: dict[str, Any] = {
        "name": name,
        "description": _text(body, "description", 4096),
        "skills": _skills(body.get("skills")),
        "leaseSeconds": _number(body, "leaseSeconds", LEASE, SHORTEST, LONGEST),
        "attempts": int(_number(body, "attempts", ATTEMPTS[mode], 1, MOST_ATTEMPTS)),
    }
    if shown := _text(body, "displayName", 128):
        about["displayName"] = shown
    instance = _text(body, "instance", 128) or "remote"
    return {"id": _allowed(call, id), "mode": mode, "instance": instance, "about": about}


def _text(body: Mapping[str, Any], name: str, most: int) -> str:
    given = body.get(name)
    if given is None:
        return ""
    if not isinstance(given, str) or len(given) > most or "\x00" in given:
        raise InvalidBody(f"{name} must be a text of at most {most} characters.", field=name)
    return given


def _number(body: Mapping[str, Any], name: str, usual: float, least: float, most: float) -> float:
    given = body.get(name)
    if given is None:
        return usual
    if isinstance(given, bool) or not isinstance(given, int | float) or not least <= given <= most:
        raise InvalidParam(f"{name} must be a number from {least:g} to {most:g}.", field=name)
    return given


def _skills(given: Any) -> list[dict[str, Any]]:
    if given is None:
        return []
    if not isinstance(given, list) or len(given) > MOST_SKILLS:
        raise InvalidBody(f"skills must be a list of at most {MOST_SKILLS}.", field="skills")
    for each in given:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise InvalidBody("Each skill must be an object with a name.", field="skills")
        if not all(isinstance(each.get(name), str | None) for name in ("id", "description")):
            raise InvalidBody("A skill's id and description are texts.", field="skills")
        tags = each.get("tags")
        if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
            raise InvalidBody("A skill's tags are a list of texts.", field="skills")
    return given


_REGISTERED: Final = "/api/v1/runtime/registrations/{agentId}"
ROUTES: Final = (
    Route("POST", "/api/v1/runtime/registrations", register, "runtime.register"),
    Route("POST", f"{_REGISTERED}/heartbeat", heartbeat, "runtime.heartbeat", counted=False),
    Route("POST", f"{_REGISTERED}/unregister", unregister, "runtime.unregister"),
)
