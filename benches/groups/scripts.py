"""Scripts: CPU per EVALSHA, and scripts on several threads."""
from .harness import command, compare, generate, reply, servers

GET = "return redis.call('get', KEYS[1])"
TEN_INCR = "for n = 1, 10 do redis.call('incr', KEYS[1]) end"
RATE_LIMIT = """local now = tonumber(ARGV[1])
redis.call('zadd', KEYS[1], now, ARGV[2])
redis.call('zremrangebyscore', KEYS[1], 0, now - 60)
redis.call('pexpire', KEYS[1], 60000)
return redis.call('zcard', KEYS[1])"""
UNDECLARED = "return redis.call('incr', 'counter:' .. ARGV[1])"
NOTHING = "return 1"


def load(server, script):
    """Loads a script and returns its hash."""
    with server.connect() as s:
        s.sendall(command("SCRIPT", "LOAD", script))
        return reply(s.makefile("rb")).decode()


def workloads(server, count):
    """The servers give a script the same hash."""
    shared = f"-c 50 -P 16 -r 100000 -n {count} EVALSHA"
    key = "key:__rand_int__"
    return [
        ("no command", f"{shared} {load(server, NOTHING)} 0"),
        ("one GET", f"{shared} {load(server, GET)} 1 {key}"),
        ("ten INCR", f"{shared} {load(server, TEN_INCR)} 1 n:__rand_int__"),
        ("rate limiter", f"{shared} {load(server, RATE_LIMIT)} 1 z:__rand_int__ 1000 __rand_int__"),
        ("INCR of an undeclared key", f"{shared} {load(server, UNDECLARED)} 0 __rand_int__"),
    ]


def bench_scripts(options):
    for threads, cpus in ((1, ("0", "1")), (2, (None, None))):
        print(f"\n## EVALSHA, depth 16, io-threads {threads}\n")
        group = servers(io_threads=threads, cpus=cpus[0])
        try:
            for server in group:
                generate(server, "-t set -r 100000 -n 200000 -P 50 -d 64", cpus[1])
                lines = workloads(server, 200000)
            compare(group, lines, *cpus, options.rounds)
        finally:
            for server in group:
                server.stop()
