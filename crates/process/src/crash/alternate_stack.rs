//! A second stack for signal handlers.

use std::io;
use std::ptr;

/// Finding the names of functions takes some 100 KiB. Only pages that are touched
/// cost memory, so in a thread that never crashes this is address space and no more.
const SIZE: usize = 512 * 1024;

/// One page below the stack that faults on access.
const GUARD: usize = 64 * 1024;

/// A thread's second stack; freed when dropped, which must happen on the same thread.
#[derive(Debug)]
pub struct AlternateStack {
    base: *mut libc::c_void,
    previous: libc::stack_t,
}

/// Gives the calling thread a stack on which it can report that its own is exhausted.
/// To be kept for as long as the thread runs.
///
/// # Errors
/// Those of `mmap` and `sigaltstack`.
pub fn install_thread() -> io::Result<AlternateStack> {
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing
    // that exists.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            GUARD + SIZE,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // From here on the drop below cleans up.
    let mut stack = AlternateStack { base, previous: disabled() };
    let new = libc::stack_t { ss_sp: base.wrapping_byte_add(GUARD), ss_flags: 0, ss_size: SIZE };
    // SAFETY: the range is the upper part of the mapping made above; GUARD is a
    // multiple of every page size in use.
    let opened = unsafe { libc::mprotect(new.ss_sp, SIZE, libc::PROT_READ | libc::PROT_WRITE) };
    // SAFETY: the new stack is writable, belongs to this value alone, and is unmapped only after
    // another has been set in `drop`; `previous` is writable.
    if opened != 0 || unsafe { libc::sigaltstack(&raw const new, &raw mut stack.previous) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stack)
}

fn disabled() -> libc::stack_t {
    libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        // SAFETY: `previous` is what the kernel reported for this thread, or "none";
        // the type is not Send, so this is that thread. Afterwards nothing uses the
        // mapping, which has this base and size.
        unsafe {
            libc::sigaltstack(&raw const self.previous, ptr::null_mut());
            libc::munmap(self.base, GUARD + SIZE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current() -> libc::stack_t {
        let mut stack = disabled();
        // SAFETY: a null pointer means "change nothing"; `stack` is writable.
        unsafe { libc::sigaltstack(ptr::null(), &raw mut stack) };
        stack
    }

    #[test]
    fn installs_and_gives_back() {
        std::thread::spawn(|| {
            let before = current().ss_sp;
            let stack = install_thread().unwrap();
            assert_eq!(current().ss_size, SIZE);
            assert_eq!(current().ss_sp, stack.base.wrapping_byte_add(GUARD));
            drop(stack);
            assert_eq!(current().ss_sp, before);
        })
        .join()
        .unwrap();
    }
}
