//! The CPUs that this process may use, and two settings of a thread: where it runs and its name.
//!
//! Two limits apply. The affinity mask determines *which* CPUs (`taskset`, cpusets, Kubernetes'
//! static policy). The control group determines *how much* CPU time (`--cpus=2`). The number of
//! threads that can run at the same time is the smaller of the two, and sizes the default thread
//! pool.
//!
//! The C library's fixed `cpu_set_t` ends at 1024 CPUs and the kernel refuses a mask
//! shorter than its own, so the mask grows until the kernel accepts it.

use crate::cgroup;
use crate::cpulist::{CpuSet, MAX_CPUS};
use std::ffi::CStr;
use std::io;
use std::path::Path;

/// The kernel's id for the calling thread.
const CALLER: i32 = 0;

/// The calling thread's affinity mask.
///
/// # Errors
/// The kernel's, for example where a sandbox forbids the call.
pub fn affinity() -> io::Result<CpuSet> {
    affinity_of(CALLER)
}

/// The affinity mask of any thread on the machine, by its id.
///
/// # Errors
/// `ESRCH` if there is no such thread (any more), else the kernel's.
pub fn affinity_of(thread: i32) -> io::Result<CpuSet> {
    let mut words = vec![0u64; 16];
    loop {
        let bytes = size_of_val(words.as_slice());
        // SAFETY: `words` is writable for exactly `bytes` bytes, the kernel writes at most that
        // many, and any bit pattern is a valid `u64`. The thread's id is only a number to the
        // kernel, which refuses unknown ones.
        let status = unsafe { libc::sched_getaffinity(thread, bytes, words.as_mut_ptr().cast()) };
        if status == 0 {
            return Ok(CpuSet::from_words(words));
        }
        let error = io::Error::last_os_error();
        // EINVAL: the kernel's own mask is longer than ours.
        if error.raw_os_error() != Some(libc::EINVAL) || words.len() * 64 >= MAX_CPUS {
            return Err(error);
        }
        let longer = words.len() * 2;
        words = vec![0; longer];
    }
}

/// The CPUs this thread may run on. If the kernel does not report them, as many as the standard
/// library assumes, counted from 0; never empty.
pub fn allowed_cpus() -> CpuSet {
    match affinity() {
        Ok(set) if !set.is_empty() => set,
        Ok(_) | Err(_) => {
            let count = std::thread::available_parallelism().map_or(1, usize::from);
            (0..count.min(MAX_CPUS)).collect()
        }
    }
}

/// The number of threads that can usefully run at once: the affinity mask's size or the control
/// group's allowance rounded up, whichever is smaller; at least 1.
///
/// Reads a handful of files; meant for start-up.
pub fn usable_cpus() -> usize {
    usable_cpus_under(Path::new("/"), allowed_cpus().len())
}

/// Like [`usable_cpus`] with the files of another machine: control groups are read below `root`,
/// and `allowed` replaces the size of the affinity mask.
pub fn usable_cpus_under(root: &Path, allowed: usize) -> usize {
    let quota = cgroup::cpu_quota(root).map_or(usize::MAX, cgroup::CpuQuota::cpus);
    allowed.min(quota).max(1)
}

/// Confines the calling thread to `cpus`. An empty set changes nothing.
///
/// # Errors
/// `EINVAL` if none of the CPUs exists or is allowed, `EPERM` in some sandboxes.
pub fn set_thread_affinity(cpus: &CpuSet) -> io::Result<()> {
    set_affinity_of(CALLER, cpus)
}

/// Confines any thread on the machine, by its id. An empty set changes nothing.
///
/// The kernel silently drops CPUs that the thread's cpuset does not allow, as long as some remain;
/// callers can check with [`affinity_of`] afterwards.
///
/// # Errors
/// `ESRCH` if there is no such thread (any more), `EPERM` if it belongs to another user, `EINVAL`
/// if none of the CPUs exists or is allowed.
pub fn set_affinity_of(thread: i32, cpus: &CpuSet) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let words = cpus.words();
    let bytes = size_of_val(words);
    // SAFETY: `words` is readable for the length given, and the kernel only reads it.
    // The thread's id is only a number to it.
    let status = unsafe { libc::sched_setaffinity(thread, bytes, words.as_ptr().cast()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The longest thread name that Linux stores, in bytes.
pub const THREAD_NAME_MAX: usize = 15;

/// The CPU on which the calling thread runs; `None` where the kernel doesn't say. rustix's call reads the vDSO by itself and
/// fails under valgrind, which hides it.
pub fn current_cpu() -> Option<usize> {
    // SAFETY: the call has no arguments and changes nothing.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Names the calling thread, for `top -H` and crash reports. Longer names are truncated to
/// [`THREAD_NAME_MAX`] bytes, and also at a NUL.
pub fn set_thread_name(name: &str) {
    let mut buffer = [0u8; THREAD_NAME_MAX + 1];
    let length =
        (0..=name.len().min(THREAD_NAME_MAX)).rfind(|&end| name.is_char_boundary(end)).unwrap_or(0);
    buffer[..length].copy_from_slice(&name.as_bytes()[..length]);
    // SAFETY: PR_SET_NAME reads a NUL-terminated string of at most 16 bytes; the
    // buffer is 16 bytes long and its last byte is never written, so it is NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, buffer.as_ptr(), 0, 0, 0) };
}

/// The calling thread's name as the kernel knows it.
pub fn thread_name() -> String {
    let mut buffer = [0u8; THREAD_NAME_MAX + 1];
    // SAFETY: PR_GET_NAME writes at most 16 bytes, terminator included, into a buffer
    // of 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, buffer.as_mut_ptr(), 0, 0, 0) };
    CStr::from_bytes_until_nul(&buffer)
        .map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confines_the_calling_thread() {
        let all = allowed_cpus();
        assert!(!all.is_empty());
        // In a separate thread, so that other tests keep their CPUs.
        std::thread::spawn(move || {
            let first: CpuSet = all.iter().take(1).collect();
            set_thread_affinity(&first).unwrap();
            assert_eq!(affinity().unwrap(), first);
            assert_eq!(allowed_cpus(), first);
            set_thread_affinity(&CpuSet::new()).unwrap();
            assert_eq!(affinity().unwrap(), first, "the empty set must change nothing");
            assert_eq!(usable_cpus(), 1);
            let absent = (MAX_CPUS - 1..MAX_CPUS).collect();
            let error = set_thread_affinity(&absent).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn confines_another_thread_by_its_id() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let myself = std::fs::read_link("/proc/thread-self").unwrap();
            tell.send(myself.file_name().unwrap().to_str().unwrap().parse::<i32>().unwrap())
                .unwrap();
            ended.recv().unwrap_err();
            affinity().unwrap()
        });
        let (id, mine) = (told.recv().unwrap(), affinity().unwrap());
        assert_eq!(affinity_of(id).unwrap(), mine, "a new thread inherits the mask");
        let last: CpuSet = mine.iter().last().into_iter().collect();
        set_affinity_of(id, &last).unwrap();
        assert_eq!(affinity_of(id).unwrap(), last);
        assert_eq!(affinity().unwrap(), mine, "only the other thread is confined");
        drop(end);
        assert_eq!(other.join().unwrap(), last);
        let nobody = affinity_of(i32::MAX).unwrap_err();
        assert_eq!(nobody.raw_os_error(), Some(libc::ESRCH));
        let nobody = set_affinity_of(i32::MAX, &mine).unwrap_err();
        assert_eq!(nobody.raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn the_smaller_limit_wins() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(usable_cpus_under(folder.path(), 0), 1);
        assert_eq!(usable_cpus_under(folder.path(), 6), 6);
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/self/cgroup", "0::/\n");
        write("proc/self/mountinfo", "29 23 0:26 / /cg rw - cgroup2 none rw\n");
        write("cg/cpu.max", "350000 100000\n");
        assert_eq!(usable_cpus_under(folder.path(), 6), 4);
        assert_eq!(usable_cpus_under(folder.path(), 3), 3);
    }

    #[test]
    fn names_are_truncated_to_the_kernels_limit() {
        std::thread::spawn(|| {
            for (name, kept) in [
                ("io-3", "io-3"),
                ("a-name-much-too-long", "a-name-much-too"),
                ("fourteen-bytesé", "fourteen-bytes"),
                ("nul\0inside", "nul"),
                ("", ""),
            ] {
                set_thread_name(name);
                assert_eq!(thread_name(), kept);
            }
        })
        .join()
        .unwrap();
    }
}
