//! The program: see `weft_server::start`.

/// jemalloc, as in the servers that this one replaces: steady under fragmentation, and it counts
/// what each thread allocates, on which the account of memory rests.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    std::process::exit(weft_server::start::main());
}
