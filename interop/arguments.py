#!/usr/bin/env python3
"""Calls with unusual arguments, to ffwd and to a bitcoind on a copy of the same data directory: each must end with the same HTTP
status, the same error (code and text) or the same result (fields, order, numbers as they are written).

    BITCOIND_EXE=... interop/arguments.py target/release/ffwd [--only getblock,gettxout]

Every call that both list in their help gets, at each place in turn, nulls, numbers out of range, wrong types, texts that are nearly
right; too few and too many; and arguments by name, in part, twice, unknown, and mixed with others by position. The names of the
arguments are bitcoind's (`help dump_all_command_conversions`).

What is the program's own is left out: OWN by field, and the help that ends a call with a wrong number of arguments but for its first
line. Calls that end the program, wait, write files, or say what the
program is are left out: SKIPPED. Ends with 1 where something differs.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from figures import bitcoind, Keep, PASSWORD, Program, USER

INDEXES = ("txindex", "blockfilterindex", "coinstatsindex", "txospenderindex")
CHAIN = "--blocks 3 --seed 5 --utxos 2000 --tail 110 --signatures real".split()
SKIPPED = set(
    "stop setmocktime logging dumptxoutset loadtxoutset waitfornewblock waitforblock waitforblockheight generatetoaddress "
    "generatetodescriptor generateblock generate getblocktemplate help uptime".split()
)
# What is the program's own, by field.
OWN = set(
    "verificationprogress size_on_disk disk_size warnings coins_db_cache_bytes coins_tip_cache_bytes locked duration logpath timemillis "
    "uploadtarget version subversion protocolversion localservices localservicesnames localrelay networks localaddresses tx_send_rate "
    "inv_buckets relayfee incrementalfee maxmempool mempoolminfee minrelaytxfee incrementalrelayfee maxdatacarriersize limitclustercount "
    "limitclustersize ban_created banned_until ban_duration time_remaining blockmintxfee path mempool_sequence".split()
)
# Arguments within lists and objects: what the values of `values` do not reach.
KEY, WHOLE = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", "0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8"
HYBRID = "06" + WHOLE[2:]
PAYEE, OTHER = "mpLQjfK79b7CCV4VMJWEWAj5Mpx8Up5zxB", "bcrt1p9yfmy5h72durp7zrhlw9lf7jpwjgvwdg0jr0lqmmjtgg83266lqsekaqka"
SIGNED = "INbVnW4e6PeRmsv2Qgu8NuopvrVjkcxob+sX8OcZG0SALhWybUjzMLPdAsXI46YZGb0KQTRii+wWIQzRpG/U+S0="
SECRET = "cUeKHd5orzT3mz8P9pxyREHfsWtVfgsfDjiZZBcjUBAaGk1BTj7N"
SPENT = '{"txid":"%s","vout":%s}' % ("1" * 64, "%s")
WITHIN = {
    "createrawtransaction": [f"[[{one}],[]{more}]" for one in (
        SPENT % "0", SPENT % "-1", SPENT % "2147483648", SPENT % "1.0", SPENT % '"0"', SPENT % "null", SPENT % "4294967295", "{}", '{"vout":0}', '{"txid":1,"vout":0}',
        *('{"txid":"%s","vout":0,"sequence":%s}' % ("1" * 64, number) for number in ("0", "-1", "4294967295", "4294967294", "4294967293", "4294967296", "1.5", '"1"', "null", "1e1")),
    ) for more in ("", ",0,true", ",1,false", ",0,false", ",4294967295", ",4294967296", ",-1", ",0,null,1", ",0,null,3", ",0,null,0", ",0,null,4", ",-1,null,-1", ",0,null,4294967296")] + [
        f"[[],{outputs}]" for outputs in (
            "{}", "[]", "null", '[{"a":1,"b":2}]', "[[]]", "[1]", "[{}]",
            *('{"%s":%s}' % (name, amount) for name in (PAYEE, OTHER, PAYEE.upper(), OTHER.upper(), "x", "", "data", "1BitcoinEaterAddressDontSendf59kuE") for amount in (
                "0", "1", "-1", "0.1", "0.000000001", "1e-8", "21000000", "21000000.00000001", '"0.5"', '"x"', '""', "null", "true", "false", "[]", "{}", '"00"', "12", '"0"', '"%s"' % ("00" * 300))),
            '{"data":"00","data":"01"}', '[{"data":"00"},{"data":"01"}]', '{"%s":1,"%s":2}' % (PAYEE, PAYEE), '[{"%s":1},{"%s":x}]'.replace("x", "2") % (PAYEE, PAYEE),
            '{"%s":1,"%s":2,"data":"aa"}' % (PAYEE, OTHER), '{"%s":1,"%s":"x"}' % (PAYEE, PAYEE), '{"data":"%s"}' % ("ab" * 80), '{"data":"%s"}' % ("ab" * 70000))],
    "createmultisig": [f"[{required},[{keys}]{form}]" for required in ("0", "1", "2", "17", "20", "21", "-1") for keys in (
        "", f'"{KEY}"', f'"{KEY}","{WHOLE}"', f'"{HYBRID}"', f'"{KEY[:-2]}"', f'"{KEY}0"', '"zz"', '""', "1", f'"{"02" + "f" * 64}"', f'"{"04" + KEY[2:]}"', ",".join([f'"{KEY}"'] * 15),
        ",".join([f'"{KEY}"'] * 16), ",".join([f'"{KEY}"'] * 20), ",".join([f'"{KEY}"'] * 21), ",".join([f'"{WHOLE}"'] * 8), f'"{KEY.upper()}"'
    ) for form in ("", ',"legacy"', ',"p2sh-segwit"', ',"bech32"', ',"bech32m"', ',"unknown"', ',""')],
    "verifymessage": [json.dumps([PAYEE, signature, "This is just a test message"]) for signature in (
        SIGNED, SIGNED[:-1], SIGNED[:-2] + "==", SIGNED[:-4], SIGNED + "=", SIGNED[:-2] + "1=", " " + SIGNED, SIGNED.replace("+", "-"), "A" * 87 + "=", "/" * 87 + "=", "H" + SIGNED[1:], "J" + SIGNED[1:], "M" + SIGNED[1:], "A" + SIGNED[1:], "====", "A===", "AA==", "")],
    "signmessagewithprivkey": [json.dumps([secret, text]) for secret in (
        SECRET, " " + SECRET, SECRET + "x", SECRET[:-1], "5KQNQrchXvxdR5WDCdGcVKvLvhdsTQcM3ttL6t2Yqo4k8HQ7m6L", "91avARGdfge8E4tZfYLoxeJ5sGBdNJQH4kvjJoQFacbgwmaKkrx") for text in ("", "x", "\u00e4\u0000", "x" * 300, "x" * 70000)],
    "getdescriptoractivity": ['[["HASH","HASH"],["raw(SCRIPT)"]]', '[["HASH"],["raw(SCRIPT)","raw(SCRIPT)"],false]', '[[],["raw(SCRIPT)"]]', '[["HASH"],[]]', '[["HASH"],[{"desc":"raw(SCRIPT)","range":5}]]', '[["HASH"],[{}]]', '[["HASH",1],[]]', '[["ZERO"],[1]]'],
    "prioritisetransaction": [f'["{"2" * 64}",{dummy},{delta}]' for dummy in ("null", "0", "0.0", "-0", "1", "1e-999", "1e999", "0e5", "1e99") for delta in ("0", "1", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1.0", "null")],
}
# Listed in docs/server.md: an argument of a call for which ffwd has another answer.
LISTED = {("decodescript", '["00"]'), ("getmemoryinfo", '["mallocinfo"]'), ("getmemoryinfo", '{"mode":"mallocinfo"}')}


def plain(value):
    """A result without what is the program's own."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return [(name, plain(of)) for name, of in value if name not in OWN]
    return [plain(of) for of in value] if isinstance(value, list) else value


def heard(keep, method, params):
    """Status, and error or result as they are to be compared. `params` is text."""
    body = f'{{"method":"{method}","params":{params},"id":1}}'.encode()
    head = keep.post("uptime").split(b"Content-Length")[0]
    status, size = keep.ask(head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    text = bytes(keep.buffer[keep.start:keep.start + size])
    if not text:
        return status, None
    said = dict(json.loads(text, object_pairs_hook=lambda pairs: pairs or {}, parse_float=str, parse_int=lambda digits: f"int {digits}"))
    if said["error"] is None:
        return status, plain(said["result"])
    error = dict(said["error"])
    if error["message"].startswith(method):
        error["message"] = error["message"].split("\n")[0]
    return status, error


def values(known):
    """What an argument may be that it should not."""
    numbers = ["-1", "0", "1", "2", "3", "7", "100", "1000000", "1.5", "1e99", "2147483648", "-2147483649", "9223372036854775808", "1e1", "-0"]
    texts = ["", "x", "00", "0x00", "zz", "1", "0" * 64, "F" * 64, "Z" * 64, "0" * 63, "0" * 66, " " + known["hash"], known["hash"].upper(), known["txid"], "\u00e4\u0000", "true"]
    others = ["null", "true", "false", "[]", "{}", "[1]", '["x"]', "[null]", "[[]]", '{"a":1}', '{"":null}', f'["{known["hash"]}"]', f'["{known["txid"]}"]']
    return numbers + [json.dumps(text) for text in texts] + others


def fitting(known, method, name):
    """An argument that the call takes."""
    by_name = {
        "blockhash": known["hash"], "hash": known["hash"], "hash_or_height": 5, "height": 5, "txid": known["txid"], "txids": [known["txid"]],
        "n": 0, "nblocks": 5, "verbose": True, "verbosity": 1, "verbosity|verbose": 1, "stats": ["txs"], "filtertype": "basic",
        "hash_type": "none", "use_index": True, "include_mempool": True, "hexstring": known["raw"], "hexdata": "00", "proof": known["proof"],
        "address": known["address"], "descriptor": known["descriptor"], "action": "start", "scanobjects": [f"raw({known['script']})"],
        "command": "add", "node": "127.0.0.1:1", "subnet": "192.0.2.0/24", "checklevel": 1, "conf_target": 2, "mode": "stats", "iswitness": True,
        "outputs": [{"txid": known["txid"], "vout": 0}], "count": 1, "network": "ipv4", "index_name": "txindex", "peer_id": 0, "nodeid": 0, "bantime": 60,
        "absolute": False, "estimate_mode": "unset", "mempool_sequence": False, "state": True, "v2transport": False, "range": [0, 1],
    }
    if method == "setban" and name == "command":
        return "remove"
    own = {
        "createrawtransaction": {"inputs": [{"txid": known["txid"], "vout": 0}], "outputs": {PAYEE: 1}, "locktime": 0, "replaceable": True, "version": 2},
        "createmultisig": {"nrequired": 1, "keys": [KEY], "address_type": "bech32"}, "verifymessage": {"address": PAYEE, "signature": SIGNED, "message": "This is just a test message"},
        "signmessagewithprivkey": {"privkey": SECRET, "message": "x"}, "getdescriptoractivity": {"blockhashes": [known["block"]]}, "prioritisetransaction": {"dummy": 0, "fee_delta": 5},
    }.get(method, {})
    if name in own:
        return own[name]
    if method == "decodescript":
        return known["script"]
    if method in ("invalidateblock", "submitheader", "pruneblockchain", "addnode", "disconnectnode", "getaddednodeinfo") and name not in ("command", "v2transport"):
        return {"invalidateblock": "1" * 64, "submitheader": "00" * 80, "pruneblockchain": 1}.get(method, "127.0.0.1:1")
    return by_name.get(name, "x")


def cases(known, method, names):
    """The texts of `params`."""
    good = [json.dumps(fitting(known, method, name)) for name in names]
    yield "[]"
    yield "[" + ",".join([*good, "1"]) + "]"
    yield "[" + ",".join("null" for _ in names) + "]"
    for at in range(len(names)):
        yield "[" + ",".join(good[:at + 1]) + "]"
        for value in values(known):
            yield "[" + ",".join([*good[:at], value]) + "]"
    first = [name.split("|")[0] for name in names]
    pairs = [f'"{name}":{value}' for name, value in zip(first, good)]
    yield "{" + ",".join(pairs) + "}"
    yield "{" + ",".join(reversed(pairs)) + "}"
    yield '{"nosuch":1}'
    yield '{"args":[]}'
    yield '{"args":5}'
    yield '{"args":null}'
    yield '{"args":{}}'
    for at, pair in enumerate(pairs):
        yield "{" + pair + "}"
        yield "{" + pair + "," + pair + "}"
        yield "{" + pair + ',"nosuch":1}'
        yield '{"args":[' + good[0] + "]," + pair + "}"
        yield "{" + pair + ',"args":[' + good[0] + "]}"
        yield '{"args":[' + ",".join(good[:at]) + "]," + ",".join(pairs[at:]) + "}"
        for value in ("null", '"x"', "-1", "[]", "{}"):
            yield "{" + f'"{first[at]}":{value}' + "}"
    for text in WITHIN.get(method, []):
        yield text.replace("HASH", known["block"]).replace("SCRIPT", known["script"]).replace("ZERO", "0" * 64)
    for name in names:
        for other in name.split("|")[1:]:
            yield "{" + f'"{other}":1' + "}"
            yield "{" + f'"{other}":1,"{name.split("|")[0]}":1' + "}"


def known_of(keep):
    """What the chain has, for arguments that fit."""
    tip = keep.result("getblockcount")
    known = {"hash": keep.result("getblockhash", 5)}
    for height in range(tip, 0, -1):
        block = keep.result("getblock", keep.result("getblockhash", height), 2)
        if len(block["tx"]) > 1:
            break
    tx = block["tx"][-1]
    script = tx["vout"][0]["scriptPubKey"]
    known |= {"block": block["hash"], "txid": tx["txid"], "raw": tx["hex"], "script": script["hex"], "address": script.get("address", "x"), "descriptor": script["desc"]}
    return known | {"proof": keep.result("gettxoutproof", [tx["txid"]], block["hash"])}


def listed(keep):
    lines = keep.result("help").splitlines()
    return {line.split()[0] for line in lines if line and not line.startswith("==")}


def compare(ours, theirs, only):
    known = known_of(theirs)
    names = {}
    for method, at, name, _ in theirs.result("help", "dump_all_command_conversions"):
        names.setdefault(method, {}).setdefault(at, name)
    methods = sorted(((listed(ours) & listed(theirs)) - SKIPPED) & (only or listed(theirs)))
    count, different, limit = 0, 0, int(os.environ.get("LIMIT", "400"))
    for method in methods:
        # Arguments within an object that may be given by name stand behind the others with the same place.
        places = [names.get(method, {})[at] for at in sorted(names.get(method, {}))]
        for params in dict.fromkeys(cases(known, method, places)):
            if (method, params) in LISTED:
                continue
            found, wanted = heard(ours, method, params), heard(theirs, method, params)
            count += 1
            if found != wanted:
                different += 1
                print(f"{method} {params[:300]}\n    bitcoind {str(wanted)[:limit]}\n    ffwd     {str(found)[:limit]}", flush=True)
    print(f"{count} calls of {len(methods)} kinds, {different} differ")
    return different


def main():
    read = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    read.add_argument("ffwd", type=pathlib.Path)
    read.add_argument("--only", default="")
    options = read.parse_args()
    if "BITCOIND_EXE" not in os.environ:
        print("skipped: BITCOIND_EXE names no bitcoind")
        return
    ffwd, work = options.ffwd.resolve(), pathlib.Path(tempfile.mkdtemp(prefix="ffwd-arguments-"))
    try:
        own, core = work / "own", work / "core"
        indexes = [f"--{name}" for name in INDEXES]
        for words in (["lab", "chain", "--out", own, *CHAIN], ["reindex", "--datadir", own, "--chain", "regtest", *indexes]):
            subprocess.run([ffwd, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
        shutil.copytree(own, core)
        programs = [
            Program("ffwd", [ffwd, "serve", "--datadir", own, "--chain", "regtest", *indexes, "--rpcport", "RPC", "--rpcuser", USER, "--rpcpassword", PASSWORD]),
            bitcoind(core, *(f"-{name}=1" for name in INDEXES)),
        ]
        different = compare(*(Keep(program.at) for program in programs), set(filter(None, options.only.split(","))))
        for program in programs:
            program.stop()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
