"""Extractor of records from large CSV files, such as the results of asynchronous jobs.

Rows are read one at a time. airbyte-cdk reads such files with pandas. As in pandas, texts like
``NA`` become None, and unnamed or duplicate columns get names like ``Unnamed: 1`` or ``id.1``.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

import requests

from tap_core.exceptions import FatalAPIError
from tap_core.limits.memory import RowBound
from tap_core.manifest.decompression import (
    BoundedReader,
    decompress,
    open_body,
    translate_read_errors,
)
from tap_core.manifest.interfaces import Decoder
from tap_core.types import Record

__all__ = ["ResponseToFileExtractor"]

_NULL_VALUES: Final = frozenset(
    {
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"),
        *("1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    }
)
"""Values of CSV files that are read as None; these are pandas' defaults."""


@dataclass(frozen=True)
class ResponseToFileExtractor(BoundedReader):
    """Extractor that yields one record per row of a CSV body, which may be gzip-compressed.

    By default, empty values and values like ``NA`` become None. If `preserve_na_values` is set,
    only empty values become None.
    """

    preserve_na_values: bool = False

    def replace_decoder(self, decoder: Decoder) -> Callable[[requests.Response], Iterator[Any]]:  # noqa: ARG002
        """Return a function to use in place of ``decoder``: it yields the response unchanged.

        The response must not be decoded before, because this extractor parses its body as CSV.
        """
        return lambda response: iter((response,))

    def extract(self, document: requests.Response) -> Iterator[Record]:
        """Yield a record for each CSV row of a response, which is the undecoded ``document``.

        Raises:
            FatalAPIError: A row has more values than the header has columns.
        """
        return translate_read_errors(document, self._rows(document))

    def _rows(self, document: requests.Response) -> Iterator[Record]:
        null_values = {""} if self.preserve_na_values else _NULL_VALUES
        bound = self.bound()
        data: Any = decompress(open_body(document), bound)
        text = io.TextIOWrapper(data, encoding="utf-8-sig", newline="")
        lines = RowBound(bound, text)
        reader = csv.reader(line.replace("\0", "") for line in lines)
        rows = filter(None, reader)
        header = next(rows, [])
        bound.check_columns(len(header))
        columns = _make_unique_names(header)
        lines.next_row()
        for values in rows:
            lines.next_row()
            if len(values) > len(columns):
                raise FatalAPIError(
                    f"Line {reader.line_num} of the file has {len(values)} values, but there are"
                    f" {len(columns)} columns.",
                    response=document,
                )
            row = [None if value in null_values else value for value in values]
            yield dict(zip_longest(columns, row))


def _make_unique_names(header: list[str]) -> list[str]:
    """Return unique column names for a CSV header, with numbers added as pandas adds them.

    For example, ``['id', '', 'id']`` becomes ``['id', 'Unnamed: 1', 'id.1']``. A number is skipped
    if another column already has the name: ``['a', 'a', 'a.1']`` becomes ``['a', 'a.2', 'a.1']``.
    """
    names = [name or f"Unnamed: {index}" for index, name in enumerate(header)]
    used = set(names)
    counts: Counter[str] = Counter()
    # The columns with a name come first, so that they keep it.
    for index in sorted(range(len(names)), key=lambda index: not header[index]):
        name = names[index]
        if counts[name]:
            while (unique := f"{name}.{counts[name]}") in used:
                counts[name] += 1
            names[index] = unique
            used.add(unique)
        counts[name] += 1
    return names
