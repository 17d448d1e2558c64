"""Compilation of the check that a record can be encoded without conversion.

The check of one layout (order of keys) is one flat generated function. It returns False in every
doubtful case, and the caller then checks the record with slower code, so a wrong False costs only
time. Property names are inserted into the generated source as literals; all other names are
chosen by this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tap_core.types import Record

__all__ = ["always_false", "compile_record_check"]


def always_false(_record: Record) -> bool:
    """Return False for any record.

    Used instead of a compiled check until a check is compiled for the keys of the records.
    """
    return False


def compile_record_check(
    keys: Sequence[str],
    allowed: Mapping[str, Collection[type]],
    checks: Mapping[str, Callable[[Any], bool]],
) -> Callable[[Record], bool]:
    """Return a function that is True for records that can be encoded without conversion.

    Args:
        keys: All keys of the records, in any order. A record with other keys fails the check.
        allowed: For each selected property, the Python types that need no further check.
        checks: For some properties, a predicate for values of other types. It is not called for
            finite decimals, which always pass, because they are frequent in API responses.

    Returns:
        The function. If a record passes, the function also deletes the record's deselected
        properties (those not in ``allowed``).
    """
    names: dict[str, Any] = {"Decimal": Decimal}
    terms = ["type(r) is dict", f"len(r) == {len(keys)}"]
    for number, (name, kinds) in enumerate(allowed.items()):
        types = next((alias for alias, known in names.items() if known is kinds), f"t{number}")
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
