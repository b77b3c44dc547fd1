"""LevelDB's own C++ code (the package plyvel carries it) on the databases that ffwd writes. interop/run starts it.

    python interop/google.py PROGRAM

Two commits leave two runs that overlap, with deletes in the newer one. LevelDB's look-ups and its iterator, and both again
after it has compacted everything into one run, must agree with `leveldb.py`, which reads the files by the format alone, and
ffwd must find the same coins in what LevelDB wrote.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import leveldb
import plyvel
from program import run


def ffwd(program, directory, *words):
    """The JSON object that a command prints."""
    return run([program, *words, "--datadir", directory, "--chain", "regtest", "--json"])[0]


def check(what, holds):
    if not holds:
        raise SystemExit(f"not so: {what}")
    print(f"ok: {what}", flush=True)


def same(name, when, database, want):
    """All records by their keys, every deleted key, and both ways through all of it."""
    wrong = [key for key, value in want.records.items() if database.get(key, verify_checksums=True) != value]
    check(f"{name}, {when}: LevelDB finds each of {len(want.records)} records", not wrong)
    found = [key for key in want.deleted if database.get(key) is not None]
    check(f"{name}, {when}: and none of {len(want.deleted)} deleted ones", not found)
    records = list(want.records.items())
    check(f"{name}, {when}: its iterator gives the same", list(database.iterator(verify_checksums=True)) == records)
    check(f"{name}, {when}: and backwards", list(database.iterator(reverse=True)) == records[::-1])


def compare(directory, name):
    """LevelDB may write to the directory."""
    ours = leveldb.Directory(directory / name)
    check(f"{name}: runs on levels {sorted(ours.tables())} overlap", ours.overlaps())
    database = plyvel.DB(str(directory / name), create_if_missing=False, compression=None)
    same(name, "as ffwd left it", database, ours)
    # Without bounds this version of plyvel compacts an empty range.
    database.compact_range(start=b"\0", stop=b"\xff" * 40)
    same(name, "compacted", database, ours)
    database.close()
    after = leveldb.Directory(directory / name)
    check(f"{name}: it wrote one run of the same records", after.records == ours.records and len(after.tables()) == 1)
    check(f"{name}: and deletes are gone", not after.deleted)
    return ours


def main(program):
    with tempfile.TemporaryDirectory(prefix="ffwd-interop-") as path:
        made, copy = pathlib.Path(path) / "made", pathlib.Path(path) / "copy"
        chain = ["--blocks", "3", "--seed", "11", "--utxos", "5000", "--tail", "4"]
        subprocess.run([program, "lab", "chain", "--out", str(made), *chain], check=True, capture_output=True)
        ffwd(program, made, "reindex", "--assumevalid", "0", "--stopatheight", "103")
        ffwd(program, made, "sync", "--assumevalid", "0", "--connect", "0", "--stopatheight", "105")
        want = ffwd(program, made, "coins", "info", "--hash", "hash_serialized_3")
        shutil.copytree(made, copy)
        coins = compare(copy / "regtest", "chainstate")
        check("some coins were deleted", coins.deleted)
        compare(copy / "regtest", "blocks/index")
        found = ffwd(program, copy, "coins", "info", "--hash", "hash_serialized_3")
        fields = ("bestblock", "txouts", "total_amount", "hash_serialized_3")
        check("ffwd finds the same coins after LevelDB", [found[f] for f in fields] == [want[f] for f in fields])
        ffwd(program, copy, "verify", "--level", "4", "--blocks", "0")
    print("ffwd and LevelDB agree")


main(sys.argv[1])
