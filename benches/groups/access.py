"""Users and TLS: CPU per request."""
import pathlib
import shutil
import socket
import subprocess
import tempfile

from .harness import NO_SAVES, Server, command, compare, generate, peer, reply, servers, weft

RULES = ["reset", "on", ">pw", "~key:*", "%R~shared:*", "+@read", "+@write", "-@dangerous",
         "(~jobs:* +@list)"]
# Forces nothing: both servers choose TLS 1.3 with AES-256-GCM.
CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]


def bench_access(options):
    """The default user and a user with key patterns, categories and a selector."""
    print("\n## A restricted user, depth 16, io-threads 1\n")
    group = servers(cpus="0")
    try:
        for server in group:
            generate(server, "-t set -r 100000 -n 200000 -P 50 -d 64", "1")
            with server.connect() as s:
                s.sendall(command("ACL", "SETUSER", "limited", *RULES))
                assert reply(s.makefile("rb")) == b"+OK"
        lines = []
        for name in ("get", "set"):
            shared = f"-t {name} -c 50 -P 16 -r 100000 -d 64 -n 1000000"
            lines += [(f"{name}, default user", shared),
                      (f"{name}, restricted user", f"{shared} --user limited -a pw")]
        compare(group, lines, "0", "1", options.rounds)
    finally:
        for server in group:
            server.stop()


def certificate(folder, key=CURVE):
    """A certificate of its own authority, and its key."""
    paths = f"{folder}/cert.pem", f"{folder}/key.pem"
    subprocess.run(["openssl", "req", "-x509", "-nodes", *key, "-keyout", paths[1], "-out", paths[0],
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    return paths


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def encrypted(io_threads, cpus, paths):
    """The servers with a TLS port, which the generator uses."""
    cert, key = paths
    group = []
    for name, line in (("valkey", [peer("valkey-server"), "--port", "{port}", "--bind", "127.0.0.1",
                                   "--io-threads", str(io_threads)]), ("weft", weft(io_threads))):
        port = free_port()
        tls = ["--tls-port", str(port), "--tls-cert-file", cert, "--tls-key-file", key,
               "--tls-ca-cert-file", cert, "--tls-auth-clients", "no"]
        server = Server(name, line + NO_SAVES + tls, cpus)
        with server.connect() as s:
            s.sendall(command("SET", "large", b"x" * (1 << 20)))
            assert reply(s.makefile("rb")) == b"+OK"
        server.plain_port, server.port = server.port, port
        group.append(server)
    return group


def bench_tls(options):
    """GET and SET over TLS."""
    if not shutil.which("openssl") or not peer("valkey-server"):
        return print("skipped: needs openssl and valkey-server")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-tls-"))
    paths = certificate(folder)
    tls = f"--tls --cacert {paths[0]}"
    for threads, cpus in ((1, ("0", "1")), *((n, (None, None)) for n in (2, 3, 4))):
        print(f"\n## TLS 1.3, io-threads {threads}\n")
        group = encrypted(threads, cpus[0], paths)
        try:
            lines = []
            for depth, count in ((1, 100000), (16, 500000)):
                lines += [(f"{name}, depth {depth}",
                           f"-t {name} {tls} -c 50 -P {depth} -r 100000 -d 64 -n {count}")
                          for name in ("set", "get")]
            if threads == 1:
                lines.append(("GET of 1 MB", f"{tls} -c 4 -n 1000 GET large"))
            compare(group, lines, *cpus, options.rounds)
        finally:
            for server in group:
                server.stop()
    shutil.rmtree(folder, ignore_errors=True)
