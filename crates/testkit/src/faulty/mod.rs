//! A real server on a disk that fails on demand.
//!
//! A small library (`calls.c`, compiled by the test) is preloaded into the server. It intercepts the
//! calls that write, sync, rename, open, truncate and remove files. A file lists the failures, and may
//! change at any time:
//!
//! ```text
//! sync .incr. 5 1 1             the first sync of an increment fails with EIO (5)
//! write any 28 3 1000000        from the third write on there is no space (ENOSPC, 28)
//! write any half 2 2            the second write takes half of its bytes
//! sync base stall 1 1           syncs of a base wait as long as the line is present
//! sync base hold 1 1            the first sync of a base waits until the file changes
//! ```
//!
//! `calls.c` documents the words. A line counts its calls from the last change of the file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::{Server, locate};

/// A disk that fails on demand, for one server at a time.
#[derive(Debug)]
pub struct FaultyDisk {
    folder: TempDir,
    program: PathBuf,
}

impl FaultyDisk {
    /// A disk that works until [`FaultyDisk::fails`]. Returns `None` with a note if there is no
    /// compiler or the server doesn't load libraries.
    ///
    /// # Panics
    /// If there is a compiler but the library doesn't compile.
    #[track_caller]
    pub fn new() -> Option<FaultyDisk> {
        let folder = TempDir::with_prefix("weft-faulty-").expect("a temporary folder");
        let (source, library) = (folder.path().join("calls.c"), folder.path().join("calls.so"));
        fs::write(&source, include_str!("calls.c")).expect("room");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .args(["-ldl", "-lpthread"])
            .output();
        let Ok(compiled) = compiled else {
            crate::skipped::note_here("no C compiler");
            return None;
        };
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let program = folder.path().join("server");
        let script = format!(
            "#!/bin/sh\nexec env LD_PRELOAD='{}' FAULTS='{}' '{}' \"$@\"\n",
            library.display(),
            folder.path().join("faults").display(),
            locate::weft().display()
        );
        // A separate process writes the script: a file that this process has open for writing can't
        // be executed, and another test may start its server at that moment.
        let made = Command::new("sh")
            .args(["-c", "printf %s \"$1\" > \"$0\" && chmod +x \"$0\""])
            .arg(&program)
            .arg(&script)
            .status();
        assert!(made.is_ok_and(|status| status.success()), "no script was written");
        let disk = FaultyDisk { folder, program };
        if disk.reaches_the_server() {
            return Some(disk);
        }
        crate::skipped::note_here("nothing can be preloaded into this server");
        None
    }

    /// Whether the library intercepts the server's calls.
    fn reaches_the_server(&self) -> bool {
        let server = self.server(&[]);
        self.fails("sync any 5 1 1");
        let refused = server.client().cmd(&["SAVE"]).error().is_some();
        self.works();
        refused && self.hits() > 0
    }

    /// A server on this disk, with these arguments.
    #[track_caller]
    pub fn server(&self, args: &[&str]) -> Server {
        Server::start("weft", &self.program, args)
    }

    /// A server on this disk that reads its configuration from a file.
    ///
    /// # Panics
    /// If the script can't be written.
    #[track_caller]
    pub fn server_with_file(&self, file: &Path) -> Server {
        // The file precedes all other arguments. A separate process writes the script, as above.
        let script = self.folder.path().join("server-with-file");
        let (program, file) = (self.program.display(), file.display());
        let text = format!("#!/bin/sh\nexec '{program}' '{file}' \"$@\"\n");
        let made = Command::new("sh")
            .args(["-c", "printf %s \"$1\" > \"$0\" && chmod +x \"$0\""])
            .arg(&script)
            .arg(&text)
            .status();
        assert!(made.is_ok_and(|status| status.success()), "no script was written");
        Server::start("weft", &script, &[])
    }

    fn control(&self) -> PathBuf {
        self.folder.path().join("faults")
    }

    /// From now on these lines decide which calls fail; counters begin at zero.
    ///
    /// # Panics
    /// If the file can't be written.
    pub fn fails(&self, lines: &str) {
        let _ = fs::remove_file(self.hits_file());
        let next = self.folder.path().join("next");
        fs::write(&next, lines).expect("room");
        // By a rename, since the server may read the file at any time.
        fs::rename(&next, self.control()).expect("renamed");
    }

    /// From now on nothing fails.
    ///
    /// # Panics
    /// If the file can't be removed.
    pub fn works(&self) {
        fs::remove_file(self.control()).expect("it was there");
    }

    fn hits_file(&self) -> PathBuf {
        self.folder.path().join("faults.hits")
    }

    /// Calls that have failed since [`FaultyDisk::fails`]; a delayed call counts once.
    pub fn hits(&self) -> usize {
        self.told().lines().count()
    }

    /// The same, a line for each: the call, its failure, the path.
    pub fn told(&self) -> String {
        fs::read_to_string(self.hits_file()).unwrap_or_default()
    }
}
