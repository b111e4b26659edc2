"""The command `placet`, forked from a process that has imported it, which takes a tenth of the time."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

INSTALLED = str(Path(sys.executable).with_name("placet"))
SERVER_MODULE = "tests.cli.fork_server"
ROOT = Path(__file__).parents[2]

# The interpreter reads these only when it starts: under other values the installed command runs instead.
READ_AT_START = (b"PYTHON", b"LC_", b"LANG", b"COVERAGE_", b"MALLOC_")

# A process that passes its arguments, folder, environment, streams and signals to a forked command, and ends
# with its exit code. It imports as little as possible.
CLIENT = """#!{python} -IS
import os, sys, _signal, _socket
pairs = os.environb.items()
if sorted(pair for pair in pairs if pair[0].startswith({read_at_start!r})) != {environment!r}:
    os.execv({installed!r}, sys.argv)
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
connection.connect({socket!r})
words = [os.fsencode(word) for word in sys.argv]
variables = [name + b"=" + value for name, value in pairs]
message = b"\\0".join([b"%d" % len(words), os.getcwdb(), b"%d" % os.umask(0), *words, *variables])
message = b"%d\\0%b" % (len(message), message)
signals = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGUSR1, _signal.SIGUSR2)
for number in signals:
    _signal.signal(number, lambda number, _: connection.send(bytes([number])))
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
sent = connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
if sent < len(message):  # otherwise the command may have ended already, and a send would fail
    connection.sendall(message[sent:])
for number in range(3):
    os.close(number)
code = int(connection.recv(16))
if code < 0:
    if -code in signals:
        _signal.signal(-code, _signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def read_at_start() -> list[tuple[bytes, bytes]]:
    return sorted(pair for pair in os.environb.items() if pair[0].startswith(READ_AT_START))


@cache
def forked_command() -> str:
    """Return the path of a program that behaves as the installed `placet` and starts at once.

    The program behind it is started by the first call in this process and ends with it.
    """
    folder = tempfile.mkdtemp(prefix="placet-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path, command = f"{folder}/socket", Path(folder, "placet")
    server = subprocess.Popen(
        [sys.executable, "-m", SERVER_MODULE, path],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    atexit.register(_end, server)
    assert server.stdout is not None
    with server.stdout as output:
        assert output.readline() == b"listening\n", "the fork server did not start"
    command.write_text(
        CLIENT.format(
            python=sys.executable,
            read_at_start=READ_AT_START,
            environment=read_at_start(),
            installed=INSTALLED,
            socket=path,
        )
    )
    command.chmod(0o755)
    command.with_name("run-module").symlink_to(command)
    return str(command)


def search_path() -> str:
    """Return a PATH on which `placet` is the forked command, and everything else as it was."""
    folders = (str(Path(forked_command()).parent), str(Path(INSTALLED).parent), os.environ["PATH"])
    return os.pathsep.join(folders)


def forked_module(module: str, *arguments: str) -> list[str]:
    """Return the command that does what `python -m` does with this module, in the folder of the checkout."""
    return [str(Path(forked_command()).with_name("run-module")), module, *arguments]


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    server.wait()
