"""Answers the questions of docs/export.md with DuckDB, and compares with the answers that the page has.

    python3 export_page.py PAGE TABLES          TABLES: where the tables are, which the page has in /data/bitcoin
    python3 export_page.py PAGE TABLES --print  shows the answers as the page has them

Behind each block of SQL the page has its answer, a table of Markdown. The query for inscriptions is asked a second time, on a row
that has one: the chain of the page has none.
"""

import pathlib
import re
import sys
import tempfile

try:
    import duckdb
except ImportError:
    print("skipped: this Python has no package duckdb")
    sys.exit(77)

# The witness of a script path: signature, script with an envelope of three bytes of content, control block.
ENVELOPE = bytes.fromhex("0063036f7264010118746578742f706c61696e3b636861727365743d7574662d3800036162636821")


def questions(page):
    """Heading, query and the rows of the answer, for each block of SQL."""
    for part in re.split(r"(?m)^### ", page)[1:]:
        query = re.search(r"(?s)```sql\n(.*?)```", part)
        table = re.findall(r"(?m)^\|(.*)\|$", part[query.end():]) if query else []
        rows = [[cell.strip().strip("`") for cell in row.split("|")] for row in table]
        yield part.splitlines()[0], query and query[1], rows[:1] + rows[2:]


def answer(query, tables):
    found = duckdb.sql(query.replace("/data/bitcoin", tables))
    return [list(found.columns)] + [["" if cell is None else str(cell) for cell in row] for row in found.fetchall()]


def inscription(query):
    with tempfile.TemporaryDirectory() as top:
        where = pathlib.Path(top, "inputs")
        where.mkdir()
        item = lambda data: bytes([len(data)]) + data
        witness = b"\x03" + item(b"\x01" * 64) + item(ENVELOPE) + item(b"\x02" * 33)
        plain = b"\x02" + item(b"\x30" * 71) + item(b"\x02" * 33)
        rows = ", ".join(f"(7, unhex('{data.hex()}'))" for data in (witness, plain, b"\0"))
        duckdb.sql(f"copy (select * from (values {rows}) as t(block_number, witness)) to '{where}/one.parquet' (format parquet)")
        got = answer(query, top)[1:]
        assert got == [["1", str(len(witness))]], f"an inscription of {len(witness)} bytes: {got}"


def main():
    page, tables = pathlib.Path(sys.argv[1]).read_text(), sys.argv[2]
    asked = [question for question in questions(page) if question[1]]
    wrong = []
    for heading, query, want in asked:
        got = answer(query, tables)
        if "--print" in sys.argv:
            print(f"### {heading}\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in [got[0], ["---"] * len(got[0])] + got[1:]) + "\n")
        elif got != want:
            wrong.append(f"{heading}: the page has {want}, the tables have {got}")
        if "inscription" in heading.lower():
            inscription(query)
    assert len(asked) >= 10, f"{len(asked)} questions"
    if wrong:
        sys.exit("\n".join(wrong))


main()
