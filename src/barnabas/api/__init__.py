"""One file an API key: the versions it serves and its handler.

An ``api/<name>.py`` declares ``KEY``, ``VERSIONS`` (inclusive pair) and
``handle(node, context, request)``. What ``handle`` returns decides how the request goes on:

* a response: it is answered at once;
* ``DEFERRED``: the handler keeps ``context`` and calls ``context.respond(response)`` later, once;
* ``NO_RESPONSE``: nothing is sent (Produce with ``acks=0``);
* ``DISCONNECT``: the connection is closed, the only way to tell a failure when no response is due;
* ``handle`` may be a coroutine function: the request becomes a task (cold requests only).

A module may also define ``error_response(request, code, version) -> response``, which the pipeline
uses to answer when the handler raised; without it a top-level ``error_code`` field is filled in,
and a response that has none closes the connection.
"""

from enum import Enum
from typing import Final


class Outcome(Enum):
    """What a handler returns when it does not return a response."""

    DEFERRED = "deferred"
    NO_RESPONSE = "no response"
    DISCONNECT = "disconnect"


DEFERRED: Final = Outcome.DEFERRED
NO_RESPONSE: Final = Outcome.NO_RESPONSE
DISCONNECT: Final = Outcome.DISCONNECT

Answer = object
