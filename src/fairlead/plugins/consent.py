"""What a plugin wants, and that a person agreed to it: for one version, bit by bit, and sealed by this host."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairlead import _json
from fairlead.failures import Failure
from fairlead.failures.host import ConsentRequired
from fairlead.plugins.layout import write_durably
from fairlead.plugins.manifest import Manifest
from fairlead.plugins.receipts import CONSENT, Receipt, Seal

#: What may be granted beside what a manifest names.
GRANTS: Final = ("network", "processes")


@dataclass(frozen=True, slots=True)
class Want:
    """One thing that a plugin would be able to do; `risky` is what to think about twice."""

    kind: str
    text: str
    risky: bool = False

    def describe(self) -> dict[str, Any]:
        """The same as JSON."""
        return {"kind": self.kind, "text": self.text, "risky": self.risky}


def wants(manifest: Manifest, grants: Collection[str] = ()) -> list[Want]:
    """What agreeing to a plugin means, in the order in which it is shown."""
    found = [
        Want("tool", _tool(tool.id, tool.permission_policy), tool.permission_policy == "auto")
        for tool in manifest.tools
    ]
    found += [
        Want(
            "route",
            f"answer {' '.join(route.methods)} {route.path} ({_who(route.auth)})",
            route.auth == "none",
        )
        for route in manifest.routes
    ]
    if manifest.web is not None:
        web = manifest.web
        found.append(Want("web", f"serve pages below {web.mount} ({_who(web.auth)})", web.auth == "none"))
    found += [
        Want("secret", f"use the secret {secret.id!r} ({'needed' if secret.required else 'optional'})")
        for secret in manifest.secrets
    ]
    if manifest.artifact_handler:
        found.append(Want("artifacts", "see every file that agents share", True))
    if manifest.instructions:
        found.append(Want("instructions", "add instructions of its own to what its agents are told", True))
    found.append(Want("host", "ask models, start agents' tasks, keep a database, and fetch public web pages"))
    if "network" in grants:
        found.append(Want("network", "use the network by itself, past the host's checks", True))
    if "processes" in grants:
        found.append(Want("processes", "start programs of its own, inside its fence", True))
    return found


def give_consent(folder: Path, receipt: Receipt, grants: Collection[str], seal: Seal, at: str) -> None:
    """Write down that a person agreed to this version, with these grants."""
    told = _told(receipt, sorted(grants), at)
    write_durably(folder / CONSENT, _json.dumps({**told, "seal": seal.of(told)}, indent=True) + "\n", 0o644)


def consented(folder: Path, receipt: Receipt, seal: Seal) -> frozenset[str]:
    """The grants that a person agreed to.

    Raises:
        Failure: nobody agreed to exactly this version.
    """
    try:
        told = _json.loads((folder / CONSENT).read_bytes())
    except FileNotFoundError:
        raise _missing(receipt.plugin_id, "nobody agreed to it") from None
    except (OSError, ValueError):
        raise _missing(receipt.plugin_id, "the note of the agreement cannot be read") from None
    if not isinstance(told, Mapping) or not isinstance(told.get("grants"), list):
        raise _missing(receipt.plugin_id, "the note of the agreement cannot be read")
    if not seal.fits(_told(receipt, told["grants"], told.get("at")), told.get("seal")):
        raise _missing(receipt.plugin_id, "the agreement was for other files, or not given here")
    return frozenset(each for each in told["grants"] if isinstance(each, str))


def _told(receipt: Receipt, grants: list[str], at: Any) -> dict[str, Any]:
    return {
        "plugin_id": receipt.plugin_id,
        "version": receipt.version,
        "dylib_sha256": receipt.dylib_sha256,
        "grants": grants,
        "at": at,
    }


def _missing(id: str, why: str) -> Failure:
    return ConsentRequired(
        f"consent_required: the plugin {id!r} is not loaded, because {why}. Install it again, "
        "look at what it wants, and agree: fairlead plugin install PATH"
    )


def _tool(id: str, policy: str) -> str:
    when = {
        "auto": "without asking",
        "ask": "when you agree each time",
        "deny": "never, until you change that",
    }
    return f"give agents the tool {id!r}, used {when[policy]}"


def _who(auth: str) -> str:
    return {"none": "to anybody", "verify": "to those the plugin itself checks", "owner": "to you"}[auth]
