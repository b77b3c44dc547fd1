"""The UTXO set of a directory `chainstate`, as this reader sees it: best block, counts, hash_serialized_3.

    python3 interop/coins.py DATADIR/regtest

Written from the formats of Bitcoin Core b88bffe (txdb.cpp, compressor.cpp, kernel/coinstats.cpp), not from ffwd's code.
"""

import hashlib
import json
import pathlib
import sys

import leveldb

FIELD = 2**256 - 2**32 - 977
KEY_RECORD = b"\x0e\x00obfuscate_key"


def base128(data, at):
    """Core's VARINT, and where it ends."""
    value = 0
    while data[at] & 0x80:
        value = (value << 7 | data[at] & 0x7F) + 1
        at += 1
    return value << 7 | data[at], at + 1


def satoshis(code):
    """Core's compressed amount."""
    if code == 0:
        return 0
    rest, zeros = divmod(code - 1, 10)
    if zeros == 9:
        return (rest + 1) * 10**9
    rest, digit = divmod(rest, 9)
    return (rest * 10 + digit + 1) * 10**zeros


def public_key(x, odd):
    """The uncompressed key with this x, whose y is odd or not."""
    y = pow(int.from_bytes(x, "big") ** 3 + 7, (FIELD + 1) // 4, FIELD)
    if y & 1 != odd:
        y = FIELD - y
    return b"\x04" + x + y.to_bytes(32, "big")


def script(kind, rest):
    """Core's compressed script."""
    if kind == 0:
        return b"\x76\xa9\x14" + rest + b"\x88\xac"
    if kind == 1:
        return b"\xa9\x14" + rest + b"\x87"
    if kind in (2, 3):
        return b"\x21" + bytes([kind]) + rest + b"\xac"
    if kind in (4, 5):
        return b"\x41" + public_key(rest, kind - 4) + b"\xac"
    if len(rest) != kind - 6:
        raise leveldb.Damaged(f"a script of {len(rest)} bytes, where {kind - 6} were announced")
    return rest


def compact_size(count):
    if count < 253:
        return bytes([count])
    if count < 1 << 16:
        return b"\xfd" + count.to_bytes(2, "little")
    return b"\xfe" + count.to_bytes(4, "little")


def read(network_directory):
    """What the chainstate of a network's directory holds."""
    directory = leveldb.Directory(pathlib.Path(network_directory) / "chainstate")
    records = directory.records
    key = records.get(KEY_RECORD, bytes(9))[1:]

    def plain(value):
        return bytes(byte ^ key[at % 8] for at, byte in enumerate(value))

    coins, amount, bogosize = [], 0, 0
    for name, value in records.items():
        if name[:1] != b"C":
            continue
        vout, end = base128(name, 33)
        if end != len(name):
            raise leveldb.Damaged(f"key {name.hex()}")
        value = plain(value)
        code, at = base128(value, 0)
        coded, at = base128(value, at)
        kind, at = base128(value, at)
        pays, to = satoshis(coded), script(kind, value[at:])
        amount += pays
        bogosize += 50 + len(to)
        body = code.to_bytes(4, "little") + pays.to_bytes(8, "little") + compact_size(len(to)) + to
        coins.append((name[1:33], vout, body))
    # By txid, then by the number of the output: not the order of the keys above output 16511.
    coins.sort()
    digest = hashlib.sha256()
    for txid, vout, body in coins:
        digest.update(txid + vout.to_bytes(4, "little") + body)
    best = records.get(b"B")
    return {
        "bestblock": plain(best)[::-1].hex() if best else None,
        "txouts": len(coins),
        "bogosize": bogosize,
        "satoshis": amount,
        "hash_serialized_3": hashlib.sha256(digest.digest()).digest()[::-1].hex(),
        "tables": directory.tables(),
    }


if __name__ == "__main__":
    print(json.dumps(read(sys.argv[1])))
