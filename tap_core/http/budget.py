"""A budget of requests: so many in a period, for whoever shares it.

Rules of the room: requests are spread evenly, without bursts, so that no window of time
sees more than the rate allows. A place is taken under the lock and waited for outside of
it, so that threads queue up and do not wait for one another's sleep.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

__all__ = ["RequestBudget", "shared_budget"]


class RequestBudget:
    """Hands out the moments at which requests may be sent.

    ``clock`` gives seconds that never go back, ``sleep`` waits for some.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._free_at = float("-inf")
        self._lock = threading.Lock()

    def take(self, requests: float, period: float = 1.0) -> float:
        """Wait until one more request fits into ``requests`` per ``period`` seconds.

        Returns:
            The seconds waited.

        Raises:
            ValueError: the number of requests is not above zero.
        """
        if not requests > 0:
            raise ValueError(f"A rate limit must be above zero, and {requests!r} is not.")
        with self._lock:
            now = self._clock()
            at = max(now, self._free_at)
            self._free_at = at + period / requests
        wait = at - now
        if wait > 0:
            (self._sleep or time.sleep)(wait)
        return wait


_shared: WeakKeyDictionary[object, RequestBudget] = WeakKeyDictionary()
_shared_lock = threading.Lock()


def shared_budget(owner: object) -> RequestBudget:
    """Return the one budget of an owner, a tap; it lives as long as the owner does."""
    with _shared_lock:
        return _shared.setdefault(owner, RequestBudget())
