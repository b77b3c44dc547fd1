"""An export read by DuckDB beside the same blocks and undo data, read here without ffwd's code.

    python interop/export.py PROGRAM

A made chain is exported flat and nested. Compared: rows of each table, sums of amounts, fees of each block, ids, and every
column of inputs. Where the package duckdb is missing it says so, and skips.
"""

import hashlib
import pathlib
import struct
import subprocess
import sys
import tempfile

from coins import base128, satoshis, script
from program import run

MAGIC = bytes.fromhex("fabfb5da")
# Heights from here on have transactions in the chain that is made.
MAKE = ("--blocks", 3, "--seed", 21, "--utxos", 2000, "--tail", 1)


def sha256d(data):
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


class Bytes:
    """A reader of one block or of its undo data."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def count(self):
        first = self.number("B")
        return first if first < 253 else self.number({253: "H", 254: "I", 255: "Q"}[first])

    def text(self):
        return self.take(self.count())

    def varint(self):
        value, self.at = base128(self.data, self.at)
        return value


def records(path, behind=0):
    """Payloads of the records of a file, and what lies behind each."""
    data, at = path.read_bytes(), 0
    while data[at : at + 4] == MAGIC:
        size = struct.unpack_from("<I", data, at + 4)[0]
        at += 8 + size + behind
        yield data[at - size - behind : at - behind], data[at - behind : at]


def transaction(read):
    """Its id, its inputs (txid, number, script, sequence, stack in bytes) and its outputs (amount, script)."""
    start = read.at
    version = read.take(4)
    has_witness = read.data[read.at : read.at + 2] == b"\0\1"
    read.at += 2 * has_witness
    body = read.at
    inputs = [[read.take(32), read.number("I"), read.text(), read.number("I"), b"\0"] for _ in range(read.count())]
    outputs = [(read.number("q"), read.text()) for _ in range(read.count())]
    end = read.at
    for one in inputs if has_witness else ():
        begin = read.at
        for _ in range(read.count()):
            read.text()
        one[4] = read.data[begin : read.at]
    lock_time = read.take(4)
    return sha256d(version + read.data[body:end] + lock_time), inputs, outputs, read.at - start


def coin(read):
    """Height, whether a coinbase made it, amount, script."""
    code = read.varint()
    if code > 1:
        read.varint()
    amount = satoshis(read.varint())
    kind = read.varint()
    size = 20 if kind < 2 else 32 if kind < 6 else kind - 6
    return code >> 1, bool(code & 1), amount, script(kind, read.take(size))


def chain(blocks_dir):
    """Blocks by height: hash, transactions, and the coins that each spends."""
    blocks, undo = {}, {}
    for data, _ in records(blocks_dir / "blk00000.dat"):
        read = Bytes(data)
        header = read.take(80)
        blocks[header[4:36]] = (sha256d(header), [transaction(read) for _ in range(read.count())])
    for data, checksum in records(blocks_dir / "rev00000.dat", behind=32):
        undo[checksum] = data
    height, parent, found = 0, bytes(32), []
    while parent in blocks:
        hash_, transactions = blocks[parent]
        spent = [[] for _ in transactions]
        if height:
            read = Bytes(next(data for checksum, data in undo.items() if sha256d(parent + data) == checksum))
            spent[1:] = [[coin(read) for _ in range(read.count())] for _ in range(read.count())]
        found.append((hash_, transactions, spent))
        parent, height = hash_, height + 1
    return found


def expected(blocks):
    """Rows as tables must have them."""
    outputs, inputs, fees = [], [], {}
    for height, (_, transactions, spent) in enumerate(blocks):
        fees[height] = 0
        for place, ((txid, vin, vout, _), coins) in enumerate(zip(transactions, spent)):
            shown = txid[::-1]
            outputs += [(height, shown, n, code, amount) for n, (amount, code) in enumerate(vout)]
            if place:
                fees[height] += sum(one[2] for one in coins) - sum(amount for amount, _ in vout)
                for n, (one, (made, coinbase, amount, code)) in enumerate(zip(vin, coins)):
                    inputs.append((height, shown, n, one[0][::-1], one[1], one[2], one[3], one[4], amount, made, coinbase, code))
    return outputs, inputs, fees


def same(name, got, want):
    if got != want:
        wrong = [pair for pair in zip(got, want) if pair[0] != pair[1]][:2] if isinstance(got, list) else (got, want)
        raise SystemExit(f"{name} differ: {len(got)} rows, {len(want)} wanted; {wrong}")
    print(f"same {name}", flush=True)


def main():
    try:
        import duckdb
    except ImportError:
        print("skipped: the package duckdb is missing, so no other program reads an export")
        return
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        data = top / "data"
        subprocess.run([program, "lab", "chain", "--out", data, *map(str, MAKE)], check=True, capture_output=True)
        on = ("--datadir", data, "--chain", "regtest", "--json")
        run([program, "reindex", "--assumevalid", 0, *on])
        blocks = chain(data / "regtest" / "blocks")
        outputs, inputs, fees = expected(blocks)
        flat, nested = top / "flat", top / "nested"
        half = len(blocks) - 4
        run([program, "export", "--out", flat, "--to", half, *on])
        run([program, "export", "--out", flat, "--from", half + 1, *on])
        run([program, "export", "--out", nested, "--nested", *on])
        ask = lambda text: duckdb.sql(text.replace("@", f"{flat}/").replace("#", f"{nested}/")).fetchall()
        same("blocks", ask("select number, hash from '@blocks/**/*.parquet' order by 1"), [(n, one[0][::-1]) for n, one in enumerate(blocks)])
        ids = [(n, place, tx[0][::-1], tx[3]) for n, one in enumerate(blocks) for place, tx in enumerate(one[1])]
        columns = "block_number, index, hash, size"
        same("transactions", ask(f"select {columns} from '@transactions/**/*.parquet' order by 1, 2"), ids)
        order = "order by 1, t.index, o.index"
        join = "join '@transactions/**/*.parquet' t on t.hash = o.transaction_hash"
        columns = "o.block_number, o.transaction_hash, o.index, o.script_hex, o.value"
        same("outputs", ask(f"select {columns} from '@outputs/**/*.parquet' o {join} {order}"), outputs)
        columns = "o.block_number, o.transaction_hash, o.index, spent_transaction_hash, spent_output_index, script_hex, sequence, witness, value, spent_block_number, spent_is_coinbase, spent_script_hex"
        same("inputs", ask(f"select {columns} from '@inputs/**/*.parquet' o {join} {order}"), inputs)
        said = ask("select block_number, coalesce(sum(fee), 0)::bigint from '@transactions/**/*.parquet' group by 1 order by 1")
        same("fees by block", said, sorted(fees.items()))
        said = ask("select sum(list_sum(list_transform(outputs, lambda x: x.value)))::bigint, sum(len(inputs))::bigint from '#transactions/**/*.parquet'")
        same("nested sums", said, [(sum(one[4] for one in outputs), len(inputs))])
        said = ask("select count(*) from '@outputs/**/*.parquet' where (address is null) != (type in ('pubkey', 'multisig', 'nulldata', 'nonstandard'))")
        same("outputs with an address", said, [(0,)])


if __name__ == "__main__":
    main()
