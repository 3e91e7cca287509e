"""Replicas that keep no data: `sink.py PORT COUNT [BYTES-A-SECOND]`. Each one requests a full sync and reads it,
without a limit or at that rate, and then the stream. Prints `copied SECONDS` after each full sync, and `closed
SECONDS` for each connection that has ended. Ends when all have ended, or by a signal."""
import os
import select
import socket
import sys
import time

CHUNK = 1 << 20


class Sink:
    def __init__(self, port, pace):
        self.socket = socket.socket()
        if pace:
            # Bytes in the kernel's buffer would count as read.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        self.socket.connect(("127.0.0.1", port))
        for words in (b"REPLCONF capa eof capa psync2", b"REPLCONF version 9.1.0"):
            self.socket.sendall(words + b"\r\n")
            self.line()
        self.socket.sendall(b"PSYNC ? -1\r\n")
        self.tail, self.mark, self.has_copy, self.taken = b"", None, False, 0

    def line(self):
        text = b""
        while not text.endswith(b"\n"):
            text += self.socket.recv(1)
        return text

    def fileno(self):
        return self.socket.fileno()

    def read(self, most):
        """Reads available bytes; returns False at the end of the connection."""
        try:
            part = self.socket.recv(most)
        except ConnectionError:
            return False
        self.taken += len(part)
        if not self.has_copy:
            self.look(part)
        return part != b""

    def look(self, part):
        seen = self.tail + part
        if self.mark is None:
            at = seen.find(b"$EOF:")
            if at >= 0 and len(seen) >= at + 45:
                self.mark, seen = seen[at + 5:at + 45], seen[at + 45:]
        if self.mark is not None and self.mark in seen:
            self.has_copy = True
            self.acknowledge()
        self.tail = seen[-100:]

    def acknowledge(self):
        try:
            self.socket.sendall(b"REPLCONF ACK 0\r\n")
        except OSError:
            pass


def main():
    port, count = int(sys.argv[1]), int(sys.argv[2])
    pace = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    os.nice(10)
    began = acknowledged = time.monotonic()
    open_ones = [Sink(port, pace) for _ in range(count)]
    while open_ones:
        ready, _, _ = select.select(open_ones, [], [], 0.5)
        now = time.monotonic()
        for sink in ready:
            had = sink.has_copy
            is_open = sink.read(pace // 20 if pace else CHUNK)
            if sink.has_copy and not had:
                print(f"copied {now - began:.2f}", flush=True)
            if not is_open:
                print(f"closed {now - began:.2f}", flush=True)
                open_ones.remove(sink)
        if now - acknowledged > 1:
            acknowledged = now
            for sink in open_ones:
                if sink.has_copy:
                    sink.acknowledge()
        if pace and ready:
            time.sleep(0.05)


main()
