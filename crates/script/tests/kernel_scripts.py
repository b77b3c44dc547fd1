#!/usr/bin/env python3
"""Compares script verdicts with libbitcoinkernel's.

Needs the package py-bitcoinkernel (0.1.0a5 is known to work) and the built example:

    cargo build --release -p ffwd-script --example verify_stdin
    kernel_scripts.py target/release/examples/verify_stdin [--seconds N] [--seed N] [--cases FILE]

The example makes cases and prints its verdict in front of each; the kernel judges the same case under the same flags.
The kernel names no errors, so only yes and no are compared. A difference prints the case, and the exit code is 1.
With --cases, lines of that file (verdict and case) are compared instead of new ones.
"""

import argparse
import collections
import subprocess
import sys
import time

from pbk.script import PrecomputedTransactionData, ScriptPubkey, ScriptVerificationFlags
from pbk.transaction import Transaction, TransactionOutput

CASES_PER_SEED = 20_000


def kernel_verdict(flags, index, coins, tx):
    """What the kernel says: None where the transaction does not parse or does not fit its coins."""
    try:
        transaction = Transaction(tx)
    except Exception:  # The package raises its own error for a null pointer.
        return None
    if bytes(transaction) != tx or len(transaction.inputs) != len(coins) or index >= len(coins):
        return None
    scripts = [ScriptPubkey(script) for _, script in coins]
    outputs = [TransactionOutput(script, value) for script, (value, _) in zip(scripts, coins)]
    precomputed = PrecomputedTransactionData(transaction, outputs)
    return bool(scripts[index].verify(coins[index][0], transaction, precomputed, index, ScriptVerificationFlags(flags)))


def read(line):
    """Our verdict, and the case."""
    verdict, flags, index, coins, tx = line.split(" ")
    coins = [coin.split(":") for coin in coins.split(",")]
    coins = [(int(value), bytes.fromhex(script)) for value, script in coins]
    return verdict, int(flags, 16), int(index), coins, bytes.fromhex(tx)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases")
    options = parser.parse_args()
    tally, differences = collections.Counter(), 0
    start, seed = time.time(), options.seed
    while True:
        if options.cases:
            lines = open(options.cases, encoding="ascii").read().splitlines()
        else:
            command = [options.example, "--generate", str(seed), str(CASES_PER_SEED)]
            lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        for line in lines:
            verdict, *case = read(line)
            kernel = kernel_verdict(*case)
            ours = None if verdict == "PARSE" else verdict == "OK"
            tally[verdict] += 1
            if kernel is not ours:
                differences += 1
                print(f"DIFFERENT: kernel {kernel}, here {line}", flush=True)
        seed += 1
        done = options.cases or time.time() - start > options.seconds
        if done or seed % 10 == 0:
            print(f"{sum(tally.values())} cases up to seed {seed - 1}, {differences} differences, "
                  f"{time.time() - start:.0f} s", flush=True)
        if done:
            break
    for verdict, count in tally.most_common():
        print(f"{count:10} {verdict}")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
