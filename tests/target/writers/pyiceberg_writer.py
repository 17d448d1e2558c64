"""Another tool that writes and reads one Iceberg table: pyiceberg, with an SQLite catalog.

Run by the interpreter of a peer environment with pyiceberg; it imports nothing of this project. A
commit that conflicts with another writer is made again from the table's new state.
"""

# mypy: ignore-errors

from __future__ import annotations

import json
import random
import select
import sys
import time
from contextlib import suppress

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from sqlalchemy.exc import OperationalError

COLUMNS = pa.schema([("id", pa.int64()), ("who", pa.string()), ("text", pa.string())])
TABLE = ("db", "t")
PATIENCE = 120


def make_rows(ids):
    texts = ["theirs"] * len(ids)
    return pa.table({"id": ids, "who": texts, "text": texts}, schema=COLUMNS)


def repeat_until_done(step):
    """Repeat a step until it has no conflict with another writer."""
    end = time.monotonic() + PATIENCE
    while not is_done(step, may_fail=time.monotonic() < end):
        time.sleep(0.05 + random.random() / 5)


def is_done(step, *, may_fail):
    try:
        step()
    except (CommitFailedException, OperationalError) as error:
        if not may_fail:
            raise
        print("again:", error, file=sys.stderr)
        return False
    return True


def commit(catalog, ids, *, keyed):
    table = catalog.load_table(TABLE)
    # Its own retry would add the same files without a check for concurrently added keys.
    table.metadata.properties["commit.retry.num-retries"] = "0"
    if keyed:
        table.upsert(make_rows(ids), join_cols=["id"])
    else:
        table.append(make_rows(ids))


def write(catalog, start, stop, keyed, makes, pause):
    """Commit ten rows at a time, with random pauses, from the first line of input to its end.

    Each commit is printed. With ``keyed`` the ids are random in the range, otherwise ascending.
    """
    sys.stdin.readline()
    if makes:
        with suppress(TableAlreadyExistsError):
            catalog.create_table(TABLE, COLUMNS)
    while not catalog.table_exists(TABLE):
        time.sleep(random.random() / 5)
    for first in range(start, stop, 10):
        ids = random.sample(range(start, stop), 10) if keyed else list(range(first, first + 10))
        repeat_until_done(lambda ids=ids: commit(catalog, ids, keyed=keyed))
        print(json.dumps(ids), flush=True)
        if select.select([sys.stdin], [], [], pause * random.random())[0]:
            break


def read(catalog):
    """Print sender and id of each row, in order; every file of the table is read."""
    try:
        columns = catalog.load_table(TABLE).scan(selected_fields=("who", "id")).to_arrow()
    except NoSuchTableError:
        columns = make_rows([])
    rows = zip(columns["who"].to_pylist(), columns["id"].to_pylist(), strict=True)
    print(json.dumps(sorted(rows)))


def main(folder, word, *args):
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{folder}/lake.db", warehouse=f"file://{folder}/lake"
    )
    catalog.create_namespace_if_not_exists(TABLE[0])
    if word == "write":
        write(catalog, *map(json.loads, args))
    if word == "read":
        read(catalog)


main(*sys.argv[1:])
