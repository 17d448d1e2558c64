"""A server with test handlers, run as a program: ``wire_server.py PORT [FOLDER]``.

FOLDER is appended to the import path. The name of a Test or the state of an Update selects the
behaviour; see the handlers.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import warnings
from importlib import metadata
from logging import getLogger

sys.path += sys.argv[2:]

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.grpc_server import Handler, Service, serve
from tap_core.protocols.fivetran.listen_address import ListenAddress
from tap_core.protocols.fivetran.logging import ServerLog

MEETING = threading.Barrier(9, timeout=60)
CALLER_LEFT = threading.Event()
"""Set when the end callback of an Update was called."""
WIDE_CHARACTER = "ü"


class Abyss(BaseException):
    """An exception that does not derive from Exception."""


def test(request, call):
    name = request.name
    call.note(f"the test {name}")
    if name == "versions":
        versions = f"{metadata.version('grpcio')} {metadata.version('protobuf')}"
        return proto_messages.TestResponse(failure=versions)
    if name == "meet":
        MEETING.wait()
    if name == "linger":
        getLogger("fivetran").info("lingering")
        CALLER_LEFT.wait(60)
    if name == "stay":
        getLogger("fivetran").info("staying")
        time.sleep(60)
    if name == "print":
        print("printed")
        subprocess.run(["echo", "printed by a program"], check=True)
        warnings.warn("some warning", stacklevel=1)
        for number in range(3):
            getLogger("some.library").warning("Trying again, time %d", number)
        getLogger("some.library").info("unneeded message")
    if name == "signal":
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    raise_error(name)
    return proto_messages.TestResponse(success=True)


RAISED = {
    "error": ValueError("a value does not fit"),
    "exit": SystemExit(3),
    "abyss": Abyss("deep"),
    "long": ValueError(WIDE_CHARACTER * 100_000),
    "unsayable": KeyError("unsayable"),
}


def raise_error(name):
    if name in RAISED:
        raise RAISED[name]


def update(request, call):
    name = request.state_json
    call.on_end(note_end)
    if name == "meet":
        MEETING.wait()
    try:
        yield checkpoint(1)
        yield checkpoint(2).SerializeToString()
        if name == "large":
            yield bytes(2**27 + 1)
        raise_error(name)
        while name == "endless" and call.is_active():
            time.sleep(0.01)
            yield checkpoint(3)
        call.note("1 table")
    finally:
        getLogger("fivetran").info("closed")


def note_end():
    getLogger("fivetran").info("end reported")
    CALLER_LEFT.set()


def checkpoint(number):
    return proto_messages.UpdateResponse(checkpoint={"state_json": f'{{"n":{number}}}'})


def schema(request, call):
    name = request.configuration.get("name", "")
    raise RAISED.get(name) or ValueError(name)


def explain(error):
    if isinstance(error, KeyError):
        raise TypeError("and this, too")
    return f"{type(error).__name__}: {error}, 100 % sure"


def main():
    handlers = {
        "Test": Handler(test, lambda text: proto_messages.TestResponse(failure=text)),
        "Schema": Handler(schema),
        "Update": Handler(
            update, lambda text: proto_messages.UpdateResponse(task={"message": text})
        ),
    }
    handler = ServerLog("sdk_connector")
    service = Service("SourceConnector", handlers, explain)
    address = ListenAddress(int(sys.argv[1]), "localhost")
    return serve(service, address, handler, lambda: handler.write("INFO", "closing"))


if __name__ == "__main__":
    sys.exit(main())
