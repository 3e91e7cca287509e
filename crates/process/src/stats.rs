//! The resources of this process and its machine, for `INFO`.
//!
//! Everything is read from the kernel when asked for; nothing is kept. A figure that the
//! kernel will not give is 0, because a dashboard with a hole is better than a server
//! that fails over it.

use std::ffi::CStr;
use std::fs;

/// Memory of this process as the kernel counts it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident now.
    pub resident: u64,
    /// The most that was ever resident.
    pub peak_resident: u64,
    /// Moved to swap.
    pub swapped: u64,
}

/// Reads `/proc/self/status`; some 30 us.
pub fn memory() -> Memory {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    Memory {
        resident: kilobytes(&status, "VmRSS:"),
        peak_resident: kilobytes(&status, "VmHWM:"),
        swapped: kilobytes(&status, "VmSwap:"),
    }
}

/// How the resident memory divides, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryMaps {
    /// Private pages that were written.
    pub private_dirty: u64,
    /// Pages that would come free if the process ended, but for swap.
    pub proportional: u64,
    /// Anonymous memory in huge pages.
    pub anonymous_huge: u64,
}

/// Reads `/proc/self/smaps_rollup`. The kernel walks all page tables for it, about
/// 1 ms per GiB, so not for every second.
pub fn memory_maps() -> MemoryMaps {
    let maps = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    MemoryMaps {
        private_dirty: kilobytes(&maps, "Private_Dirty:"),
        proportional: kilobytes(&maps, "Pss:"),
        anonymous_huge: kilobytes(&maps, "AnonHugePages:"),
    }
}

/// The bytes of a line `Name:   123 kB`.
fn kilobytes(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |amount| amount.saturating_mul(1024))
}

/// Whose CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// All threads of this process.
    Process,
    /// Children that have ended and been waited for.
    Children,
    /// The calling thread.
    Thread,
}

/// CPU time used, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In the program itself.
    pub user_us: u64,
    /// In the kernel on its behalf.
    pub system_us: u64,
}

/// The CPU time used so far.
pub fn cpu_time(whose: Whose) -> CpuTime {
    let who = match whose {
        Whose::Process => libc::RUSAGE_SELF,
        Whose::Children => libc::RUSAGE_CHILDREN,
        Whose::Thread => libc::RUSAGE_THREAD,
    };
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable for the duration of the call. It fails only for
    // an unknown `who`; then all stays zero.
    unsafe { libc::getrusage(who, &raw mut usage) };
    let micros =
        |time: libc::timeval| u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0);
    CpuTime { user_us: micros(usage.ru_utime), system_us: micros(usage.ru_stime) }
}

/// The machine's memory in bytes.
pub fn total_system_memory() -> u64 {
    // SAFETY: all-zero is a valid sysinfo.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable for the duration of the call.
    match unsafe { libc::sysinfo(&raw mut info) } {
        0 => info.totalram.saturating_mul(u64::from(info.mem_unit)),
        _ => 0,
    }
}

/// Kernel, its release and the machine, as `Linux 6.1.0 x86_64`.
pub fn operating_system() -> String {
    // SAFETY: all-zero is a valid utsname: empty strings.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is writable for the duration of the call.
    unsafe { libc::uname(&raw mut name) };
    let text = |field: &[libc::c_char]| {
        let bytes: Vec<u8> = field.iter().map(|&c| c as u8).collect();
        CStr::from_bytes_until_nul(&bytes)
            .map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
    };
    let (system, release, machine) =
        (text(&name.sysname), text(&name.release), text(&name.machine));
    format!("{system} {release} {machine}")
}

/// The version of the compiler that built this program, as `1.95.0`.
pub fn compiler_version() -> &'static str {
    env!("WEFT_COMPILER_VERSION")
}

/// The width of a pointer, for `arch_bits`.
pub const ARCH_BITS: u32 = usize::BITS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_plausible() {
        let memory = memory();
        assert!(memory.resident > 100_000, "{memory:?}");
        assert!(memory.peak_resident >= memory.resident, "{memory:?}");
        assert!(total_system_memory() > memory.resident);
        assert!(memory_maps().proportional > 0);
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let before = cpu_time(Whose::Thread);
        let mut sum = 0u64;
        while cpu_time(Whose::Thread) == before {
            sum = sum.wrapping_add(std::hint::black_box(1));
        }
        let (thread, process) = (cpu_time(Whose::Thread), cpu_time(Whose::Process));
        assert!(sum > 0 && process.user_us + process.system_us > 0, "{thread:?} {process:?}");
    }

    #[test]
    fn names() {
        let system = operating_system();
        assert!(system.starts_with("Linux "), "{system}");
        assert_eq!(system.split(' ').count(), 3, "{system}");
        assert!(compiler_version().starts_with(|c: char| c.is_ascii_digit()));
        assert!(matches!(ARCH_BITS, 32 | 64));
    }

    #[test]
    fn lines_of_proc() {
        let text = "VmHWM:\t  12 kB\nVmRSS:\t   7 kB\nJunk: x kB\n";
        assert_eq!((kilobytes(text, "VmRSS:"), kilobytes(text, "VmHWM:")), (7_168, 12_288));
        assert_eq!((kilobytes(text, "Junk:"), kilobytes(text, "VmSwap:")), (0, 0));
    }
}
