"""What was installed, and proof that it is still that: the digests of a version's files, sealed by this host.

A receipt that lies beside the files could be rewritten together with them. So it carries a seal, made with a key that
lies outside of every plugin's folder and that no plugin can read; a receipt that came with an archive has none.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.plugins.layout import entries_of, write_durably
from fairlead.store.master import KeyInFile

RECEIPT: Final = "receipt.json"
CONSENT: Final = ".user_consent"
KEY: Final = ".receipt-key"


class Seal:
    """Signs what this host wrote down about plugins."""

    def __init__(self, root: Path) -> None:
        self._key = KeyInFile(root / KEY)

    def of(self, told: Mapping[str, Any]) -> str:
        """The seal of a record; the key is made when it is first needed."""
        return _sealed(self._key.made()[0].bytes, told)

    def fits(self, told: Mapping[str, Any], seal: object) -> bool:
        """Whether this host sealed exactly this."""
        keys = self._key.read() or ()
        return isinstance(seal, str) and any(
            hmac.compare_digest(_sealed(key.bytes, told), seal) for key in keys
        )


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was installed, where from, and the SHA-256 of the library and of every file."""

    plugin_id: str
    version: str
    #: The library, within the version's folder.
    library: str
    dylib_sha256: str
    files: Mapping[str, str]
    installed_at: str
    source: str

    def describe(self) -> dict[str, Any]:
        """The same as JSON, without the seal."""
        return {
            "plugin_id": self.plugin_id,
            "version": self.version,
            "library": self.library,
            "dylib_sha256": self.dylib_sha256,
            "files": dict(sorted(self.files.items())),
            "installed_at": self.installed_at,
            "source": self.source,
        }


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of a version by its name in the folder, hidden ones included; "" for what is no file.

    Left out are the two notes of this host, which are sealed themselves. Raises OSError.
    """
    notes = (folder / RECEIPT, folder / CONSENT)
    return {
        path.relative_to(folder).as_posix(): digest(path) if path.is_file() and not path.is_symlink() else ""
        for path in entries_of(folder)
        if path not in notes
    }


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_receipt(folder: Path, receipt: Receipt, seal: Seal) -> None:
    """Write the receipt of a version into its folder."""
    told = receipt.describe()
    write_durably(folder / RECEIPT, _json.dumps({**told, "seal": seal.of(told)}, indent=True) + "\n", 0o644)


def read_receipt(folder: Path) -> Receipt:
    """The receipt of a version, unchecked. Raises Failure when there is none that can be read."""
    return _parsed(_loaded(folder))


def verify(folder: Path, id: str, version: str, seal: Seal) -> Receipt:
    """The receipt, once all that it says is true of the folder.

    Raises:
        Failure: it is missing, not ours, about something else, or a file was changed, added or taken away.
    """
    told = _loaded(folder)
    receipt = _parsed(told)
    if (receipt.plugin_id, receipt.version) != (id, version):
        raise _untrue(id, f"its receipt is one of {receipt.plugin_id!r} {receipt.version}")
    if not seal.fits(receipt.describe(), told.get("seal")):
        raise _untrue(id, "its receipt was not written by this host")
    try:
        found = digests(folder)
    except OSError as exc:
        raise _untrue(id, f"{Path(exc.filename or folder).name!r} in it cannot be read") from exc
    if found.get(receipt.library) != receipt.dylib_sha256:
        raise _untrue(id, f"the library {receipt.library!r} is not the one that was installed")
    # A link leads to what may change later; nothing that is installed is one.
    if changed := sorted(
        name
        for name in {*found, *receipt.files}
        if not found.get(name) or found[name] != receipt.files.get(name)
    ):
        others = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        names = ", ".join(repr(name) for name in changed[:3])
        raise _untrue(id, f"since it was installed, these files were changed: {names}{others}")
    return receipt


def _sealed(key: bytes, told: Mapping[str, Any]) -> str:
    return hmac.new(key, b"fairlead plugin\n" + _json.encode(told, sort_keys=True), "sha256").hexdigest()


def _loaded(folder: Path) -> dict[str, Any]:
    try:
        told = _json.loads((folder / RECEIPT).read_bytes())
    except FileNotFoundError:
        raise _refused(
            "The plugin has no receipt: it was put there by hand. Install it: fairlead plugin install PATH"
        ) from None
    except (OSError, ValueError):
        raise _refused("The plugin's receipt cannot be read. Install the plugin again.") from None
    if not isinstance(told, dict):
        raise _refused("The plugin's receipt is not an object. Install the plugin again.")
    return told


def _parsed(told: Mapping[str, Any]) -> Receipt:
    texts = ("plugin_id", "version", "library", "dylib_sha256", "installed_at", "source")
    files: Any = told.get("files")
    known = isinstance(files, dict) and all(isinstance(each, str) for each in files.values())
    if not known or not all(isinstance(told.get(key), str) for key in texts):
        raise _refused("The plugin's receipt lacks something. Install the plugin again.")
    return Receipt(files=files, **{key: told[key] for key in texts})


def _untrue(id: str, why: str) -> Failure:
    return _refused(
        f"The plugin {id!r} is not as it was installed: {why}. If you changed it, install it again; if you did not, "
        f"uninstall it: fairlead plugin uninstall {id}"
    )


def _refused(message: str) -> Failure:
    return Failure(Kind.forbidden, message)
