"""Append rows to a table with PyIceberg, as another writer beside the router.

A line "NAME FIRST COUNT" on standard input is one append: COUNT rows whose seq is FIRST and up and whose text is NAME.
The answer is a line: "ok", "refused" when it is not in the table, or "unknown" with the reason when it may be.
Arguments are those of read_table.py.
"""

import sys
import time

import pyarrow
from pyiceberg.exceptions import CommitFailedException
from read_table import arguments, pyiceberg_table

TRIES = 30


def append(args, name, first, count):
    for attempt in range(TRIES):
        table = pyiceberg_table(args)
        schema = table.schema().as_arrow()
        columns = {field.name: pyarrow.nulls(count, field.type) for field in schema}
        columns["seq"] = pyarrow.array(range(first, first + count), schema.field("seq").type)
        columns["text"] = pyarrow.array([name] * count, schema.field("text").type)
        try:
            table.append(pyarrow.table(columns, schema=schema))
            return "ok"
        except CommitFailedException:  # another was faster
            time.sleep(0.05 * attempt)
    return "refused"


def main():
    args = arguments(sys.argv[1:])
    for line in sys.stdin:
        name, first, count = line.split()
        try:
            print(append(args, name, int(first), int(count)), flush=True)
        except Exception as e:
            print("unknown", " ".join(str(e).split())[:500], flush=True)


if __name__ == "__main__":
    main()
