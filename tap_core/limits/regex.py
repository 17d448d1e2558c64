r"""Untrusted regular expressions, from schemas and manifests, with limits on time and memory.

A pattern could backtrack for a long time on a long text, and matching with `re` cannot be
interrupted. Therefore `re` matches only short texts; the package ``regex`` matches longer ones,
with a time limit. `compile_pattern` accepts the syntax of `re`, and matches have the same results,
with two exceptions: a few letters if case is ignored, such as the dotless i, and patterns with the
flag for ASCII on a part only, such as ``(?a:\w)*\w``.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any, Final

from tap_core.exceptions import LimitExceededError
from tap_core.limits.environment import Limit

__all__ = ["MATCH_SECONDS", "MATCH_SECONDS_TOTAL", "Pattern", "compile_pattern", "search"]

MATCH_SECONDS: Final = Limit("TAP_CORE_PATTERN_SECONDS", 1)
"""Maximum number of seconds that one match may take."""
MATCH_SECONDS_TOTAL: Final = Limit("TAP_CORE_PATTERN_SECONDS_TOTAL", 20)
"""Maximum number of seconds that slow matches and compilations may take together in a process."""

_LONGEST: Final = 100_000
"""Maximum length of a pattern in characters."""
_MOST_REPEATS: Final = 200_000
"""Maximum number of nodes that ``regex`` creates for repeats such as ``(a{1000}){100}``."""
_STEPS: Final = 10_000_000
"""Maximum number of steps of a match with `re`; they take a fraction of a second."""
_MOST_CHOICES: Final = 20
"""Maximum number of repeats and alternatives in a pattern that `re` may match."""
_MOST_SETS: Final = 1_000
"""Maximum number of sets and wide ranges in a pattern; `re` may take 20 ms to compile one."""
_MIN_COUNTED_SECONDS: Final = 0.01
"""Maximum number of seconds of a match or a compilation that is not counted as slow."""
_REFILL: Final = 0.1
"""Seconds that are added to the time budget per second that the process runs."""
_MAX_EXCERPT: Final = 80
"""Maximum number of characters of a pattern in an error message."""

_CHOICE: Final = re.compile(r"[*+?|{]|\\[1-9]")
_REPEATED_GROUP: Final = re.compile(r"\)[*+{]")
_UNUSUAL_GROUP: Final = re.compile(r"\(\?(?![:=!]|P<|<[=!])")
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z]*x")
_WIDE: Final = re.compile(r"[^\x00-\xff]|\\[uUN0-7]")
"""Pattern of a character above U+00FF, or of an escape for one."""
_COUNT: Final = r"\{(?P<count>\d+)(?P<open>,?)\d*\}|\+"
_PART: Final = re.compile(
    rf"\(\?#[^)]*\)|(?P<repeat>{_COUNT})|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL
)
"""Part of a pattern: a comment, a repeat, an escape, a set, or any other character."""
_ESCAPE: Final = r"\\N\{[^}]*\}|\\."
_IN_SET: Final = re.compile(rf"{_ESCAPE}|\[:", re.DOTALL)
"""Pattern of an escape in a set, or of syntax for ``regex`` only, such as ``[[:alpha:]]``."""
_DIALECT: Final = re.compile(
    rf"\(\?#[^)]*\)|{_ESCAPE}|(?P<set>\[\^?\]?(?:{_ESCAPE}|[^\]\\])*\])|\{{(?!\d*,?\d*\}})",
    re.DOTALL,
)
"""Pattern of a comment, an escape, a set, or syntax for ``regex`` only, such as ``a{e}``."""
_ASCII_OR_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z]*[ax]")

_WORD: Final = r"\p{L}\p{N}_"
_SPACE: Final = r"\s\x1c-\x1f"
_MEMBERS: Final = {
    r"\w": _WORD,
    r"\W": r"\p{M}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\u203f\u2040\u2054\ufe33\ufe34\ufe4d-\ufe4f"
    r"\uff3f\p{S}\p{Z}\p{C}",
    r"\s": _SPACE,
    r"\S": r"\x00-\x08\x0e-\x1b!-\x84\x86-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e"
    r"\u2030-\u205e\u2060-\u2fff\u3001-\U0010ffff",
}
"""By escape of `re`, the set members with which ``regex`` matches the same characters.

In ``regex`` itself, combining characters such as vowel signs belong to words, and U+001C is no
space.
"""
_AT_BOUNDARY: Final = f"(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}])"
_IN_WORD: Final = f"(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}])"
_ESCAPES: Final = {
    **{escape: f"(?-i:[{members}])" for escape, members in _MEMBERS.items()},
    r"\b": f"(?-i:{_AT_BOUNDARY})",
    r"\B": f"(?-i:{_IN_WORD})",
}
"""By escape of `re`, the text with the same meaning for ``regex``, outside of a set."""


class _TimeBudget:
    """Budget of seconds that slow matches and compilations of patterns in this process share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent = 0.0
        self._updated_at = time.monotonic()

    def left(self) -> float:
        """Return the remaining seconds for slow matches.

        For each second that the process runs, a tenth of a second is added to the budget.
        """
        if not self._spent:
            return MATCH_SECONDS_TOTAL.value
        with self._lock:
            now = time.monotonic()
            self._spent = max(0.0, self._spent - _REFILL * (now - self._updated_at))
            self._updated_at = now
            return MATCH_SECONDS_TOTAL.value - self._spent

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Reduce this budget by the seconds of the ``with`` block, if they are more than 0.01."""
        began = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - began
            if seconds > _MIN_COUNTED_SECONDS:
                with self._lock:
                    if not self._spent:  # `left` has not updated the time
                        self._updated_at = time.monotonic()
                    self._spent += seconds


_time_budget: Final = _TimeBudget()


class Pattern:
    """Compiled regular expression whose matches have a time limit.

    Raises:
        re.error: The text is not a regular expression.
        LimitExceededError: The text is too long, or takes too long to compile.
    """

    def __init__(self, text: str) -> None:
        _check_text(text)
        self.text: str = text
        if _time_budget.left() <= 0:
            raise LimitExceededError(
                "The regular expressions so far have taken longer than"
                f" {MATCH_SECONDS_TOTAL.value:g} seconds: simplify them, or raise"
                f" {MATCH_SECONDS_TOTAL.variable}."
            )
        with _time_budget.spending():
            self._plain = _compile(text)
        self._longest = _safe_length(text)

    def search(self, text: str) -> Any:
        """Return the first match in a text, like `re.Pattern.search`, or None.

        Raises:
            LimitExceededError: The search takes too long.
        """
        if len(text) <= self._longest:
            return self._plain.search(text)
        return self._within_time("search", text)

    def match(self, text: str) -> Any:
        """Return the match at the beginning of a text, like `re.Pattern.match`, or None.

        Raises:
            LimitExceededError: The match takes too long.
        """
        if len(text) <= self._longest:
            return self._plain.match(text)
        return self._within_time("match", text)

    def _within_time(self, method: str, text: str) -> Any:
        """Call a method of the ``regex`` pattern, such as ``search``, with a time limit.

        Raises:
            LimitExceededError: The match takes too long.
        """
        seconds = self._get_timeout(text)
        with _time_budget.spending():
            try:
                return getattr(self._guarded, method)(text, timeout=seconds)
            except TimeoutError:
                raise self._make_timeout_error(text, MATCH_SECONDS, "takes") from None

    def sub(self, replacement: str, text: str, longest: int) -> str:
        """Return a text with every match of the pattern replaced, like `re.Pattern.sub`.

        Args:
            replacement: Replacement text, with references to groups as in `re.sub`.
            text: The text.
            longest: Maximum number of characters of all replacements together.

        Raises:
            LimitExceededError: Matching takes too long, or the replacements are too long.
        """
        parts: list[str] = []
        position = size = 0
        names_groups = "\\" in replacement
        began = time.monotonic()
        for match in self._iterate_matches(text):
            new = match.expand(replacement) if names_groups else replacement
            parts += (text[position : match.start()], new)
            position = match.end()
            size += len(new)
            if time.monotonic() - began > MATCH_SECONDS_TOTAL.value:
                raise self._make_timeout_error(text, MATCH_SECONDS_TOTAL, "takes")
            if size > longest:
                raise LimitExceededError(
                    f"Replacing {_excerpt(self.text)} gives more than {longest:,} characters:"
                    " replace fewer matches, or use a shorter replacement."
                )
        return "".join((*parts, text[position:]))

    def _iterate_matches(self, text: str) -> Iterator[Any]:
        """Yield all matches in a text, like `re.Pattern.finditer`.

        Raises:
            LimitExceededError: Matching takes too long.
        """
        if len(text) <= self._longest:
            yield from self._plain.finditer(text)
            return
        seconds = self._get_timeout(text)
        with _time_budget.spending():
            try:
                yield from self._guarded.finditer(text, timeout=seconds)
            except TimeoutError:
                raise self._make_timeout_error(text, MATCH_SECONDS, "takes") from None

    def _get_timeout(self, text: str) -> float:
        """Return the time limit for the next match, in seconds.

        Raises:
            LimitExceededError: Slow matches have used up the time budget of the process.
        """
        seconds = min(MATCH_SECONDS.value, _time_budget.left())
        if seconds <= 0:
            raise self._make_timeout_error(text, MATCH_SECONDS_TOTAL, "and others before it take")
        return seconds

    @cached_property
    def _guarded(self) -> Any:
        """Pattern compiled by the package ``regex``, which can limit the time of a match."""
        if _expanded_length(self.text) > _MOST_REPEATS:
            raise LimitExceededError(
                f"The counted repeats of the regular expression {_excerpt(self.text)} make more"
                f" than {_MOST_REPEATS:,} parts: use lower counts."
            )
        regex: Any = import_module("regex")  # the package has no type hints
        return regex.compile(_translate(self.text), regex.V0, cache_pattern=False)

    def _make_timeout_error(self, text: str, limit: Limit, subject: str) -> LimitExceededError:
        """Return the error for a match on ``text`` that exceeds the time limit ``limit``.

        ``subject`` contains the words of the message before "longer than", such as "takes".
        """
        return LimitExceededError(
            f"The regular expression {_excerpt(self.text)} {subject} longer than {limit.value:g}"
            f" seconds on a text of {len(text):,} characters: simplify it, or raise"
            f" {limit.variable}."
        )


@lru_cache(maxsize=1_024)
def compile_pattern(text: str) -> Pattern:
    """Compile a regular expression; results are cached.

    Raises:
        re.error: The text is not a regular expression.
        LimitExceededError: The text is too long, or takes too long to compile.
    """
    return Pattern(text)


def search(pattern: str, text: str) -> Any:
    """Return the first match of a regular expression in a text, like `re.search`, or None.

    Raises:
        re.error: The pattern is not a regular expression.
        LimitExceededError: The pattern is too long, or the search takes too long.
    """
    return compile_pattern(pattern).search(text)


def _check_text(text: str) -> None:
    """Raise LimitExceededError if a pattern is too long, or has too many sets such as ``[a-z]``."""
    if len(text) > _LONGEST:
        raise LimitExceededError(
            f"A regular expression may have {_LONGEST:,} characters, but {_excerpt(text)} has"
            f" {len(text):,}: shorten it."
        )
    sets = text.count("[") + (text.count("-") if _WIDE.search(text) else 0)
    if sets > _MOST_SETS:
        raise LimitExceededError(
            f"A regular expression may have {_MOST_SETS:,} sets of characters, but"
            f" {_excerpt(text)} has more: use fewer."
        )


def _compile(text: str) -> re.Pattern[str]:
    """Compile a pattern with `re`.

    Raises:
        re.error: The text is not a regular expression.
        LimitExceededError: The pattern has too many nested groups.
    """
    try:
        return re.compile(text)
    except OverflowError as error:
        raise re.error(str(error), text) from None
    except RecursionError:
        raise LimitExceededError(
            f"The groups of the regular expression {_excerpt(text)} are nested too deeply: use"
            " fewer."
        ) from None


def _safe_length(pattern: str) -> int:
    """Return the length of the longest text that `re` is certain to match fast, or -1.

    In the worst case, each repeat and each alternative in the pattern multiplies the number of
    steps by the length of the text. Return -1 for a pattern with too many of them. Return -1 also
    for a pattern with a repeated or unusual group, which may need exponentially many steps.
    """
    choices = len(_CHOICE.findall(pattern))
    is_nested = _REPEATED_GROUP.search(pattern) or _UNUSUAL_GROUP.search(pattern)
    if is_nested or choices > _MOST_CHOICES:
        return -1
    within_text = _STEPS ** (1 / (choices + 2))
    within_pattern = (_STEPS / max(1, len(pattern))) ** (1 / (choices + 1))
    return int(max(within_text, within_pattern)) - 1


def _expanded_length(pattern: str) -> int:
    """Return an upper bound for the length of a pattern after repeats are expanded.

    The package ``regex`` compiles ``a{3}`` as ``aaa``, and ``(ab)+`` as ``(ab)(ab)*``.
    """
    if _VERBOSE.search(pattern):  # spaces and comments may hide what a repeat applies to
        repeats = [part for part in _PART.finditer(pattern) if part["repeat"]]
        return len(pattern) * math.prod(min(_count_copies(part), _MOST_REPEATS) for part in repeats)
    groups, latest = [0], 0
    for part in _PART.finditer(pattern):
        if part[0] == "(":
            groups.append(1)
        elif part["repeat"]:
            copies = _count_copies(part)
            groups[-1] += latest * (copies - 1)
            latest *= copies
        else:
            latest = groups.pop() if part[0] == ")" and len(groups) > 1 else 1
            groups[-1] += latest
        latest = min(latest, _MOST_REPEATS + 1)
    return sum(groups)


def _count_copies(repeat: re.Match[str]) -> int:
    """Return how often the expanded pattern contains a repeated part: 4 times for ``{3,}``."""
    if repeat["count"] is None:
        return 2
    return max(1, min(int(repeat["count"][:9]), _MOST_REPEATS) + bool(repeat["open"]))


def _translate(pattern: str) -> str:
    r"""Return a pattern for the package ``regex`` with the meaning of ``pattern`` for `re`.

    Escapes such as ``\w`` are kept in a pattern with the flags for ASCII or for comments.
    """
    is_plain = _ASCII_OR_VERBOSE.search(pattern) is None
    escapes, members = (_ESCAPES, _MEMBERS) if is_plain else ({}, {})

    def translate(match: re.Match[str]) -> str:
        text = match[0]
        if match["set"]:
            return _IN_SET.sub(translate_member, text)
        return r"\{" if text == "{" else escapes.get(text, text)

    def translate_member(match: re.Match[str]) -> str:
        text = match[0]
        return r"[\:" if text == "[:" else members.get(text, text)

    return _DIALECT.sub(translate, pattern)


def _excerpt(pattern: str) -> str:
    """Return at most 80 characters of a pattern, in quotes, for error messages."""
    return repr(pattern if len(pattern) <= _MAX_EXCERPT else f"{pattern[:_MAX_EXCERPT]}…")
