"""Random bytes are drawn many at a time: none is given twice, also not by a process that was forked."""

import base64
import subprocess
import sys

from placet.desk import random_values

IN_BOTH_PROCESSES = """
import os
from placet.desk import random_values

random_values.generate_salt()
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, random_values.generate_salt().encode())
    os._exit(0)
os.wait()
print(os.read(read, 100).decode(), random_values.generate_salt())
"""


def test_no_salt_is_given_twice() -> None:
    salts = [random_values.generate_salt() for _ in range(5_000)]
    assert len(set(salts)) == len(salts)
    assert {len(bytes.fromhex(salt)) for salt in salts} == {16}


def test_no_token_is_given_twice_or_shares_bytes_with_a_salt() -> None:
    drawn = [(random_values.generate_token(), random_values.generate_salt()) for _ in range(2_000)]
    tokens = [base64.urlsafe_b64decode(f"{token}=") for token, _ in drawn]
    assert {len(token) for token in tokens} == {32}
    halves = [half for token in tokens for half in (token[:16], token[16:])]
    assert len({*halves, *(bytes.fromhex(salt) for _, salt in drawn)}) == 6_000


def test_a_forked_process_draws_salts_of_its_own() -> None:
    told = subprocess.run(
        [sys.executable, "-c", IN_BOTH_PROCESSES], capture_output=True, text=True, check=True, timeout=60
    )
    of_the_child, of_the_parent = told.stdout.split()
    assert of_the_child != of_the_parent
