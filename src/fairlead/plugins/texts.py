"""Strings to and from native code: UTF-8, and what is no text is replaced rather than refused."""


def to_bytes(text: str) -> bytes:
    """The string as it goes to a plugin; what UTF-8 has no bytes for becomes a question mark."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def to_text(data: bytes) -> str:
    """The string that came from a plugin."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def maybe_bytes(text: str | None) -> bytes | None:
    """The same, where there may be none."""
    return None if text is None else to_bytes(text)


def maybe_text(data: bytes | None) -> str | None:
    """The same, where there may be none."""
    return None if data is None else to_text(data)
