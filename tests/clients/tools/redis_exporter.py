"""redis_exporter, the exporter for Prometheus: it scrapes the server and a Valkey with the same keys, with everything that it can
export. Its metrics have the same names and labels, and the same values where both servers count the same. Prints each part
that has passed.

usage: redis_exporter.py PROGRAM PORT TLS_PORT CA CLUSTER_PORT REFERENCE_PORT FOLDER
"""
import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

PROGRAM, PORT, TLS_PORT, CA, CLUSTER_PORT, REFERENCE, FOLDER = (*sys.argv[1:7], pathlib.Path(sys.argv[7]))
CLI = shutil.which("valkey-cli", path=os.environ.get("PEERS_BIN", "") + os.pathsep + os.environ["PATH"])
PATIENCE = 60
SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
WORDS = """SET text 12345
SET counter 7
APPEND text 678
EXPIRE counter 1000
RPUSH list a b c
SADD set a b
ZADD sorted 1 a 2 b 3 c
HSET hash f v g w
PFADD visitors a b
XADD stream 1-1 f v
XADD stream 2-1 f v
XGROUP CREATE stream group 0
XREADGROUP GROUP group worker COUNT 1 STREAMS stream >
XGROUP CREATE stream other $
INCR text2 x
GET text
NOSUCH
EVAL 'return 1' 0
SELECT 3
SET group:1:a 1
SET group:2:a 1
SET group:1:b 22
"""
EXPORTS = ["-check-keys", "*", "-check-streams", "st*", "-count-keys", "db3=group:*,db0=*t*", "-check-key-groups", "^([^:]+):.*$",
           "-export-client-list", "-include-config-metrics", "-include-system-metrics", "-ping-on-connect"]
# Metrics that have the same values on both servers after the same commands.
EQUAL = re.compile(r"redis_(up|key_(size|value|group_count)|keys_count|stream_(?!group_consumer_idle_seconds).*|db_keys(_expiring)?|connected_slaves|"
                   r"commands_(failed|rejected)_calls_total|errors_total|blocked_clients|rdb_bgsave_in_progress|"
                   r"slowlog_length|loading_dump_file|exporter_last_scrape_error|cluster_(enabled|slots_.*|size|known_nodes|state))$")


def fill(port):
    ended = subprocess.run([CLI, "-p", port], input=WORDS.encode(), capture_output=True, timeout=PATIENCE, check=True)
    assert b"ERR unknown command" in ended.stdout and b"NOGROUP" not in ended.stdout, ended.stdout


@contextlib.contextmanager
def exporter(*words):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with (FOLDER / f"exporter-{port}").open("wb") as log:
        words = [PROGRAM, "-web.listen-address", f"127.0.0.1:{port}", "-redis-only-metrics", *words]
        process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def scrape(*words):
    """The samples of a scrape: the value by name and labels. Labels are pairs of name and value, in order."""
    with exporter(*words) as port:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as response:
                    text = response.read().decode()
                break
            except OSError:
                assert time.monotonic() < end, f"the exporter doesn't listen: {words}"
                time.sleep(0.05)
    samples = {}
    for line in text.splitlines():
        if match := SAMPLE.match(line):
            name, labels, value = match.groups()
            samples[name, tuple(sorted(LABEL.findall(labels or "")))] = value
    assert samples.get(("redis_up", ())) == "1", text[:2000]
    errors = {key: value for key, value in samples.items() if key[0] == "redis_exporter_last_scrape_error"}
    assert all(value == "0" and dict(labels)["err"] == "" for (_, labels), value in errors.items()), errors
    return samples


def shapes(samples):
    """The names with the names of their labels."""
    return {(name, tuple(label for label, _ in labels)) for name, labels in samples if name != "redis_config_value"}


def compare(on_server, on_reference):
    missing = shapes(on_reference) - shapes(on_server)
    assert not missing, f"missing: {sorted(missing)}"
    equal = lambda samples: {key: value for key, value in samples.items() if EQUAL.match(key[0])}
    (ours, theirs) = equal(on_server), equal(on_reference)
    names = {name for name, _ in theirs}
    assert "redis_stream_length" in names or "redis_cluster_enabled" in names, names
    differ = {key: (ours.get(key), theirs.get(key)) for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}
    assert not differ, f"server, reference: {differ}"


def address(port):
    return ["-redis.addr", f"redis://127.0.0.1:{port}"]


def everything():
    for port in (PORT, REFERENCE):
        fill(port)
    on_server, on_reference = (scrape(*address(port), *EXPORTS) for port in (PORT, REFERENCE))
    compare(on_server, on_reference)
    keys = {name for name, _ in on_server}
    for name in ("redis_key_size", "redis_stream_group_messages_pending", "redis_key_group_memory_usage_bytes",
                 "redis_connected_clients_details", "redis_config_maxmemory"):
        assert name in keys, f"{name} is not in {sorted(keys)}"
    # It has the values of INFO.
    info = subprocess.run([CLI, "-p", PORT, "INFO", "everything"], capture_output=True, text=True, check=True).stdout
    for field, name in [("maxclients", "redis_config_maxclients"),
                        ("total_system_memory", "redis_total_system_memory_bytes"), ("expired_keys", "redis_expired_keys_total")]:
        said = re.search(rf"^{field}:(\d+)", info, re.MULTILINE).group(1)
        assert float(on_server[name, ()]) == float(said), (name, on_server[name, ()], said)


def users():
    """A user with few rights, as its documentation recommends."""
    rights = "+client +ping +info +config|get +cluster|info +slowlog +latency +memory +select +get +scan +xinfo +type +pfcount " \
             "+strlen +llen +scard +zcard +hlen +xlen +eval allkeys"
    for port in (PORT, REFERENCE):
        subprocess.run([CLI, "-p", port, "ACL", "SETUSER", "exporter", "on", ">secret", *rights.split()], check=True, timeout=PATIENCE,
                       stdout=subprocess.DEVNULL)
    words = ["-redis.user", "exporter", "-redis.password", "secret", "-check-keys", "*"]
    compare(*(scrape(*address(port), *words, "-check-streams", "st*") for port in (PORT, REFERENCE)))


def script():
    path = FOLDER / "script.lua"
    path.write_text('return {"keys", tostring(#redis.call("KEYS", "*")), "type", redis.call("TYPE", "list")["ok"] == "list" and "1" or "0"}')
    samples = scrape(*address(PORT), "-script", str(path))
    values = {dict(labels)["key"]: value for (name, labels), value in samples.items() if name == "redis_script_values"}
    assert values == {"keys": "8", "type": "1"}, values


def tls():
    samples = scrape("-redis.addr", f"rediss://127.0.0.1:{TLS_PORT}", "-tls-ca-cert-file", CA)
    assert ("redis_db_keys", (("db", "db0"),)) in samples


def cluster():
    samples = scrape(*address(CLUSTER_PORT), "-is-cluster", "-check-keys", "*")
    for name, value in [("redis_cluster_enabled", "1"), ("redis_cluster_slots_assigned", "16384"), ("redis_cluster_size", "1")]:
        assert samples[name, ()] == value, (name, samples[name, ()])


def dead_server():
    """It lives on without its server, and says so."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with exporter(*address(closed.getsockname()[1])) as port:
            end = time.monotonic() + PATIENCE
            while True:
                with contextlib.suppress(OSError):
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as response:
                        assert "\nredis_up 0\n" in response.read().decode()
                        return
                assert time.monotonic() < end
                time.sleep(0.05)


for part in (everything, users, script, tls, cluster, dead_server):
    part()
    print(part.__name__, flush=True)
print("done")
