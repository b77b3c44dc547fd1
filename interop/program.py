"""Runs a program that ends with a JSON object on the last line of what it prints."""

import decimal
import json
import subprocess


def run(command):
    """The object, amounts as they are written, and what went to standard error; ends the test if the program failed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return json.loads(lines[-1], parse_float=decimal.Decimal), done.stderr
