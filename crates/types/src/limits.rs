//! Size limits of packed collections: the directives `*-max-listpack-*` and similar ones.

/// The longest key, element, member, field or value of a collection (bytes), since their lengths
/// are stored in 32 bits. Strings may be longer.
pub const TEXT_MAX: usize = u32::MAX as usize - 1;

/// The most bytes of a collection that is packed in its record, whatever the directives say: the
/// size that Valkey considers safe, far below the maximum size of a record. Lower in this crate's
/// tests, which exceed it.
pub(crate) const PACKED_MAX: usize = if cfg!(test) { 1 << 20 } else { 1 << 30 };

/// The sizes at which collections leave the packed form. Each is named after its directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `hash-max-listpack-entries`: fields.
    pub hash_entries: usize,
    /// `hash-max-listpack-value`: bytes of the longest field or value.
    pub hash_value: usize,
    /// `set-max-intset-entries`: members.
    pub set_ints: usize,
    /// `set-max-listpack-entries`: members.
    pub set_entries: usize,
    /// `set-max-listpack-value`: bytes of the longest member.
    pub set_value: usize,
    /// `zset-max-listpack-entries`: members.
    pub zset_entries: usize,
    /// `zset-max-listpack-value`: bytes of the longest member.
    pub zset_value: usize,
    /// `list-max-listpack-size`: elements of a chunk, or -1 to -5 for 4 to 64 KiB.
    pub list_size: i64,
    /// `list-compress-depth`: chunks at either end that are never compressed. 0 disables
    /// compression.
    pub list_compress: usize,
    /// `stream-node-max-bytes`: bytes of a node of a stream, as Valkey counts them; 0: no limit.
    pub stream_node_bytes: usize,
    /// `stream-node-max-entries`: entries of a node, deleted ones included; 0: no limit.
    pub stream_node_entries: usize,
    /// `hll-sparse-max-bytes`: bytes of a sparse HyperLogLog, header included.
    pub hyperloglog_sparse: usize,
}

impl Default for Limits {
    /// The defaults of the directives.
    fn default() -> Self {
        Limits {
            hash_entries: 512,
            hash_value: 64,
            set_ints: 512,
            set_entries: 128,
            set_value: 64,
            zset_entries: 128,
            zset_value: 64,
            list_size: -2,
            list_compress: 0,
            stream_node_bytes: 4096,
            stream_node_entries: 100,
            hyperloglog_sparse: 3000,
        }
    }
}
