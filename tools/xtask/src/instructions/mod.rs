//! `cargo xtask instructions`: checks that requests don't cost more instructions.
//!
//! Times depend on the machine and its other work; the number of instructions that the server
//! executes for a request does not. So a test can check it: the release build runs under callgrind,
//! with one I/O thread, and gets fixed requests over a socket as from any client. The count is
//! user-space instructions of the whole process: reading, parsing, executing and writing.
//!
//! ```text
//!  script.rs   requests, pipelines, replies skipped          (one write, all replies, next write)
//!  server.rs   the server under callgrind; counts between two points
//!  table.rs    benches/instructions.tsv: earlier counts, and the tolerance
//! ```
//!
//! A count is made for two lengths, and the difference is divided by the difference of lengths. So
//! everything that doesn't depend on the length cancels, above all the commands of the measurement.
//! Kernel work and stalls don't count: a request can become slower with fewer instructions. The
//! benchmarks measure that.

mod script;
mod server;
mod table;

use std::io;
use std::path::{Path, PathBuf};

use script::{Connection, KINDS, Kind};
use server::Server;
use table::{Table, Verdict};

const FILE: &str = "benches/instructions.tsv";
const DEPTHS: [usize; 2] = [1, 16];
/// The most attempts to measure a count that is too high.
const ATTEMPTS: usize = 5;
/// The two numbers of requests, at any depth.
const LENGTHS: [usize; 2] = [1600, 4800];

/// The task that the arguments name.
pub struct Task {
    program: PathBuf,
    /// Changed rows get this reason and their new count.
    reason: Option<String>,
}

impl Task {
    /// `[--write REASON]`; the server is `WEFT_SERVER`, else the release build.
    pub fn from_args(root: &Path, mut args: impl Iterator<Item = String>) -> Result<Task, String> {
        let program = std::env::var_os("WEFT_SERVER")
            .map_or_else(|| root.join("target/release/weft-server"), PathBuf::from);
        let reason = match args.next().as_deref() {
            None => None,
            Some("--write") => Some(args.next().ok_or("--write needs a reason")?),
            Some(other) => return Err(format!("unknown argument {other}")),
        };
        Ok(Task { program, reason })
    }

    /// Measures and compares; returns whether no count has risen too far.
    pub fn run(&self, root: &Path) -> io::Result<bool> {
        let path = root.join(FILE);
        let mut table = Table::parse(&std::fs::read_to_string(&path).unwrap_or_default())
            .map_err(|why| io::Error::other(format!("{FILE}: {why}")))?;
        let server = Server::start(&self.program)?;
        let mut connection = server.connect()?;
        let (mut risen, mut fallen) = (0, 0);
        println!("{:>10} {:>5} {:>10} {:>10} {:>8}", "request", "depth", "before", "now", "change");
        for kind in KINDS {
            for depth in DEPTHS {
                let before = table.count(kind.name, depth);
                let mut now = measure(&server, &mut connection, kind, depth)?;
                // A thread polls for input more often while the client has no CPU: other processes
                // can only add to the count.
                for _ in 1..ATTEMPTS {
                    if !matches!(Verdict::of(before, now), Verdict::Risen(_)) {
                        break;
                    }
                    now = now.min(measure(&server, &mut connection, kind, depth)?);
                }
                let verdict = Verdict::of(before, now);
                println!(
                    "{:>10} {depth:>5} {:>10} {now:>10.0} {verdict}",
                    kind.name,
                    before.map_or("-".to_string(), |n| n.to_string()),
                );
                match verdict {
                    Verdict::Risen(_) | Verdict::New => risen += 1,
                    Verdict::Fallen(_) => fallen += 1,
                    Verdict::Same(_) => continue,
                }
                if let Some(reason) = &self.reason {
                    table.set(kind.name, depth, now.round() as u64, reason);
                }
            }
        }
        if self.reason.is_some() {
            std::fs::write(&path, table.to_string())?;
            println!("{FILE}: {} rows written", risen + fallen);
            return Ok(true);
        }
        if fallen > 0 {
            println!("{fallen} fewer than before: keep it so with --write REASON");
        }
        if risen > 0 {
            eprintln!(
                "{risen} counts are more than {} % above {FILE}, or not in it. Where that is the \
                 price of something worth it, say what: cargo xtask instructions --write REASON",
                table::TOLERANCE
            );
        }
        Ok(risen == 0)
    }
}

/// Instructions for one request of `kind` among `depth` of one write.
fn measure(
    server: &Server,
    connection: &mut Connection,
    kind: &Kind,
    depth: usize,
) -> io::Result<f64> {
    connection.prepare(kind)?;
    // Fills buffers, tables and branch predictors.
    connection.send(kind, depth, LENGTHS[0])?;
    let mut counts = [0u64; 2];
    for (count, length) in counts.iter_mut().zip(LENGTHS) {
        connection.prepare(kind)?;
        server.zero()?;
        connection.send(kind, depth, length)?;
        *count = server.count()?;
    }
    Ok((counts[1] as f64 - counts[0] as f64) / (LENGTHS[1] - LENGTHS[0]) as f64)
}
