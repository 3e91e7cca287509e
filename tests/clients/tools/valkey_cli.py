"""The modes of valkey-cli: each runs on the server and on a Valkey, and prints the same. Prints each part that
has passed. table.py has the arguments.

usage: valkey_cli.py PORT TLS_PORT CA CLUSTER_PORT REFERENCE_PORT FOLDER
"""
import contextlib
import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import threading
import time

PORT, TLS_PORT, CA, CLUSTER_PORT, REFERENCE, FOLDER = (*sys.argv[1:6], pathlib.Path(sys.argv[6]))
CLI = shutil.which("valkey-cli", path=os.environ.get("PEERS_BIN", "") + os.pathsep + os.environ["PATH"])
PATIENCE = 60
LIBRARY = "#!lua name=mine\nserver.register_function('twice', function(keys, args) return 2 * args[1] end)"


def run(port, *words, code=0, **options):
    """The output of a command."""
    if isinstance(options.get("input"), str):
        options["input"] = options["input"].encode()
    ended = subprocess.run([CLI, "-p", port, *words], capture_output=True, timeout=PATIENCE, **options)
    assert ended.returncode == code, f"{words}: {ended.returncode}: {ended.stdout[-500:]} {ended.stderr[-500:]}"
    return ended.stdout.decode("latin-1")


def cli(*words, prints=None, key=lambda text: text, **options):
    """The output of a command on both servers. `key` leaves out what may differ."""
    on_server, on_reference = (run(port, *words, **options) for port in (PORT, REFERENCE))
    assert key(on_server) == key(on_reference), f"{words}: {on_server}, not {on_reference}"
    assert prints is None or on_server == prints, f"{words}: {on_server!r}, not {prints!r}"
    return on_server


@contextlib.contextmanager
def running(*words, port=PORT):
    """A mode that doesn't end by itself: a function that returns the next line that matches a pattern."""
    # Without a terminal, the output is written when a buffer is full, unless stdbuf changes that.
    process = subprocess.Popen(["stdbuf", "-oL", CLI, "-p", port, *words], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = queue.Queue()
    threading.Thread(target=lambda: [lines.put(line) for line in process.stdout], daemon=True).start()

    def next_line(pattern):
        end = time.monotonic() + PATIENCE
        while True:
            line = lines.get(timeout=max(0.01, end - time.monotonic())).decode("latin-1").strip()
            if re.search(pattern, line):
                return line

    try:
        yield next_line
    finally:
        process.kill()
        process.wait()


def commands():
    cli("SET", "text", "a\nb", prints="OK\n")
    cli("--no-raw", "GET", "text", prints='"a\\nb"\n')
    cli("-x", "SET", "stdin", input="piped", prints="OK\n")
    cli("-X", "tag", "SET", "stdin2", "tag", input="named", prints="OK\n")
    cli("--quoted-input", "SET", r'"\tkey"', r'"\x00"', prints="OK\n")
    cli("-n", "3", "SET", "other", "db", prints="OK\n")
    cli("-n", "3", "DBSIZE", prints="1\n")
    for port in (PORT, REFERENCE):
        assert run(port, "-u", f"valkey://127.0.0.1:{port}/3", "GET", "other") == "db\n"
    cli("-e", "INCR", "text", code=1)
    cli("NOSUCH", "a")
    cli(input="SET a 1\nINCR a\nTYPE a\nNOSUCH b\nMULTI\nINCR a\nEXEC\n")
    cli("ACL", "SETUSER", "ann", "on", ">secret", "~*", "+get", prints="OK\n")
    cli("--user", "ann", "--pass", "secret", "--no-auth-warning", "GET", "stdin", prints="piped\n")
    cli("--user", "ann", "--pass", "secret", "--no-auth-warning", "SET", "stdin", "no")


def pipe():
    request = lambda *words: f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    requests = "".join(request("SET", f"pipe:{n}", str(n)) for n in range(20_000))
    assert "errors: 0, replies: 20000" in cli("--pipe", input=requests)
    mixed = "".join(request("INCR", key) for key in ("n", "text", "n", "text"))
    assert "errors: 2, replies: 4" in cli("--pipe", input=mixed, code=1)
    # Inline requests, too.
    assert "errors: 0, replies: 100" in cli("--pipe", input="INCR lines\r\n" * 100)
    cli("MGET", "pipe:19999", "n", "lines", prints="19999\n2\n100\n")


def scan():
    names = lambda text: sorted(text.splitlines())
    found = cli("--scan", "--pattern", "pipe:*9", "--count", "500", key=names)
    assert names(found) == sorted(f"pipe:{n}" for n in range(9, 20_000, 10))
    cli("--scan", key=names)
    cli("--scan", "--quoted-pattern", r'"\t*"', prints="\tkey\n")


def fill():
    """Keys of each type, the largest of each known."""
    for port in (PORT, REFERENCE):
        lines = ["FLUSHALL"]
        for size in (10, 200, 3000):
            members = range(size)
            lines.append(f"SET string:{size} {'x' * size}")
            lines.append(f"RPUSH list:{size} " + " ".join(f"{n}" for n in members))
            lines.append(f"SADD set:{size} " + " ".join(f"m{n}" for n in members))
            lines.append(f"ZADD zset:{size} " + " ".join(f"{n} m{n}" for n in members))
            lines.append(f"HSET hash:{size} " + " ".join(f"f{n} v{n}" for n in members))
            lines += [f"XADD stream:{size} * n {n}" for n in members]
        assert f"errors: 0, replies: {len(lines)}" in run(port, "--pipe", input="\r\n".join(lines) + "\r\n")


def summary(text):
    """The lines with the largest key of each type, and the totals, without memory, which the servers may count otherwise."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line for line in text.splitlines() if re.search(r"^Biggest|^\d+ \w+ with|^Sampled|^Total key", line)]
    assert len(lines) >= 12, text
    return sorted(lines)


def bigkeys():
    fill()
    found = cli("--bigkeys", key=summary)
    for kind, unit in [("string", "3000 bytes"), ("list", "3000 items"), ("hash", "3000 fields"), ("stream", "3000 entries")]:
        assert re.search(rf'Biggest +{kind} found .*"{kind}:3000".* has {unit}', found), found
    cli("--bigkeys", "-i", "0.01", "--pattern", "*:200", key=lambda text: re.findall(r"Sampled \d+ keys", text))


def memkeys():
    without_bytes = lambda text: [re.sub(r"(has|with) [\d.]+ bytes.*", "", line) for line in summary(text)]
    for words in ([], ["--memkeys-samples", "0"]):
        found = cli("--memkeys", *words, key=without_bytes)
        sizes = re.findall(r'Biggest +(\w+) found .*"(\w+):3000".* has (\d+) bytes', found)
        assert len(sizes) == 6 and all(kind == name and int(size) > 3000 for kind, name, size in sizes), found


def hotkeys():
    cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu", prints="OK\n")
    # The counter of a key grows with its logarithm.
    for port in (PORT, REFERENCE):
        run(port, "--pipe", input="GET string:10\r\n" * 20_000 + "GET string:200\r\nGET string:3000\r\n" * 200)
        found = re.findall(r"hot key found with counter: (\d+)\s+keyname: \"?([\w:]+)", run(port, "--hotkeys"))
        assert found[0][1] == "string:10" and int(found[0][0]) > 10, found
        counted = run(port, "--hotkeys", "--hotkeys-count", "2")
        assert len(re.findall(r"hot key found", counted)) == 2 and "string:10" in counted, counted
    cli("CONFIG", "SET", "maxmemory-policy", "noeviction", prints="OK\n")


def statistics():
    for port in (PORT, REFERENCE):
        with running("--stat", "-i", "0.05", port=port) as next_line:
            first, second = (next_line(r"^18 ").split() for _ in range(2))
            # Keys, memory, clients, blocked, requests and connections; each row is a request.
            assert re.fullmatch(r"[\d.]+[BKMG]", first[1]) and int(first[2]) >= 1, first
            assert int(second[4]) > int(first[4]), (first, second)


def latency():
    for port in (PORT, REFERENCE):
        least, most, average, count = run(port, "--latency", "-i", "0.3", "--raw").split()
        assert float(least) <= float(average) <= float(most) and int(count) > 5
        fields = run(port, "--latency", "-i", "0.3", "--csv").strip().split(",")
        assert float(fields[0]) <= float(fields[2]) <= float(fields[1]) and int(fields[3]) > 5, fields
        with running("--latency-history", "-i", "0.3", "--raw", port=port) as next_line:
            # The count of samples begins again after each interval.
            counts = [int(next_line(r"^\d").split()[3])]
            while counts.count(1) < 3:
                counts.append(int(next_line(r"^\d").split()[3]))
            assert max(counts) > 5, counts


def load_in_reference(file):
    """Restarts the data of the Valkey from a dump."""
    folder = run(REFERENCE, "CONFIG", "GET", "dir").splitlines()[1]
    shutil.copy(file, pathlib.Path(folder) / "dump.rdb")
    assert run(REFERENCE, "DEBUG", "RELOAD", "NOSAVE") == "OK\n"


def dumps():
    """Valkey reads what the mode has written."""
    for file in ("keys", "-"):
        run(REFERENCE, "FLUSHALL")
        if file == "-":
            with open(FOLDER / "printed", "wb") as printed:
                subprocess.run([CLI, "-p", PORT, "--rdb", "-"], stdout=printed, stderr=subprocess.DEVNULL, check=True)
        else:
            run(PORT, "--rdb", str(FOLDER / file))
        load_in_reference(FOLDER / ("printed" if file == "-" else file))
        cli("DBSIZE", prints="18\n")
        for kind, *command in [("string", "GET"), ("list", "LRANGE", 0, -1), ("zset", "ZRANGE", 0, -1, "WITHSCORES"),
                               ("stream", "XRANGE", "-", "+")]:
            cli(command[0], f"{kind}:3000", *(str(word) for word in command[1:]))
        cli("SMEMBERS", "set:3000", key=lambda text: sorted(text.splitlines()))
        cli("HGETALL", "hash:3000", key=lambda text: sorted(text.splitlines()))


def function_dumps():
    run(PORT, "-x", "FUNCTION", "LOAD", input=LIBRARY)
    run(PORT, "--functions-rdb", str(FOLDER / "functions"))
    load_in_reference(FOLDER / "functions")
    assert run(REFERENCE, "DBSIZE") == "0\n"
    cli("FCALL", "twice", "0", "21", prints="42\n")
    assert "mine" in cli("FUNCTION", "LIST")


def scripts():
    script = FOLDER / "add.lua"
    script.write_text("return {server.call('INCRBY', KEYS[1], ARGV[1]), ARGV[2], 3.9, {err = 'MINE x'}}")
    cli("FLUSHALL")
    cli("--eval", str(script), "counter", ",", "5", "text")
    cli("--eval", str(script), "counter", ",", "5", "text", "--no-raw")
    cli("GET", "counter", prints="10\n")
    script.write_text("return KEYS[")
    cli("--eval", str(script))


def formats():
    cli("-x", "SET", "text", input='a "quoted", text\n')
    cli("RPUSH", "list", "a", "b,c", "")
    cli("HSET", "hash", "field", "1")
    cli("ZADD", "zset", "1.5", "m", "inf", "n")
    cli("XADD", "stream", "1-1", "n", "1")
    requests = [["GET", "text"], ["GET", "none"], ["LRANGE", "list", "0", "-1"], ["HGETALL", "hash"], ["INCR", "text"],
                ["ZRANGE", "zset", "0", "-1", "WITHSCORES"], ["XRANGE", "stream", "-", "+"], ["SISMEMBER", "none", "a"],
                ["EXISTS", "text"], ["ECHO", "\u00e9"], ["COMMAND", "INFO", "get"], ["XINFO", "STREAM", "stream"]]
    for style in (["--csv"], ["--json"], ["--json", "-2"], ["--quoted-json"], ["--no-raw"], ["--no-raw", "-3"], ["--raw", "-3"],
                  ["-d", "|"], ["-D", "#"]):
        for request in requests:
            cli(*style, *request)
    assert json.loads(cli("--json", "HGETALL", "hash")) == {"field": "1"}
    assert cli("--csv", "LRANGE", "list", "0", "-1") == '"a","b,c",""\n'


def monitor():
    forms = []
    for port in (PORT, REFERENCE):
        with running("MONITOR", port=port) as next_line:
            next_line("^OK$")
            run(port, "-n", "2", "SET", "watched", 'a "b"\n')
            run(port, "EVAL", "return server.call('GET', 'watched')", "0")
            lines = [next_line(pattern) for pattern in ('"SET"', '"EVAL"', '"GET"')]
            forms.append([re.sub(r"^\d+\.\d{6} \[(\d) (127.0.0.1:\d+|lua)\]", r"\1", line) for line in lines])
    assert forms[0] == forms[1] and forms[0][0] == r'2 "SET" "watched" "a \"b\"\n"', forms


def subscriptions():
    for words, channel, last in [(["SUBSCRIBE", "news"], "news", "hello"), (["--csv", "PSUBSCRIBE", "n*"], "new", '"hello"'),
                                 (["-3", "SUBSCRIBE", "news"], "news", "hello"), (["SSUBSCRIBE", "part"], "part", "hello")]:
        for port in (PORT, REFERENCE):
            with running(*words, port=port) as next_line:
                next_line("subscribe")
                publish = "SPUBLISH" if words[0] == "SSUBSCRIBE" else "PUBLISH"
                while run(port, publish, channel, "hello") == "0\n":
                    time.sleep(0.01)
                assert next_line("hello").endswith(last)


def invalidations():
    """Pushes of RESP3, as they come between the replies."""
    for port in (PORT, REFERENCE):
        run(port, "SET", "tracked", "1")
        printed = run(port, "-3", "--show-pushes", "yes", input="CLIENT TRACKING ON\nGET tracked\nSET tracked 2\nPING\n")
        assert re.search(r"invalidate.*tracked", printed, re.DOTALL), printed


def repetition():
    cli("-r", "5", "-i", "0.01", "INCR", "repeated", prints="1\n2\n3\n4\n5\n")
    cli(input="3 INCR repeated\n", prints="6\n7\n8\n")
    with running("-r", "-1", "-i", "0.01", "INCR", "endless") as next_line:
        assert next_line("^3$")


def replica():
    cli("CONFIG", "SET", "repl-diskless-sync-delay", "0", prints="OK\n")
    for port in (PORT, REFERENCE):
        with running("--replica", port=port) as next_line:
            next_line("Full resync done")
            run(port, "SET", "sent", "to replicas")
            assert next_line("sent") == '"SET","sent","to replicas"'


def tls():
    words = [CLI, "-h", "localhost", "-p", TLS_PORT, "--tls", "--cacert", CA]
    ended = subprocess.run([*words, "-x", "SET", "tls"], input=b"x" * 1_000_000, capture_output=True, timeout=PATIENCE)
    assert ended.stdout == b"OK\n", ended
    ended = subprocess.run([*words, "GET", "tls"], capture_output=True, timeout=PATIENCE)
    assert ended.stdout == b"x" * 1_000_000 + b"\n", ended.stdout[:100]
    ended = subprocess.run([*words[:-2], "PING"], capture_output=True, timeout=PATIENCE)
    assert ended.returncode == 1 and b"certificate verify failed" in ended.stderr, ended


def cluster():
    assert run(CLUSTER_PORT, "-c", "SET", "key", "value") == "OK\n"
    assert run(CLUSTER_PORT, "-c", "GET", "key") == "value\n"
    address = f"127.0.0.1:{CLUSTER_PORT}"
    assert "All 16384 slots covered." in run(CLUSTER_PORT, "--cluster", "check", address)
    assert re.search(r"\[OK\] 1 keys in 1 primaries", run(CLUSTER_PORT, "--cluster", "info", address))
    assert run(CLUSTER_PORT, "--cluster", "call", address, "DBSIZE").endswith("1\n")


def main():
    parts = {
        "commands": commands, "--pipe": pipe, "--scan": scan, "--bigkeys": bigkeys, "--memkeys": memkeys,
        "--hotkeys": hotkeys, "--stat": statistics, "--latency": latency, "--rdb": dumps, "--functions-rdb": function_dumps,
        "--eval": scripts, "output formats": formats, "MONITOR": monitor, "subscriptions": subscriptions,
        "pushes": invalidations, "-r and -i": repetition, "--replica": replica, "TLS": tls, "--cluster": cluster,
    }
    for name, part in parts.items():
        part()
        print(name, flush=True)
    print("done")


main()
