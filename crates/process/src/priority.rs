//! How far a thread stands back behind the others of its process.
//!
//! A lower priority alone gives it a smaller share of a CPU, but not at the right moment: Linux lets who
//! runs finish a slice, some milliseconds, before somebody who wakes up gets the CPU. Since 6.12 a thread
//! may say how long its slice is to be, and who wakes up with a shorter one need not wait for its end. So
//! who stands back asks for a long one, and is in nobody's way. Older kernels take the priority, and do
//! not look at the slice.
//!
//! Source: <https://docs.kernel.org/scheduler/sched-eevdf.html>, sched_setattr(2).

use std::io;

/// The slice of a thread that stands back, in nanoseconds: the longest that the kernel knows.
#[cfg(target_os = "linux")]
const LONG_SLICE_NS: u64 = 100_000_000;

/// `struct sched_attr` in its first form, which every kernel takes.
#[cfg(target_os = "linux")]
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Has the calling thread, and those that it starts from now on, get a CPU when nobody else of the
/// process wants it, and else a share of it by `nice` (1 to 19). There is no way back.
///
/// # Errors
/// Those of sched_setattr(2); nothing has changed then.
#[cfg(target_os = "linux")]
pub fn stand_back(nice: i32) -> io::Result<()> {
    const CALLER: libc::pid_t = 0;
    const NO_FLAGS: libc::c_uint = 0;
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_BATCH as u32,
        flags: 0,
        nice,
        priority: 0,
        runtime: LONG_SLICE_NS,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of the structure, which lives until the call is over, and
    // writes none. The other arguments are numbers.
    let status =
        unsafe { libc::syscall(libc::SYS_sched_setattr, CALLER, &raw const attributes, NO_FLAGS) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// There is nothing like it for a single thread elsewhere.
///
/// # Errors
/// Always `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub fn stand_back(_nice: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Fields 41 and 19 of stat(5): the policy, and the nice value.
    fn seen() -> (String, String) {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux has it");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("the name").split(' ').collect();
        (fields[39].to_string(), fields[17].to_string())
    }

    #[test]
    fn a_thread_and_those_it_starts_stand_back() {
        let back = std::thread::spawn(|| {
            stand_back(5).expect("anybody may");
            (seen(), std::thread::spawn(seen).join().expect("it ends"))
        });
        let (own, child) = back.join().expect("it ends");
        assert_eq!(own, ("3".into(), "5".into()), "SCHED_BATCH, nice 5");
        assert_eq!(child, own);
        assert_ne!(seen(), own, "nobody else does");
    }
}
