"""Names made fit for a database, where `singer_sdk` has them.

Rules of the room: a face; the functions live in `tap_core.sql.identifiers`.
"""

from __future__ import annotations

from tap_core.sql.identifiers import replace_leading_digit as replace_leading_digit
from tap_core.sql.identifiers import snakecase as snakecase
