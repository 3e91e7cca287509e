//! The text of a crash report, written piece by piece straight to a descriptor.

use super::{PROGRAM, current_command};
use crate::sys::{self, FixedText};
use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::sync::OnceLock;

/// More frames than this are not followed; an endless recursion has plenty.
const MAX_FRAMES: usize = 64;

/// A fault this close to the stack pointer is taken for an exhausted stack, in bytes.
const NEAR_STACK: usize = 64 * 1024;

/// Address range of the executable. With it, offsets can be looked up in a file
/// that has debug information even if the crashed one had none.
static EXECUTABLE: OnceLock<(usize, usize)> = OnceLock::new();

/// The kernel's description of a crash.
pub(super) struct Crash {
    signal: c_int,
    code: c_int,
    fault_address: Option<usize>,
    registers: Registers,
}

/// The registers that say where the thread was. All others may hold data, the frame
/// pointer too, which compilers use like any other register.
struct Registers {
    program_counter: usize,
    stack_pointer: usize,
}

impl Crash {
    /// # Safety
    /// The pointers must be those that the kernel passed to a handler with SA_SIGINFO.
    pub(super) unsafe fn from_handler(
        signal: c_int,
        info: *const libc::siginfo_t,
        context: *const c_void,
    ) -> Self {
        // SAFETY: valid, says the caller.
        let info = unsafe { &*info };
        let has_address = matches!(signal, libc::SIGSEGV | libc::SIGBUS) && info.si_code > 0;
        Self {
            signal,
            code: info.si_code,
            // SAFETY: for these signals, when sent by the kernel (a positive code), the
            // union holds an address.
            fault_address: has_address.then(|| unsafe { info.si_addr() } as usize),
            // SAFETY: the third argument of such a handler is a ucontext_t.
            registers: unsafe { &*context.cast::<libc::ucontext_t>() }.into(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl From<&libc::ucontext_t> for Registers {
    fn from(context: &libc::ucontext_t) -> Self {
        let register = |index: c_int| context.uc_mcontext.gregs[index as usize] as usize;
        Self { program_counter: register(libc::REG_RIP), stack_pointer: register(libc::REG_RSP) }
    }
}

#[cfg(target_arch = "aarch64")]
impl From<&libc::ucontext_t> for Registers {
    fn from(context: &libc::ucontext_t) -> Self {
        let machine = &context.uc_mcontext;
        Self { program_counter: machine.pc as usize, stack_pointer: machine.sp as usize }
    }
}

/// Looks up where the executable is mapped, while reading files is still harmless.
pub(super) fn remember_modules() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        return;
    };
    let name = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let name = name.to_string_lossy();
    let ranges = maps.lines().filter(|line| line.ends_with(&*name)).filter_map(|line| {
        let (start, rest) = line.split_once('-')?;
        let end = rest.split(' ').next()?;
        let number = |hex| usize::from_str_radix(hex, 16).ok();
        Some((number(start)?, number(end)?))
    });
    if let Some(range) = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) {
        let _ = EXECUTABLE.set(range);
    }
}

pub(super) fn program() -> &'static str {
    PROGRAM.get().copied().unwrap_or("weft")
}

pub(super) fn begin(fd: c_int) {
    put(fd, format_args!("\n\n=== WEFT BUG REPORT START: Cut & paste starting from here ===\n"));
}

pub(super) fn end(fd: c_int) {
    put(
        fd,
        format_args!("\n=== WEFT BUG REPORT END. Make sure to include from START to END. ===\n\n"),
    );
}

/// The thread and what it was doing.
pub(super) fn write_thread(fd: c_int) {
    let name = thread_name();
    let name = CStr::from_bytes_until_nul(&name).map_or("?", |n| n.to_str().unwrap_or("?"));
    put(fd, format_args!("Process: {}, thread: {} {name}\n", sys::pid(), sys::thread_id()));
    put(fd, format_args!("Command: {}\n", current_command().unwrap_or("none")));
}

/// Writes the whole report.
pub(super) fn write(fd: c_int, crash: &Crash) {
    begin(fd);
    let Crash { signal, code, registers, .. } = crash;
    let name = signal_name(*signal);
    put(
        fd,
        format_args!(
            "{}:signal-handler ({}) {} crashed by signal: {signal} ({name}), si_code: {code}\n",
            sys::pid(),
            sys::unix_seconds(),
            program(),
        ),
    );
    if let Some(address) = crash.fault_address {
        put(fd, format_args!("Accessing address: {address:#x}\n"));
        if address.abs_diff(registers.stack_pointer) < NEAR_STACK {
            put(fd, format_args!("This is near the stack pointer: the stack may be exhausted.\n"));
        }
    }
    let pc = registers.program_counter;
    put(fd, format_args!("Crashed running the instruction at: {pc:#x}\n"));
    write_thread(fd);
    put(fd, format_args!("\n------ REGISTERS ------\n"));
    let sp = registers.stack_pointer;
    put(fd, format_args!("PC:{pc:#018x} SP:{sp:#018x}\n"));
    write_backtrace(fd, pc);
    end(fd);
}

/// Addresses first, for everything after them may fail; then names.
fn write_backtrace(fd: c_int, program_counter: usize) {
    let mut frames = [0usize; MAX_FRAMES];
    let mut count = 0;
    // SAFETY: "unsynchronized" demands that no other code uses the `backtrace` crate meanwhile.
    // Only this file does, and of all threads only the one that won
    // `REPORTER` gets here, once. The synchronized variant allocates for its lock.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            frames[count] = frame.ip() as usize;
            count += 1;
            count < MAX_FRAMES
        });
    }
    let frames = &frames[..count];
    // The frames above the crash are this handler's.
    let first = frames.iter().position(|&ip| ip == program_counter).unwrap_or(0);
    let frames = &frames[first..];

    put(fd, format_args!("\n------ STACK TRACE ------\n"));
    for (number, &ip) in frames.iter().enumerate() {
        match EXECUTABLE.get() {
            Some(&(start, end)) if (start..end).contains(&ip) => {
                put(fd, format_args!("#{number} {ip:#x} (+{:#x})\n", ip - start));
            }
            Some(_) | None => put(fd, format_args!("#{number} {ip:#x}\n")),
        }
    }
    put(fd, format_args!("\n------ STACK TRACE WITH NAMES ------\n"));
    for (number, &ip) in frames.iter().enumerate() {
        // A return address may be the first instruction of the next function; the call
        // itself is before it. The address of the crash itself is exact.
        let address = if number == 0 { ip } else { ip.saturating_sub(1) };
        // SAFETY: as above.
        unsafe {
            backtrace::resolve_unsynchronized(address as *mut c_void, |symbol| {
                write_symbol(fd, number, symbol);
            });
        }
    }
    put(fd, format_args!("------ STACK TRACE DONE ------\n"));
}

fn write_symbol(fd: c_int, number: usize, symbol: &backtrace::Symbol) {
    match symbol.name() {
        Some(name) => put(fd, format_args!("#{number} {name}")),
        None => put(fd, format_args!("#{number} ?")),
    }
    // Only the file's own name, the function's says where it belongs.
    let file = symbol.filename().and_then(|path| path.file_name()?.to_str());
    if let (Some(file), Some(line)) = (file, symbol.lineno()) {
        put(fd, format_args!(" {file}:{line}"));
    }
    put(fd, format_args!("\n"));
}

/// Writes one piece; at most 1 KiB of it.
pub(super) fn put(fd: c_int, text: fmt::Arguments<'_>) {
    sys::write_all(fd, FixedText::<1024>::format(text).as_bytes());
}

fn signal_name(signal: c_int) -> &'static str {
    match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        _ => "?",
    }
}

/// The thread's name, NUL-terminated.
fn thread_name() -> [u8; 17] {
    let mut name = [0; 17];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr(), 0, 0, 0) };
    name
}
