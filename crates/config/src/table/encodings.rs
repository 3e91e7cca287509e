//! When a small collection becomes a large one.

use super::{EFFECTIVE, INT_MAX, LONG_MAX, SIZE_MAX};
use crate::directive::Flags;
use crate::kind::{bytes, int};

section! {
    after: super::monitoring::END,
    title: "Encodings",
    about: "Small collections have a compact form: one block of memory that is searched from end \
            to end. These directives set the limits. The older names with ziplist in them are \
            aliases.",

    HASH_MAX_LISTPACK_ENTRIES = "hash-max-listpack-entries" aka "hash-max-ziplist-entries" {
        kind: int(0, LONG_MAX),
        default: "512",
        status: EFFECTIVE,
        doc: "Most fields of a compact hash.",
    }
    HASH_MAX_LISTPACK_VALUE = "hash-max-listpack-value" aka "hash-max-ziplist-value" {
        kind: bytes(0, SIZE_MAX),
        default: "64",
        status: EFFECTIVE,
        doc: "Longest field or value in a compact hash, in bytes.",
    }
    LIST_MAX_LISTPACK_SIZE = "list-max-listpack-size" aka "list-max-ziplist-size" {
        kind: int(i32::MIN as i64, INT_MAX),
        default: "-2",
        status: EFFECTIVE,
        doc: "Size of a block of a list: this many elements, or with -1 to -5, 4, 8, 16, 32 or \
              64 KiB.",
    }
    LIST_COMPRESS_DEPTH = "list-compress-depth" {
        kind: int(0, INT_MAX),
        default: "0",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "Compress the blocks of a list except this many at each end. 0 compresses none.",
    }
    SET_MAX_INTSET_ENTRIES = "set-max-intset-entries" {
        kind: int(0, LONG_MAX),
        default: "512",
        status: EFFECTIVE,
        doc: "Most members of a set of integers kept as a sorted array.",
    }
    SET_MAX_LISTPACK_ENTRIES = "set-max-listpack-entries" {
        kind: int(0, LONG_MAX),
        default: "128",
        status: EFFECTIVE,
        doc: "Most members of another compact set.",
    }
    SET_MAX_LISTPACK_VALUE = "set-max-listpack-value" {
        kind: int(0, LONG_MAX),
        default: "64",
        status: EFFECTIVE,
        doc: "Longest member of a compact set, in bytes.",
    }
    ZSET_MAX_LISTPACK_ENTRIES = "zset-max-listpack-entries" aka "zset-max-ziplist-entries" {
        kind: int(0, LONG_MAX),
        default: "128",
        status: EFFECTIVE,
        doc: "Most members of a compact sorted set.",
    }
    ZSET_MAX_LISTPACK_VALUE = "zset-max-listpack-value" aka "zset-max-ziplist-value" {
        kind: bytes(0, SIZE_MAX),
        default: "64",
        status: EFFECTIVE,
        doc: "Longest member of a compact sorted set, in bytes.",
    }
    HLL_SPARSE_MAX_BYTES = "hll-sparse-max-bytes" {
        kind: bytes(0, SIZE_MAX),
        default: "3000",
        status: EFFECTIVE,
        doc: "Bytes up to which a HyperLogLog has its sparse form. Above 16000, the dense form \
              is smaller.",
    }
    STREAM_NODE_MAX_BYTES = "stream-node-max-bytes" {
        kind: bytes(0, SIZE_MAX),
        default: "4096",
        status: EFFECTIVE,
        doc: "Most bytes in a block of a stream. 0 sets no limit.",
    }
    STREAM_NODE_MAX_ENTRIES = "stream-node-max-entries" {
        kind: int(0, LONG_MAX),
        default: "100",
        status: EFFECTIVE,
        doc: "Most entries in a block of a stream. 0 sets no limit.",
    }
}
