//! `valkey-cli --cluster`, the tool of operators.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{locate, skipped};

/// How long a command may take before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(240);

/// The output of a command, and whether it succeeded.
#[derive(Clone, Debug)]
pub struct Printed {
    pub command: String,
    pub is_ok: bool,
    pub text: String,
}

impl Printed {
    /// # Panics
    /// If the command has failed.
    #[track_caller]
    pub fn expect_ok(self) -> String {
        assert!(self.is_ok, "{} failed:\n{}", self.command, self.text);
        self.text
    }

    /// # Panics
    /// If the command has succeeded.
    #[track_caller]
    pub fn expect_failure(self) -> String {
        assert!(!self.is_ok, "{} succeeded:\n{}", self.command, self.text);
        self.text
    }
}

/// The program.
#[derive(Clone, Debug)]
pub struct Cli(PathBuf);

impl Cli {
    /// `None`, with a note, if it isn't installed.
    pub fn find() -> Option<Cli> {
        let found = locate::peer("valkey-cli").map(Cli);
        if found.is_none() {
            skipped::note_here("no valkey-cli in PEERS_BIN or PATH");
        }
        found
    }

    /// Starts `valkey-cli --cluster ARGS`.
    #[track_caller]
    pub fn begin(&self, args: &[&str]) -> Running {
        let output = tempfile::tempfile().expect("a temporary file");
        let child = Command::new(&self.0)
            .arg("--cluster")
            .args(args)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a descriptor"))
            .stderr(output.try_clone().expect("a descriptor"))
            .spawn()
            .expect("valkey-cli starts");
        Running { child, output, command: format!("valkey-cli --cluster {}", args.join(" ")) }
    }

    /// Runs `valkey-cli --cluster ARGS` to its end.
    ///
    /// # Panics
    /// If it hangs.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Printed {
        self.begin(args).wait()
    }
}

/// A command that runs. Killed on drop.
pub struct Running {
    child: Child,
    output: File,
    command: String,
}

impl Running {
    /// Waits for the end.
    ///
    /// # Panics
    /// If it doesn't come.
    #[track_caller]
    pub fn wait(mut self) -> Printed {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                let (command, text) = (self.command.clone(), self.printed());
                return Printed { command, is_ok: status.success(), text };
            }
            assert!(begin.elapsed() < PATIENCE, "{} hangs:\n{}", self.command, self.printed());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The output so far.
    pub fn printed(&self) -> String {
        use std::os::unix::fs::FileExt;
        let mut bytes = Vec::new();
        let mut chunk = [0; 8192];
        while let Ok(n) = self.output.read_at(&mut chunk, bytes.len() as u64)
            && n > 0
        {
            bytes.extend_from_slice(&chunk[..n]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Ends it as a crash does.
    pub fn kill(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.printed()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
