"""Check of a whole record, compiled to one flat function for its layout.

The check returns False in all doubtful cases, and the caller then checks the record with loops,
so the compiled check only saves time. Property names are inserted in the source as literals, all
other names are chosen by this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tap_core.types import Record

__all__ = ["always_false", "compile_record_check"]


def always_false(_record: Record) -> bool:
    """Return False for any record; used as the check until a compiled one exists."""
    return False


def compile_record_check(
    keys: Sequence[str],
    allowed: Mapping[str, Collection[type]],
    checks: Mapping[str, Callable[[Any], bool]],
) -> Callable[[Record], bool]:
    """Return a function that is True for records that can be encoded without conversion.

    It takes dicts with exactly these keys, in any order. ``allowed`` are the types of each property
    that is kept. ``checks`` are called for values of other types, but not for finite decimals,
    which
    are frequent in API responses. Properties that are in neither mapping are deleted from a record
    that passes.
    """
    names: dict[str, Any] = {"Decimal": Decimal}
    terms = ["type(r) is dict", f"len(r) == {len(keys)}"]
    for number, (name, kinds) in enumerate(allowed.items()):
        types = next((word for word, known in names.items() if known is kinds), f"t{number}")
        names[types] = kinds
        if name in checks:
            names[f"c{number}"] = checks[name]
            finite = "type(v) is Decimal and v.is_finite()"
            terms.append(f"(type(v := r[{name!r}]) in {types} or {finite} or c{number}(v))")
        else:
            terms.append(f"type(r[{name!r}]) in {types}")
    drops = [f"del r[{name!r}]" for name in keys if name not in allowed] or ["pass"]
    source = (
        f"def fits(r):\n    try:\n        if not ({' and '.join(terms)}): return False\n"
        f"        {'; '.join(drops)}\n"
        "    except KeyError: return False\n    return True\n"
    )
    exec(source, names)  # noqa: S102 - the source has only literals and names of this module
    fits: Callable[[Record], bool] = names["fits"]
    return fits
