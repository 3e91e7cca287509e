//! The server program: see `weft_server::start`.

/// jemalloc, as in Redis and Valkey: it fragments little, and counts each thread's allocations, on
/// which the memory accounting relies.
#[cfg(not(weft_sanitizer))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A sanitizer must see every allocation.
#[cfg(weft_sanitizer)]
#[global_allocator]
static ALLOCATOR: weft_memory::counted::Counted = weft_memory::counted::Counted;

/// Read by jemalloc when it starts. Huge pages, because random access to many small records misses
/// the TLB more than any cache (docs/design/huge-pages.md). No background thread yet, because the
/// server may still fork to become a daemon.
#[unsafe(export_name = "malloc_conf")]
pub static MALLOC_CONF: &[u8; 30] = b"thp:always,dirty_decay_ms:500\0";

fn main() {
    std::process::exit(weft_server::start::main());
}
