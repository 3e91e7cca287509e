"""Logs of latencies as weft-benchmark --hdr writes them: a histogram for each second, so that a part of a run
can be read by itself. The format is HdrHistogram's, V2, compressed."""
import base64
import math
import re
import struct
import zlib


def read(path):
    """A list of (when it began, when it ended, counts by nanoseconds): seconds since the epoch."""
    base, found = 0.0, []
    for line in open(path):
        head = re.match(r"#\[(?:StartTime|BaseTime): ([\d.]+)", line)
        if head:
            base = float(head[1])
        elif not line.startswith(("#", '"')):
            began, lasted, _, histogram = line.strip().split(",")[-4:]
            began = float(began) + base if float(began) < base else float(began)
            found.append((began, began + float(lasted), counts(base64.b64decode(histogram))))
    return found


def counts(encoded):
    """The count of each value."""
    payload = zlib.decompress(encoded[8:])
    _, length, _, digits, lowest, _, _ = struct.unpack(">iiiiqqd", payload[:40])
    halves = math.ceil(math.log2(2 * 10 ** digits)) - 1
    shift, seen, index, at = int(math.log2(lowest)), {}, 0, 40
    while at < 40 + length:
        count, at = zigzag(payload, at)
        if count < 0:
            index -= count
            continue
        if count > 0:
            seen[value(index, halves, shift)] = count
        index += 1
    return seen


def value(index, halves, shift):
    bucket = (index >> halves) - 1
    within = (index & ((1 << halves) - 1)) + (1 << halves)
    if bucket < 0:
        bucket, within = 0, within - (1 << halves)
    return within << (bucket + shift)


def zigzag(payload, at):
    number = 0
    for byte in range(9):
        part = payload[at]
        at += 1
        if byte == 8:
            number |= part << 56
            break
        number |= (part & 0x7F) << (7 * byte)
        if part < 0x80:
            break
    return (number >> 1) ^ -(number & 1), at


def percentiles(log, began, ended, *wanted):
    """In ms, of the seconds that touch this time, and the slowest of all; None without a sample."""
    total = {}
    for start, end, seen in log:
        if start < ended and end > began:
            for nanoseconds, count in seen.items():
                total[nanoseconds] = total.get(nanoseconds, 0) + count
    if not total:
        return [None] * (len(wanted) + 1)
    values, results, below = sorted(total), [], 0
    left = [part / 100 * sum(total.values()) for part in wanted]
    for nanoseconds in values:
        below += total[nanoseconds]
        while len(results) < len(left) and below >= left[len(results)]:
            results.append(nanoseconds / 1e6)
    return results + [values[-1] / 1e6]
