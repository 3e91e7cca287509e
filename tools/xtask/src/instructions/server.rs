//! The server under callgrind.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::script::Connection;

/// Attempts to connect, 50 ms apart: the server starts some fifty times slower than usual.
const ASKS: usize = 1200;

/// No background work: no allocator thread, and no pages returned by time.
const ALLOCATOR: &str = "background_thread:false,dirty_decay_ms:-1,thp:default";

/// A running server. Killed on drop.
pub struct Server {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Server {
    /// Starts `program` with one I/O thread.
    pub fn start(program: &Path) -> io::Result<Server> {
        if !program.is_file() {
            let why =
                format!("{} is not there: cargo build --release -p weft-server", program.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        let folder = std::env::temp_dir().join(format!("weft-instructions-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new("valgrind")
            .arg("--tool=callgrind")
            .arg(format!("--callgrind-out-file={}", folder.join("out").display()))
            // Only the sum is needed.
            .args(["--separate-threads=no", "--compress-strings=yes", "--quiet"])
            .arg(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--io-threads", "1", "--hz", "1", "--enable-debug-command", "yes"])
            .env("MALLOC_CONF", ALLOCATOR)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|e| io::Error::new(e.kind(), format!("valgrind: {e}")))?;
        let mut server = Server { child, port, folder };
        for _ in 0..ASKS {
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!("the server has ended: {status}")));
            }
            if let Ok(mut connection) = server.connect() {
                // Periodic work would be counted more often on a slow machine.
                connection.exchange(&["DEBUG PAUSE-CRON 1".to_string()])?;
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not answer"))
    }

    /// A connection that the server serves.
    pub fn connect(&self) -> io::Result<Connection> {
        let mut connection = Connection::open(self.port)?;
        connection.exchange(&["PING".to_string()])?;
        Ok(connection)
    }

    /// Resets the counts.
    pub fn zero(&self) -> io::Result<()> {
        self.control("zero")
    }

    /// Instructions since [`Server::zero`], of all threads.
    pub fn count(&self) -> io::Result<u64> {
        self.control("dump")?;
        // `out.1`, `out.2` ... in the order of dumps; each one's totals are in its last lines.
        let mut total = None;
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.starts_with("out.") {
                continue;
            }
            let text = std::fs::read_to_string(&path)?;
            let found = text.lines().rev().find_map(|line| {
                line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:"))
            });
            total = found.and_then(|number| number.trim().parse().ok()).or(total);
            std::fs::remove_file(&path)?;
        }
        total.ok_or_else(|| io::Error::other("callgrind has written no totals"))
    }

    /// Sends callgrind a command. Not through its script, which finds the process by name.
    fn control(&self, what: &str) -> io::Result<()> {
        let output = Command::new("vgdb")
            .arg(format!("--pid={}", self.child.id()))
            .arg(what)
            .stdin(Stdio::null())
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("vgdb {what}: {why}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
