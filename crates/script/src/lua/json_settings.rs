//! The settings of `cjson`.

/// The text for NaN and the infinities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidNumbers {
    Error,
    Null,
    Text,
}

/// The settings of a Lua state; scripts change them for the scripts after them.
#[derive(Clone, Copy, Debug)]
pub struct JsonSettings {
    pub(super) encode_invalid: InvalidNumbers,
    pub(super) decode_invalid: bool,
    pub(super) encode_depth: usize,
    pub(super) decode_depth: usize,
    pub(super) digits: usize,
    pub(super) keeps_buffer: bool,
    /// Sparse arrays become objects; otherwise they are an error.
    pub(super) sparse_convert: bool,
    /// An array is sparse if its highest key is more than this many times the number of its elements; 0: never.
    pub(super) sparse_ratio: f64,
    /// An array with a highest key up to this is never sparse.
    pub(super) sparse_safe: f64,
}

impl Default for JsonSettings {
    fn default() -> Self {
        JsonSettings {
            encode_invalid: InvalidNumbers::Error,
            decode_invalid: true,
            encode_depth: 1000,
            decode_depth: 1000,
            digits: 14,
            keeps_buffer: true,
            sparse_convert: false,
            sparse_ratio: 2.0,
            sparse_safe: 10.0,
        }
    }
}
