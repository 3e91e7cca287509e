//! The program: see `weft_server::start`.

/// jemalloc, as in the servers that this one replaces: steady under fragmentation, and it counts
/// what each thread allocates, on which the account of memory rests.
#[cfg(not(weft_sanitizer))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A sanitizer must see every allocation.
#[cfg(weft_sanitizer)]
#[global_allocator]
static ALLOCATOR: weft_memory::counted::Counted = weft_memory::counted::Counted;

/// Read by jemalloc at its start. Huge pages for what it maps, since random access to many
/// small records misses the TLB more than any cache (docs/design/huge-pages.md). No thread of its
/// own yet: the server could not become a daemon any more.
#[unsafe(export_name = "malloc_conf")]
pub static MALLOC_CONF: &[u8; 30] = b"thp:always,dirty_decay_ms:500\0";

fn main() {
    std::process::exit(weft_server::start::main());
}
