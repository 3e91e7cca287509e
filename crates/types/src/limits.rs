//! Up to where collections stay packed: the directives `*-max-listpack-*` and their kin.

/// The longest key, and the longest element, member, field or value of a collection (bytes): their
/// lengths are kept in 32 bits. Strings may be longer.
pub const TEXT_MAX: usize = u32::MAX as usize - 1;

/// The most bytes of a collection that is packed in its record, whatever the directives say: what
/// the reference calls safe, and far below what a record can hold. Less in this crate's tests,
/// which go beyond it.
pub(crate) const PACKED_MAX: usize = if cfg!(test) { 1 << 20 } else { 1 << 30 };

/// Sizes from which collections leave the packed form; each is named after its directive.
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
    /// `list-compress-depth`: chunks at either end that are never compressed; 0: none is.
    pub list_compress: usize,
    /// `stream-node-max-bytes`: bytes of a node of a stream, as the reference counts them; 0: no
    /// limit.
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
