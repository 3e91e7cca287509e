//! Arguments of a request that outlive the buffer that the request was read into.

use weft_resp::Blob;

/// An argument that is not a span of a buffer.
#[derive(Clone, Debug)]
pub enum ArgBuf {
    Bytes(Vec<u8>),
    /// A large value in a buffer that the database takes over.
    Blob(Blob),
}

impl ArgBuf {
    pub fn bytes(&self) -> &[u8] {
        match self {
            ArgBuf::Bytes(b) => b,
            ArgBuf::Blob(b) => b,
        }
    }

    /// The memory of the argument, with the `ArgBuf` itself (bytes).
    #[inline]
    pub fn memory(&self) -> usize {
        let len = self.bytes().len();
        // Rounded as the allocator rounds small blocks; for large ones the difference does not matter.
        size_of::<ArgBuf>() + if len <= 8 { 8 } else { (len + 15) & !15 }
    }
}
