"""Whether what a system found in a folder is a paper's own set: its counts beside those of `expected`."""

import pandas as pd

from tffapps.data import manifest as manifests
from tffapps.data.expected import SETS, Count, PublishedSet
from tffapps.data.pool import Pool
from tffapps.errors import UserError


def table(pool: Pool, published: PublishedSet) -> str:
    """A line for each count (found, expected, same or differs), then what is not compared and what is not published."""
    rows = [_row(pool, count) for count in published.counts]
    frame = pd.DataFrame(rows, columns=["count", "found", "expected", ""])
    lines = [f"{published.title}, by {published.source}:", frame.to_string(index=False)]
    if published.aside:
        other = published.aside
        numbers = ", ".join(f"{count.what} {_found(pool, count)} ({count.number})" for count in other.counts)
        lines.append(f"not compared, in brackets {other.source}: {numbers}; {other.why}")
    if published.unpublished:
        lines.append(f"not published: {published.unpublished}")
    return "\n".join(lines)


def check(pool: Pool, name: str, published: PublishedSet) -> None:
    """Raises a UserError that names the first count that differs, and what it usually means."""
    for count in published.counts:
        found = _found(pool, count)
        if found != count.number:
            raise UserError(
                f"--expect {name}: {count.what}: {found} found, {count.number} expected;"
                f" {_meaning(pool, count, found, published)}"
            )


def is_own(pool: Pool, system: str) -> bool:
    """Whether the pool has the counts of one of the sets of a system's paper: only then its values are comparable."""
    return any(
        all(_found(pool, count) == count.number for count in published.counts)
        for published in SETS.values()
        if published.system == system
    )


def _row(pool: Pool, count: Count) -> tuple[str, int, int, str]:
    found = _found(pool, count)
    return count.what, found, count.number, "same" if found == count.number else "differs"


def _found(pool: Pool, count: Count) -> int:
    rows = pool.table
    for column, value in (("label", count.label), ("split", count.split), ("client", count.client)):
        if value:
            rows = rows[rows[column] == value]
    if not count.of:
        return len(rows)
    return rows[count.of].nunique() if count.of in rows.columns else 0


def _meaning(pool: Pool, count: Count, found: int, published: PublishedSet) -> str:
    """What can be told from the pool, or else what it usually is."""
    clients = sorted(set(pool.table.client), key=manifests.natural_key)
    if count.client and count.client not in clients:
        return f"no client is called {count.client} (there are {', '.join(clients)}): call the folders as the set's"
    if count.of and count.of not in pool.table.columns:
        return f"the images have no {count.of}: lay them out without splits, or give a manifest with that column"
    if found < count.number and len(pool.rejected):
        return f"{len(pool.rejected)} files cannot be read: download them again"
    return published.fewer if found < count.number else published.more
