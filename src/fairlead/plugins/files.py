"""`file_read`: what plugins may read of this machine, which is the artifacts and nothing else."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Final

from fairlead._json import dumps, loads
from fairlead.failures.host import AccessDenied, FileTooLarge, InvalidRequest, NotFound, ReadError
from fairlead.tools.artifacts import mime_type_of
from fairlead.tools.fence import Fence, Outside, chunks

#: Bytes of a file.
LARGEST: Final = 50_000_000


class Files:
    """Reads files below the folder of the artifacts."""

    def __init__(self, folder: Path, largest: int = LARGEST) -> None:
        self._folder = folder
        self._largest = largest

    def read(self, request: str) -> str:
        """The answer to `file_read`. Not for an event loop.

        Raises:
            Failure: the path leads elsewhere, or the file is not there, too large, or cannot be read.
        """
        path = path_in(request)
        try:
            fence = Fence(self._folder)
            if not path.startswith("/") or not fence.parts(path):
                raise Outside("it is not below the folder")
            data = self._content(fence, path)
        except Outside:
            words = (
                f"{path!r} is not one of the artifacts: only files below {str(self._folder)!r} can be read."
            )
            raise AccessDenied(words) from None
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"There is no file {path!r}.") from None
        except OSError as error:
            raise ReadError(f"{path!r} cannot be read: {error.strerror}.", cause=error) from error
        told = {"data": base64.b64encode(data).decode(), "mime_type": mime_type_of(path), "size": len(data)}
        return dumps(told, sort_keys=True)

    def _content(self, fence: Fence, path: str) -> bytes:
        with fence.open(path) as handle:
            # It may grow while it is read, so what was read counts, too.
            if os.fstat(handle).st_size <= self._largest:
                data = b"".join(chunks(handle, self._largest + 1))
                if len(data) <= self._largest:
                    return data
        raise FileTooLarge(f"{path!r} is larger than {self._largest} bytes.")


def path_in(request: str) -> str:
    """The path that a request names.

    Raises:
        InvalidRequest: it names none.
    """
    try:
        asked = loads(request)
    except ValueError:
        asked = None
    path = asked.get("path") if isinstance(asked, dict) else None
    if not isinstance(path, str) or not path:
        raise InvalidRequest('Missing required field: path. Expected {"path": "/.../artifacts/..."}.')
    return path
