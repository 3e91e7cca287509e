//! The allocator's switches by name, for MEMORY PURGE and DEBUG MALLCTL.
//!
//! jemalloc's interface is untyped: a name and two buffers. A name may be given a pointer to
//! call or to write through, and then anybody who may say DEBUG could make the server execute
//! anything. So numbers are read from every name, but written only to those of a list, and
//! strings are read only from a list.

use std::alloc::Layout;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use tikv_jemalloc_sys::MALLOCX_TCACHE_NONE;

/// A number of the C library that says why the allocator refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(c_int);

impl std::fmt::Display for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        f.write_str(text.split(" (os error").next().unwrap_or_default())
    }
}

impl std::error::Error for Errno {}

/// Names whose value is a number or a switch, all digits in them replaced by `0`.
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

/// Whether `name` is one of `names`, whatever numbers stand in it.
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

/// The sizes that a number or a switch may have, in bytes.
const SIZES: [usize; 3] = [8, 4, 1];

/// Reads the number `name`, and sets it to `new` if one is given. Answers the old value.
///
/// # Errors
/// `ENOENT` when there is no such name, or it may not be written; what jemalloc says otherwise.
pub fn number(name: &[u8], new: Option<i64>) -> Result<i64, Errno> {
    let c_name = c_name(name)?;
    if new.is_some() && !is_among(name, &WRITABLE) {
        return Err(Errno(libc::ENOENT));
    }
    // The size is not known: jemalloc says EINVAL to a wrong one.
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
        // A switch: other bytes than 0 and 1 are no value of C's bool.
        bytes[0] = u8::from(new.unwrap_or(0) != 0);
    }
    let (new_at, new_len): (*mut c_void, usize) = match new {
        Some(_) => (bytes.as_mut_ptr().cast(), size),
        None => (ptr::null_mut(), 0),
    };
    // SAFETY: `name` ends with NUL. `old` is writable for `old_len <= 8` bytes and `bytes`
    // readable for `new_len <= 8`, which is the most that jemalloc copies. A name that is
    // written is one of WRITABLE: a number or a switch, and never an address that jemalloc
    // would follow. Little-endian layout puts the low bytes first, as all supported targets do.
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
    // SAFETY: `c_name` ends with NUL; `value` is writable for the size of a pointer, which is
    // what the names of STRINGS have as their value; nothing is written to jemalloc.
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
    // SAFETY: the value of every name of STRINGS is a NUL-terminated literal of jemalloc's, or
    // its copy of the options, neither of which is ever freed.
    let value = unsafe { CStr::from_ptr(value) };
    value.to_str().map_err(|_| Errno(libc::EILSEQ))
}

/// The slab in which an allocation lies, and all slabs of its kind (the same size of allocation, the
/// same arena) together. Counts are of places for allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    pub free: usize,
    pub places: usize,
    pub kind_free: usize,
    pub kind_places: usize,
    /// The next allocation of its kind goes here.
    pub is_filled_next: bool,
}

/// What jemalloc's `experimental.utilization.query` writes; see `inspect.h` there.
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

/// Looks up the slab of an allocation. `None` for one of pages of its own, and where another
/// allocator than jemalloc is in use. Takes a lock of jemalloc's for a moment.
pub fn slab_of(at: *const u8) -> Option<Slab> {
    if cfg!(weft_sanitizer) {
        return None;
    }
    let mut found = Utilization::default();
    let mut len = size_of::<Utilization>();
    let mut address = at;
    // SAFETY: the name ends with NUL and stands for a question about one address, which is read
    // from `address`; the answer is six words, for which `found` has room. The address itself is
    // only looked up: that of memory which jemalloc does not know is answered by zeros.
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

/// To so many bytes all memory is aligned that is not smaller.
const QUANTUM: usize = 16;

/// Memory of the arena in which the address lies; null if there is none. As the global allocator would give
/// it, which can free it. Takes locks of jemalloc's for a moment, and does without the thread's cache.
pub fn allocate_beside(layout: Layout, beside: NonNull<u8>) -> *mut u8 {
    let place = match arena_of(beside) {
        Some(arena) => tikv_jemalloc_sys::MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE,
        None => 0,
    };
    // As the global allocator does, which tells the size alone when it frees what needs no more.
    let needs_more = layout.align() > QUANTUM || layout.align() > layout.size();
    let aligned = if needs_more { tikv_jemalloc_sys::MALLOCX_ALIGN(layout.align()) } else { 0 };
    let flags = place | aligned;
    // SAFETY: the size is not 0; the alignment is a power of two; the arena exists, and arenas are never
    // destroyed here.
    unsafe { tikv_jemalloc_sys::mallocx(layout.size().max(1), flags).cast() }
}

/// The arena that gave the memory at an address.
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
    // SAFETY: the name stands for a question about one address, which is read from `address`, and only
    // looked up; the answer is an unsigned int.
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

/// Gives all pages without allocations back to the system, in every arena. Takes milliseconds
/// for each gigabyte given back.
///
/// # Errors
/// Those of jemalloc; none are known.
pub fn purge() -> Result<(), Errno> {
    // 4096 is MALLCTL_ARENAS_ALL of jemalloc's header.
    let name = c"arena.4096.purge";
    // SAFETY: `name` ends with NUL, and this name takes and gives nothing.
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
    fn numbers_of_all_sizes() {
        assert!(number(b"arenas.narenas", None).unwrap() > 0);
        assert_eq!(number(b"opt.retain", None).map(|n| n & !1), Ok(0));
        assert_eq!(number(b"nosuch", None), Err(Errno(libc::ENOENT)));
        assert_eq!(number(b"no\0such", None), Err(Errno(libc::ENOENT)));
        let old = number(b"arenas.muzzy_decay_ms", Some(77)).unwrap();
        assert_eq!(number(b"arenas.muzzy_decay_ms", Some(old)), Ok(77));
    }

    #[test]
    fn addresses_can_not_be_written() {
        for name in [&b"arena.0.extent_hooks"[..], b"prof.dump", b"thread.prof.name"] {
            assert_eq!(number(name, Some(1)), Err(Errno(libc::ENOENT)));
        }
    }

    #[test]
    fn strings() {
        assert!(text(b"version").unwrap().starts_with("5."));
        assert_eq!(text(b"arenas.narenas"), Err(Errno(libc::ENOENT)));
        assert_eq!(text(b"nosuch").unwrap_err().to_string(), "No such file or directory");
    }

    #[test]
    fn slabs_of_small_allocations() {
        let small: Vec<Box<[u8; 48]>> = (0..1000).map(|_| Box::new([1; 48])).collect();
        for one in &small {
            let slab = slab_of(one.as_ptr()).expect("it lies in a slab");
            assert!(slab.free < slab.places && slab.kind_free < slab.kind_places);
            assert!(slab.places <= slab.kind_places);
        }
        let large = vec![1u8; 1 << 20];
        assert_eq!(slab_of(large.as_ptr()), None);
    }

    #[test]
    fn copies_lie_in_the_arena_of_the_original() {
        let beside = |size, align, at| {
            let layout = Layout::from_size_align(size, align).unwrap();
            let new = NonNull::new(allocate_beside(layout, at)).expect("there is memory");
            assert!(new.addr().get().is_multiple_of(align));
            // SAFETY: it is new, and has that size.
            unsafe { new.write_bytes(1, size) };
            new
        };
        let free = |at: NonNull<u8>| {
            // SAFETY: from mallocx, and not used again.
            unsafe { tikv_jemalloc_sys::free(at.as_ptr().cast()) };
        };
        // Threads have arenas of their own.
        let first = std::thread::spawn(|| {
            // SAFETY: a size, and no flags.
            AtomicPtr::new(unsafe { tikv_jemalloc_sys::mallocx(2048, 0) }.cast::<u8>())
        });
        let first = NonNull::new(first.join().expect("it ends").into_inner()).expect("memory");
        let arena = arena_of(first);
        for (size, align) in [(1, 1), (24, 8), (2048, 8), (64, 64), (1 << 20, 8)] {
            let copy = beside(size, align, first);
            assert_eq!(arena_of(copy), arena, "{size} bytes");
            free(copy);
        }
        free(first);
    }

    #[test]
    fn purging_works() {
        assert_eq!(purge(), Ok(()));
    }
}
