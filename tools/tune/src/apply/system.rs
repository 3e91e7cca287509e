//! The machine as `apply`, `verify` and `revert` see it: files and masks of threads.
//!
//! It is a trait so that a test can interrupt an operation at every single step, which needs a
//! machine that fails on demand. Paths are relative to the root of the machine, `proc/...` and
//! `sys/...`, so a folder of fixtures can replace it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use weft_base::cpulist::CpuSet;
use weft_base::topology;

/// Reads and changes a machine. Errors are those of the kernel.
pub trait System {
    /// Reads a whole file.
    fn read(&self, path: &str) -> io::Result<String>;

    /// The names in a folder, in any order.
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// The target of a symbolic link.
    fn link(&self, path: &str) -> io::Result<PathBuf>;

    /// The CPUs a thread may run on.
    fn affinity(&self, thread: u32) -> io::Result<CpuSet>;

    /// Replaces the value of an existing file, in one call of write(2), as the kernel's files
    /// require.
    fn write(&mut self, path: &str, text: &str) -> io::Result<()>;

    /// Sets the CPUs of a thread.
    fn confine(&mut self, thread: u32, cpus: &CpuSet) -> io::Result<()>;
}

/// The machine on which this program runs.
#[derive(Debug)]
pub struct Real {
    root: PathBuf,
}

impl Real {
    /// With its files below `/`.
    pub fn new() -> Real {
        Real::at(Path::new("/"))
    }

    /// With its files elsewhere: for reading another machine, whose threads have no masks here.
    pub fn at(root: &Path) -> Real {
        Real { root: root.to_path_buf() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(Path::new(path))
    }
}

impl System for Real {
    fn read(&self, path: &str) -> io::Result<String> {
        let bytes = fs::read(self.path(path))?;
        // Names of threads may contain anything.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.path(path))?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn link(&self, path: &str) -> io::Result<PathBuf> {
        fs::read_link(self.path(path))
    }

    fn affinity(&self, thread: u32) -> io::Result<CpuSet> {
        topology::affinity_of(kernel_id(thread)?)
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        let mut file = File::options().write(true).open(self.path(path))?;
        file.write_all(format!("{text}\n").as_bytes())
    }

    fn confine(&mut self, thread: u32, cpus: &CpuSet) -> io::Result<()> {
        topology::set_affinity_of(kernel_id(thread)?, cpus)
    }
}

/// The id in the kernel's form. 0 would mean the calling thread, which no caller wants.
fn kernel_id(thread: u32) -> io::Result<i32> {
    match i32::try_from(thread) {
        Ok(id) if id > 0 => Ok(id),
        Ok(_) | Err(_) => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
}
