"""The load of the cluster sessions in Python; tests/tests/nodes/clients.rs has its orders and its steps."""
import random
import sys
import threading
import time

WORKERS = 3
KEYS = 60
PAUSE = 0.01
PATIENCE = 90
# Lost writes of a worker that it prints.
REPORTED = 3
state = {"strict": True, "over": False}
failures = []


class Worker(threading.Thread):
    def __init__(self, library, number, client):
        super().__init__(daemon=True)
        self.library, self.number, self.client = library, number, client
        self.rounds, self.failed, self.lost = 0, 0, 0
        self.acknowledged, self.sent = {}, {}

    def run(self):
        while not state["over"]:
            try:
                self.step()
                self.rounds += 1
            except Exception as error:
                self.failed += 1
                if state["strict"] or isinstance(error, AssertionError):
                    failures.append(f"worker {self.number}: {error!r}")
            time.sleep(PAUSE)

    def step(self):
        key = f"{self.library}:{self.number}:{random.randrange(KEYS)}"
        self.sent[key] = value = self.sent.get(key, 0) + 1
        self.client.raise_score(key, value)
        self.acknowledged[key] = value
        self.check(key)
        self.client.pipeline([f"{key}:{n}" for n in range(10)])
        self.client.other_commands(f"{{{key}}}")

    def check(self, key):
        score = self.client.score(key) or 0
        if score < self.acknowledged[key]:
            self.lost += 1
            if self.lost <= REPORTED:
                print(f"lost: {key}: {score}, not {self.acknowledged[key]}", file=sys.stderr)
            self.acknowledged[key] = score


def settle(workers):
    before = [worker.rounds for worker in workers]
    end = time.monotonic() + PATIENCE
    while any(worker.rounds < old + 3 for worker, old in zip(workers, before)):
        if time.monotonic() > end:
            failures.append("no progress")
            return
        time.sleep(0.01)


def finish(workers):
    state["over"] = True
    for worker in workers:
        worker.join()
        for key in list(worker.acknowledged):
            worker.check(key)


def run(library, connect):
    """Runs the session; `library` begins all keys, `connect` makes the client of a worker."""
    workers = [Worker(library, number, connect()) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    for line in sys.stdin:
        order = line.strip()
        if order in ("strict", "lenient"):
            state["strict"] = order == "strict"
            print("ok", flush=True)
            continue
        settle(workers) if order == "settled" else finish(workers)
        total = [sum(getattr(worker, name) for worker in workers) for name in ("rounds", "failed", "lost")]
        print(f"failed {failures[:5]}" if failures else "{} {} {} {}".format(order, *total), flush=True)
