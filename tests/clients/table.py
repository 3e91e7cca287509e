#!/usr/bin/env python3
"""Runs each row of rows.toml on Weft and on Valkey, and writes the table of docs/clients.md.

usage: table.py [NAME...]    runs these rows, or all; needs CLIENTS_BIN, and both servers (see below)
       table.py --docs       writes docs/clients.md from results.json
       table.py --check      fails if docs/clients.md isn't the one of results.json
       table.py --test KIND  runs the rows of a kind whose programs are installed on Weft, and writes nothing

WEFT_SERVER and VALKEY_SERVER are the servers; by default target/release/weft-server, and valkey-server in PEERS_BIN or
PATH. Each row gets new servers. A program gets the words of its row's `args`, in which {port} is a server, {tls} its
port for TLS, {ca} the file of the authority, {cluster} a node that is a cluster of its own, {reference} a Valkey to compare
with, {folder} a temporary folder. It prints `done` at the end; lines before that are parts that have passed.
"""
import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS = HERE / "results.json"
DOCS = ROOT / "docs" / "clients.md"
BEGIN, END = "<!-- begin: tests/clients/table.py -->", "<!-- end -->"
# Seconds. Most sessions take less than ten on an idle machine.
TIME_LIMIT = 900


def rows():
    return tomllib.loads((HERE / "rows.toml").read_text())["row"]


def version(row):
    """The version that a lock file pins, or that a program prints."""
    kind, name = row["version"].split(" ")[0], row["version"].split(" ")[-1]
    if kind == "text":
        return row["version"].removeprefix("text ")
    if kind == "peer":
        return subprocess.run([peer(name), "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    if kind == "program":
        command = pathlib.Path(os.environ["CLIENTS_BIN"]) / name
        said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
        return re.search(r"\d+(\.\d+)+", said.stdout + said.stderr).group()
    path = HERE / row["version"].split(" ")[1]
    if kind == "npm":
        return json.loads(path.read_text())["packages"][f"node_modules/{name}"]["version"]
    escaped = re.escape(name)
    pattern = {
        "pip": rf"^{escaped}==(\S+)$",
        "go": rf"^(?:require)?\s+{escaped} v(\S+)",
        "maven": rf"<artifactId>{escaped}</artifactId>\s*<version>([^<]+)<",
        "cargo": rf'^name = "{escaped}"\nversion = "([^"]+)"',
    }[kind]
    return re.search(pattern, path.read_text(), re.MULTILINE).group(1)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(port, *words):
    """The first line of a reply."""
    packed = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in (word.encode() for word in words))
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"*%d\r\n" % len(words) + packed)
        return connection.makefile("rb").readline().decode().strip()


def certificates(folder):
    """An authority, and a certificate of localhost and 127.0.0.1."""
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    run = lambda *words: subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
    key = ["-newkey", "rsa:2048", "-nodes", "-days", "7"]
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca")
    run("req", *key[:3], "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    run("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
        "-days", "7", "-extfile", "names", "-out", "server.crt")
    # Java reads authorities from a key store.
    if shutil.which("keytool"):
        subprocess.run(["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", "ca.crt", "-keystore", "ca.p12",
                        "-storetype", "PKCS12", "-storepass", "changeit"], cwd=folder, check=True, capture_output=True)


@contextlib.contextmanager
def server(program, folder, *args):
    port = free_port()
    log = folder / f"log-{port}"
    (folder / str(port)).mkdir()
    words = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder / str(port)), *args]
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    try:
        for _ in range(1500):
            with contextlib.suppress(OSError):
                if ask(port, "PING") == "+PONG":
                    break
            if process.poll() is not None:
                raise RuntimeError(f"{program} has ended: {log.read_text()}")
            time.sleep(0.02)
        yield port
        if process.poll() is not None:
            raise RuntimeError(f"{program} has ended: {log.read_text()[-4000:]}")
    finally:
        process.kill()
        process.wait()


def run(row, program, command):
    """The parts that have passed, and the error or None."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-clients-")))
        values = {"folder": str(folder)}
        args = row.get("server", [])
        if "{tls}" in row["args"]:
            certificates(folder)
            values |= {"tls": str(free_port()), "ca": str(folder / "ca.crt")}
            file = lambda name: str(folder / name)
            args = [*args, "--tls-port", values["tls"], "--tls-cert-file", file("server.crt"), "--tls-auth-clients", "no",
                    "--tls-key-file", file("server.key"), "--tls-ca-cert-file", file("ca.crt")]
        values["port"] = str(stack.enter_context(server(program, folder, *args)))
        if "{cluster}" in row["args"]:
            config = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1", "--cluster-port", str(free_port())]
            port = stack.enter_context(server(program, folder, *config))
            assert ask(port, "CLUSTER", "ADDSLOTSRANGE", "0", "16383") == "+OK"
            while ask(port, "GET", "key") != "$-1":
                time.sleep(0.02)
            values["cluster"] = str(port)
        if "{reference}" in row["args"]:
            config = ["--enable-debug-command", "yes"]
            values["reference"] = str(stack.enter_context(server(programs()["valkey"], folder, *config)))
        words = [word.format(**values) for word in row["args"]]
        try:
            ended = subprocess.run([command, *words], capture_output=True, text=True, timeout=TIME_LIMIT, errors="replace",
                                   stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as expired:
            return [], f"no end in {TIME_LIMIT} s; printed {(expired.stdout or b'')[-500:]!r}"
        lines = [line for line in ended.stdout.splitlines() if line]
        if ended.returncode == 0 and lines and lines[-1] == "done":
            return lines[:-1], None
        print(ended.stdout[-2000:], ended.stderr[-6000:], file=sys.stderr)
        said = [line for line in ended.stderr.splitlines() if line.strip()]
        return lines, (said[-1] if said else f"ended with {ended.returncode}")[:200]


def peer(name):
    return shutil.which(name, path=os.environ.get("PEERS_BIN", "") + os.pathsep + os.environ["PATH"])


def programs():
    weft = os.environ.get("WEFT_SERVER") or ROOT / "target/release/weft-server"
    valkey = os.environ.get("VALKEY_SERVER") or peer("valkey-server")
    return {"weft": str(weft), "valkey": str(valkey)}


def versions_of(servers):
    said = lambda name: subprocess.run([servers[name], "--version"], capture_output=True, text=True, check=True).stdout
    valkey = re.search(r"v=(\S+)", said("valkey")).group(1)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    return {"weft": commit.strip(), "valkey": valkey}


def run_rows(names):
    folder = pathlib.Path(os.environ["CLIENTS_BIN"])
    servers = programs()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    used = versions_of(servers)
    failed = 0
    for row in rows():
        if row.get("absent") or names and row["name"] not in names:
            continue
        command = folder / row["program"]
        result = {"version": version(row), "date": datetime.date.today().isoformat(), "servers": used}
        if not command.is_file():
            print(f"{row['name']}: {command} is not installed")
            failed += 1
            continue
        for name, program in servers.items():
            begin = time.monotonic()
            parts, error = run(row, program, str(command))
            result["parts"] = max(result.get("parts", []), [part.split("\t")[0] for part in parts], key=len)
            result[name] = error or "passed"
            print(f"{row['name']} on {name}: {result[name]} ({time.monotonic() - begin:.1f} s)", flush=True)
        failed += result["weft"] != "passed"
        results[row["name"]] = result
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return failed


def test_rows(kind):
    """Returns how many failed. Says which programs are missing."""
    folder = pathlib.Path(os.environ["CLIENTS_BIN"])
    failed = 0
    for row in rows():
        if row["kind"] != kind or row.get("absent"):
            continue
        command = folder / row["program"]
        if not command.is_file():
            print(f"missing: {row['name']}")
            continue
        _, error = run(row, programs()["weft"], str(command))
        print(f"{row['name']}: {error or 'passed'}", flush=True)
        failed += error is not None
    return failed


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def table():
    """The generated part of the page."""
    results = json.loads(RESULTS.read_text())
    lines = []
    for kind, title in [("library", "Libraries"), ("program", "Programs"), ("tool", "Tools")]:
        lines += ["", f"### {title}", "", "| name | version | session | Weft | Valkey | date |", "|---|---|---|---|---|---|"]
        for row in (row for row in rows() if row["kind"] == kind):
            result = results.get(row["name"])
            session = row.get("session", "")
            if row.get("absent") or not result:
                reason = row.get("absent", "not run yet")
                lines.append(f"| {row['name']} | | {cell(reason)} | not run | not run | |")
                continue
            parts = ", ".join(result["parts"])
            session = f"{session}: {parts}" if session and parts else session or parts
            note = f" ({row['note']})" if row.get("note") else ""
            lines.append(f"| {row['name']} ({row['language']}) | {result['version']} | {cell(session)} |"
                         f" {cell(result['weft'])}{note} | {cell(result['valkey'])} | {result['date']} |")
    ran = [result for result in results.values()]
    valkey = ", ".join(sorted({result["servers"]["valkey"] for result in ran}))
    green = sum(result["weft"] == "passed" for result in ran)
    begin = [BEGIN, "", f"{green} of {len(ran)} sessions pass on Weft. Valkey is {valkey}."]
    return "\n".join([*begin, *lines, "", END])


def page():
    text = DOCS.read_text()
    before, rest = text.split(BEGIN)
    return before + table() + rest.split(END, 1)[1]


def main():
    if sys.argv[1:] == ["--check"]:
        return 0 if DOCS.read_text() == page() else f"{DOCS} is out of date: run {__file__} --docs"
    if sys.argv[1:2] == ["--test"]:
        return 1 if test_rows(sys.argv[2]) else 0
    failed = 0 if sys.argv[1:] == ["--docs"] else run_rows(sys.argv[1:])
    DOCS.write_text(page())
    return 1 if failed else 0


sys.exit(main())
