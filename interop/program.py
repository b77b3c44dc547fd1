"""Runs a program that ends with a JSON object on the last line of what it prints; a port for one that listens."""

import decimal
import json
import socket
import subprocess


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def run(command):
    """The object, amounts as they are written, and what went to standard error; ends the test if the program failed.

    A chain that ends early, by damaged records or the clock, is exit code 1 and a whole object, which says why.
    """
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    found = json.loads(lines[-1], parse_float=decimal.Decimal) if lines else {}
    is_cut_short = done.returncode == 1 and found.get("end_reason")
    if not found or (done.returncode != 0 and not is_cut_short):
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return found, done.stderr
