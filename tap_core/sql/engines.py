"""SQLAlchemy engines that do not keep their connector alive.

SQLAlchemy's caches keep the dialects of up to 500 engines, with their JSON functions. If these
referred to a connector, it would never be deleted, and its idle connections would stay open.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from inspect import ismethod
from typing import Any, TypeAlias

import sqlalchemy as sa

from tap_core.singerlib.json import dump_json, load_json

__all__ = ["make_engine"]

_Function: TypeAlias = Callable[[Any], Any]


def make_engine(url: sa.URL, serialize: _Function, deserialize: _Function) -> sa.Engine:
    """Return a new engine.

    Args:
        url: The URL of the database.
        serialize: Returns the JSON text of a value, for a JSON column.
        deserialize: Returns the value of a JSON text.
    """
    try:
        return sa.create_engine(
            url,
            echo=False,
            pool_pre_ping=True,
            json_serializer=_call_weakly(serialize, dump_json),
            json_deserializer=_call_weakly(deserialize, load_json),
        )
    except TypeError:  # dialects without JSON refuse its arguments
        return sa.create_engine(url, echo=False, pool_pre_ping=True)


def _call_weakly(function: _Function, default: _Function) -> _Function:
    """Return a function that calls a method without keeping the method's object alive.

    When the object is deleted, ``default`` is called instead. A function that is not a method is
    returned unchanged.
    """
    if not ismethod(function):
        return function
    reference = weakref.WeakMethod(function)

    def call(value: Any) -> Any:
        return (reference() or default)(value)

    return call
