"""The body of a request for a stream, for frameworks that read models."""

from pydantic import BaseModel


class Asked(BaseModel):
    upto: int
    wait: str
