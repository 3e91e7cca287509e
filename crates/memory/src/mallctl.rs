//! The allocator's settings by name, for MEMORY PURGE and DEBUG MALLCTL.
//!
//! jemalloc's interface is untyped: a name and two buffers. Some names take a pointer to call or to
//! write through, which would let any client with DEBUG execute code. So numbers can be read from
//! every name, but written only to listed ones, and strings can be read only from listed names.

use std::alloc::Layout;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use tikv_jemalloc_sys::MALLOCX_TCACHE_NONE;

/// An error number of the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(c_int);

impl std::fmt::Display for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        f.write_str(text.split(" (os error").next().unwrap_or_default())
    }
}

impl std::error::Error for Errno {}

/// Names whose value is a number or a switch. Digits in names are replaced by `0`.
const WRITABLE: [&str; 12] = [
    "arena.0.dirty_decay_ms",
    "arena.0.muzzy_decay_ms",
    "arena.0.oversize_threshold",
    "arena.0.retain_grow_limit",
    "arenas.dirty_decay_ms",
    "arenas.muzzy_decay_ms",
    "background_thread",
    "epoch",
    "max_background_threads",
    "prof.active",
    "prof.thread_active_init",
    "thread.tcache.enabled",
];

/// Names whose value is a string that lives as long as the process.
const STRINGS: [&str; 9] = [
    "arena.0.dss",
    "config.malloc_conf",
    "opt.dss",
    "opt.junk",
    "opt.metadata_thp",
    "opt.percpu_arena",
    "opt.stats_print_opts",
    "opt.thp",
    "version",
];

/// Whether `name` is one of `names`, whatever numbers it contains.
fn is_among(name: &[u8], names: &[&str]) -> bool {
    let mut shape = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b'0'..=b'9' if shape.last() == Some(&b'0') => {}
            b'0'..=b'9' => shape.push(b'0'),
            other => shape.push(*other),
        }
    }
    names.iter().any(|known| known.as_bytes() == shape)
}

/// The possible sizes of a number or a switch, in bytes.
const SIZES: [usize; 3] = [8, 4, 1];

/// Reads the number `name`, and sets it to `new` if given. Returns the old value.
///
/// # Errors
/// `ENOENT` when there is no such name, or it must not be written; otherwise jemalloc's error.
pub fn number(name: &[u8], new: Option<i64>) -> Result<i64, Errno> {
    let c_name = c_name(name)?;
    if new.is_some() && !is_among(name, &WRITABLE) {
        return Err(Errno(libc::ENOENT));
    }
    // The size is unknown: jemalloc returns EINVAL for a wrong one.
    for size in SIZES {
        match number_of_size(&c_name, new, size) {
            Err(Errno(libc::EINVAL)) => {}
            done => return done,
        }
    }
    Err(Errno(libc::EINVAL))
}

fn number_of_size(name: &CStr, new: Option<i64>, size: usize) -> Result<i64, Errno> {
    debug_assert!(SIZES.contains(&size));
    let mut old = [0u8; 8];
    let mut old_len = size;
    let mut bytes = new.unwrap_or(0).to_le_bytes();
    if size == 1 {
        // A switch: only the bytes 0 and 1 are valid for C's bool.
        bytes[0] = u8::from(new.unwrap_or(0) != 0);
    }
    let (new_at, new_len): (*mut c_void, usize) = match new {
        Some(_) => (bytes.as_mut_ptr().cast(), size),
        None => (ptr::null_mut(), 0),
    };
    // SAFETY: `name` ends with NUL. `old` is writable for `old_len <= 8` bytes and `bytes` is
    // readable for `new_len <= 8`, the most that jemalloc copies. A written name is one of
    // WRITABLE: a number or a switch, never an address that jemalloc would follow. The low bytes
    // come first, since all supported targets are little-endian.
    let status = unsafe {
        tikv_jemalloc_sys::mallctl(
            name.as_ptr(),
            old.as_mut_ptr().cast(),
            &raw mut old_len,
            new_at,
            new_len,
        )
    };
    match status {
        0 => Ok(i64::from_le_bytes(old)),
        errno => Err(Errno(errno)),
    }
}

const _: () = assert!(cfg!(target_endian = "little"));

/// Reads the string `name`.
///
/// # Errors
/// `ENOENT` when there is no such name or it is not known to be a string.
pub fn text(name: &[u8]) -> Result<&'static str, Errno> {
    let c_name = c_name(name)?;
    if !is_among(name, &STRINGS) {
        return Err(Errno(libc::ENOENT));
    }
    let mut value: *const c_char = ptr::null();
    let mut len = size_of_val(&value);
    // SAFETY: `c_name` ends with NUL. `value` is writable for the size of a pointer, which is the
    // type of the names in STRINGS. Nothing is written to jemalloc.
    let status = unsafe {
        tikv_jemalloc_sys::mallctl(
            c_name.as_ptr(),
            (&raw mut value).cast(),
            &raw mut len,
            ptr::null_mut(),
            0,
        )
    };
    if status != 0 || value.is_null() {
        return Err(Errno(if status == 0 { libc::ENOENT } else { status }));
    }
    // SAFETY: the value of every name in STRINGS is a NUL-terminated literal of jemalloc or its
    // copy of the options. Neither is ever freed.
    let value = unsafe { CStr::from_ptr(value) };
    value.to_str().map_err(|_| Errno(libc::EILSEQ))
}

/// The slab of an allocation, and the totals of all slabs of its kind (the same size class and
/// arena). Counts are places for allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    pub free: usize,
    pub places: usize,
    pub kind_free: usize,
    pub kind_places: usize,
    /// Whether the next allocation of its kind comes from this slab.
    pub is_filled_next: bool,
}

/// The result of jemalloc's `experimental.utilization.query`; see `inspect.h` there.
#[repr(C)]
#[derive(Default)]
struct Utilization {
    filled_next: usize,
    free: usize,
    places: usize,
    bytes: usize,
    kind_free: usize,
    kind_places: usize,
}

/// Finds the slab of an allocation. `None` for an allocation with its own pages, and with another
/// allocator than jemalloc. Briefly takes a lock of jemalloc.
pub fn slab_of(at: *const u8) -> Option<Slab> {
    if cfg!(weft_sanitizer) {
        return None;
    }
    let mut found = Utilization::default();
    let mut len = size_of::<Utilization>();
    let mut address = at;
    // SAFETY: the name ends with NUL and queries one address, which is read from `address`. The
    // result is six words, for which `found` has room. The address is only looked up: jemalloc
    // returns zeros for unknown memory.
    let status = unsafe {
        tikv_jemalloc_sys::mallctl(
            c"experimental.utilization.query".as_ptr(),
            (&raw mut found).cast(),
            &raw mut len,
            (&raw mut address).cast(),
            size_of_val(&address),
        )
    };
    let filled_next = found.filled_next..found.filled_next.saturating_add(found.bytes);
    (status == 0 && found.places > 1 && found.kind_places >= found.kind_free).then(|| Slab {
        free: found.free.min(found.places),
        places: found.places,
        kind_free: found.kind_free,
        kind_places: found.kind_places,
        is_filled_next: filled_next.contains(&at.addr()),
    })
}

/// Every allocation of at least this many bytes is aligned to it.
const QUANTUM: usize = 16;

/// Allocates memory from the arena of the address; null if there is none left. The global allocator
/// can free it. Briefly takes locks of jemalloc, and bypasses the thread's cache.
pub fn allocate_in_arena_of(layout: Layout, beside: NonNull<u8>) -> *mut u8 {
    let place = match arena_of(beside) {
        Some(arena) => tikv_jemalloc_sys::MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE,
        None => 0,
    };
    // As in the global allocator, which frees by size alone unless a larger alignment is needed.
    let needs_more = layout.align() > QUANTUM || layout.align() > layout.size();
    let aligned = if needs_more { tikv_jemalloc_sys::MALLOCX_ALIGN(layout.align()) } else { 0 };
    let flags = place | aligned;
    // SAFETY: the size is not 0. The alignment is a power of two. The arena exists, and arenas are
    // never destroyed here.
    unsafe { tikv_jemalloc_sys::mallocx(layout.size().max(1), flags).cast() }
}

/// The arena of the memory at an address.
fn arena_of(at: NonNull<u8>) -> Option<usize> {
    static NAME: OnceLock<Option<[usize; 2]>> = OnceLock::new();
    let name = (*NAME.get_or_init(|| {
        let (mut name, mut len) = ([0; 2], 2);
        // SAFETY: the name ends with NUL and has two parts, for which there is room.
        let status = unsafe {
            tikv_jemalloc_sys::mallctlnametomib(
                c"arenas.lookup".as_ptr(),
                name.as_mut_ptr(),
                &raw mut len,
            )
        };
        (status == 0 && len == name.len()).then_some(name)
    }))?;
    let mut arena: c_uint = 0;
    let mut len = size_of_val(&arena);
    let mut address = at.as_ptr();
    // SAFETY: the name queries one address, which is read from `address` and only looked up. The
    // result is an unsigned int.
    let status = unsafe {
        tikv_jemalloc_sys::mallctlbymib(
            name.as_ptr(),
            name.len(),
            (&raw mut arena).cast(),
            &raw mut len,
            (&raw mut address).cast(),
            size_of_val(&address),
        )
    };
    (status == 0).then_some(arena as usize)
}

/// Returns all pages without allocations to the system, in every arena. Takes milliseconds for each
/// returned gigabyte.
///
/// # Errors
/// Those of jemalloc; none are known.
pub fn purge() -> Result<(), Errno> {
    // 4096 is MALLCTL_ARENAS_ALL of jemalloc's header.
    let name = c"arena.4096.purge";
    // SAFETY: `name` ends with NUL, and this name has neither input nor output.
    let status = unsafe {
        tikv_jemalloc_sys::mallctl(
            name.as_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            0,
        )
    };
    if status == 0 { Ok(()) } else { Err(Errno(status)) }
}

fn c_name(name: &[u8]) -> Result<CString, Errno> {
    CString::new(name).map_err(|_| Errno(libc::ENOENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicPtr;

    #[test]
    fn reads_and_writes_numbers_of_all_sizes() {
        assert!(number(b"arenas.narenas", None).unwrap() > 0);
        assert_eq!(number(b"opt.retain", None).map(|n| n & !1), Ok(0));
        assert_eq!(number(b"nosuch", None), Err(Errno(libc::ENOENT)));
        assert_eq!(number(b"no\0such", None), Err(Errno(libc::ENOENT)));
        let old = number(b"arenas.muzzy_decay_ms", Some(77)).unwrap();
        assert_eq!(number(b"arenas.muzzy_decay_ms", Some(old)), Ok(77));
    }

    #[test]
    fn addresses_cannot_be_written() {
        for name in [&b"arena.0.extent_hooks"[..], b"prof.dump", b"thread.prof.name"] {
            assert_eq!(number(name, Some(1)), Err(Errno(libc::ENOENT)));
        }
    }

    #[test]
    fn reads_only_listed_strings() {
        assert!(text(b"version").unwrap().starts_with("5."));
        assert_eq!(text(b"arenas.narenas"), Err(Errno(libc::ENOENT)));
        assert_eq!(text(b"nosuch").unwrap_err().to_string(), "No such file or directory");
    }

    #[test]
    fn finds_slabs_of_small_allocations() {
        let small: Vec<Box<[u8; 48]>> = (0..1000).map(|_| Box::new([1; 48])).collect();
        for one in &small {
            let slab = slab_of(one.as_ptr()).expect("small allocations are in slabs");
            assert!(slab.free < slab.places && slab.kind_free < slab.kind_places);
            assert!(slab.places <= slab.kind_places);
        }
        let large = vec![1u8; 1 << 20];
        assert_eq!(slab_of(large.as_ptr()), None);
    }

    #[test]
    fn copies_are_in_the_arena_of_the_original() {
        let beside = |size, align, at| {
            let layout = Layout::from_size_align(size, align).unwrap();
            let new = NonNull::new(allocate_in_arena_of(layout, at)).expect("memory is left");
            assert!(new.addr().get().is_multiple_of(align));
            // SAFETY: the memory is new, and has that size.
            unsafe { new.write_bytes(1, size) };
            new
        };
        let free = |at: NonNull<u8>| {
            // SAFETY: the memory is from mallocx, and not used again.
            unsafe { tikv_jemalloc_sys::free(at.as_ptr().cast()) };
        };
        // Each thread has its own arena.
        let first = std::thread::spawn(|| {
            // SAFETY: the size is not 0, and there are no flags.
            AtomicPtr::new(unsafe { tikv_jemalloc_sys::mallocx(2048, 0) }.cast::<u8>())
        });
        let first = NonNull::new(first.join().expect("the thread doesn't panic").into_inner())
            .expect("memory");
        let arena = arena_of(first);
        for (size, align) in [(1, 1), (24, 8), (2048, 8), (64, 64), (1 << 20, 8)] {
            let copy = beside(size, align, first);
            assert_eq!(arena_of(copy), arena, "{size} bytes");
            free(copy);
        }
        free(first);
    }

    #[test]
    fn purges_without_error() {
        assert_eq!(purge(), Ok(()));
    }
}
