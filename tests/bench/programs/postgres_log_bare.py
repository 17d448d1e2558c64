"""A bare loop over the log of PostgreSQL: decode changed rows, write them as JSON lines.

Arguments: the database's address, the slot, the publication and the column names. All values stay
text, so the loop does less than a tap: it is the floor of the time.
"""

import struct
import sys

import msgspec
import psycopg

CHANGES = """
    SELECT data FROM pg_logical_slot_peek_binary_changes(
        %s, NULL, NULL, 'proto_version', '1', 'publication_names', %s)
"""


def main() -> None:
    """Read the whole log of the slot."""
    url, slot, publication, *names = sys.argv[1:]
    write, encode = sys.stdout.buffer.write, msgspec.json.encode
    read_size = struct.Struct(">I").unpack_from
    with psycopg.connect(url) as connection, connection.cursor("c", binary=True) as cursor:
        cursor.itersize = 200
        cursor.execute(CHANGES, (slot, publication))
        for (data,) in cursor:
            if data[0] not in b"IUD":
                continue
            record, position = {}, 8  # as long as no update changes a key
            for name in names:
                if data[position] == ord("t"):
                    [size] = read_size(data, position + 1)
                    record[name] = data[position + 5 : position + 5 + size].decode()
                    position += 5 + size
                else:
                    record[name] = None
                    position += 1
            write(encode({"type": "RECORD", "stream": "public-orders", "record": record}) + b"\n")


main()
