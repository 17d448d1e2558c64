"""Pages that need several requests, one for each group of properties (property chunking).

The page loop regards each request as a page. The records of a page are merged and emitted after the
last request for it, so a reader that stops early stops between whole pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tap_core.manifest.components.query_properties import (
    GroupByKeyMergeStrategy,
    inject_properties,
    merge_objects,
)
from tap_core.manifest.page_loop import PageLoop, PageToken

if TYPE_CHECKING:
    import requests

    from tap_core.types import Record

__all__ = ["PropertyChunkReader"]


class PropertyChunkReader(PageLoop):
    """Pagination for an API that limits the properties (record fields) per request.

    Each page takes several requests, one per group of properties. Their partial records are merged.
    """

    def __init__(
        self,
        *args: Any,
        chunks: Sequence[Sequence[str]],
        merging: GroupByKeyMergeStrategy | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._chunks = chunks
        self._merging = merging
        # A part of a record may lack the cursor field, so that only a merged record is filtered.
        self._admits_merged = self._admits
        if merging is not None:
            self._admits = None
        self._chunk_index = 0
        self._without_key: list[Record] = []
        """Records of the current page without a key, which are not merged."""
        self._by_key: dict[Any, Record] = {}
        """Merged records of the current page, by key."""

    @property
    def current_value(self) -> PageToken:
        """Position of the page to request next, and the template variables of the request.

        The variables include the names of the properties (record fields) to request.
        """
        token = super().current_value
        return PageToken(
            token.cursor, inject_properties(token.scope, self._chunks[self._chunk_index])
        )

    @property
    def _is_last(self) -> bool:
        return self._chunk_index + 1 == len(self._chunks)

    def parse(self, response: requests.Response) -> Iterator[Record]:
        """Yield the records of a page, once all requests for this page have been sent.

        Partial records with equal keys are merged. Records without a key come first, unmerged.
        """
        if self._merging is None:
            yield from super().parse(response)
            return
        for record in super().parse(response):
            key = self._merging.group(record)
            if key is None:
                self._without_key.append(record)
            else:
                self._by_key[key] = merge_objects(self._by_key.get(key, {}), record)
        if not self._is_last:
            self.finished = False  # an ignored error response ends only its chunk
            return
        admits = self._admits_merged
        records = [*self._without_key, *self._by_key.values()]
        records = [record for record in records if admits is None or admits(record)]
        self._without_key, self._by_key = [], {}
        self._counts.kept = len(records)
        self._counts.last = records[-1] if records else None
        yield from records

    def advance(self, response: requests.Response) -> None:
        """Go to the next group of properties, or after the last group to the next page."""
        if self._is_last:
            self._chunk_index = 0
            super().advance(response)
        else:
            self._chunk_index += 1
