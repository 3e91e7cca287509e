//! Arguments of a request that outlive the buffer that it was read into.

use weft_resp::Blob;

/// An argument that is not a span of a buffer.
#[derive(Clone, Debug)]
pub enum ArgBuf {
    Bytes(Vec<u8>),
    /// A large value, where it will stay.
    Blob(Blob),
}

impl ArgBuf {
    pub fn bytes(&self) -> &[u8] {
        match self {
            ArgBuf::Bytes(b) => b,
            ArgBuf::Blob(b) => b,
        }
    }

    /// Bytes of memory, with the argument itself.
    #[inline]
    pub fn memory(&self) -> usize {
        let len = self.bytes().len();
        // As the allocator hands out small ones; of large ones the difference does not matter.
        size_of::<ArgBuf>() + if len <= 8 { 8 } else { (len + 15) & !15 }
    }
}
