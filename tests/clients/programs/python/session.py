"""Arguments, reports and the time limit that all programs share.

usage: PROGRAM.py PORT JOBS
"""
import collections
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

import redis

PORT = int(os.environ.get("SESSION_PORT") or sys.argv[1])
FOLDER = os.path.dirname(os.path.abspath(__file__))


def jobs():
    return int(sys.argv[2])


def connect(db=0):
    return redis.Redis(port=PORT, db=db, decode_responses=True)


@contextlib.contextmanager
def part(name, count):
    """Runs one part. Prints its name, how many jobs it did, and its seconds."""
    begin = time.monotonic()
    yield
    print(f"{name}\t{count}\t{time.monotonic() - begin:.3f}", flush=True)


def assert_once(seen, expected):
    """Every expected name was seen once, and no other."""
    counts = collections.Counter(seen)
    lost = [name for name in expected if counts[name] == 0]
    again = [name for name, times in counts.items() if times > 1]
    assert not lost and not again, f"{len(lost)} lost: {lost[:5]}, {len(again)} repeated: {again[:5]}"
    assert len(counts) == len(expected), "something unexpected was seen"


@contextlib.contextmanager
def processes(commands):
    """Runs commands until the body ends. Their output appears only on failure."""
    environment = {**os.environ, "SESSION_PORT": str(PORT), "PYTHONPATH": FOLDER, "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile() as output:
        running = [
            subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )
            for command in commands
        ]
        try:
            yield
            for process in running:
                process.terminate()
            for process in running:
                process.wait(timeout=60)
        except BaseException:
            for process in running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            output.seek(0)
            print(output.read()[-8000:].decode(errors="replace"), file=sys.stderr)
            raise


def run(main):
    """Ends the process with `done`, or with an error, which includes a hang."""

    def stop(*_):
        raise TimeoutError("timed out, or ended by a signal")

    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGTERM, stop)
    signal.alarm(300)
    main()
    print("done", flush=True)
