//! Common setups: clients that fail instead of hanging, the same check on the server and on its
//! reference, clients known to be blocked, and a command known to be long.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weft_testkit::client::{describe, encode};
use weft_testkit::{Client, Server, Value};

/// How long a reply may take before the server counts as hung. It is not a performance limit.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A client that fails if a reply takes longer than [`PATIENCE`].
pub fn client(server: &Server) -> Client {
    let mut client = server.client();
    client.set_timeout(PATIENCE);
    client
}

/// Sends a command without reading its reply.
#[track_caller]
pub fn send<A: AsRef<[u8]>>(client: &mut Client, args: &[A]) {
    client.send_raw(&encode(args)).unwrap_or_else(|e| panic!("{}: {e}", describe(args)));
}

/// Sends several commands in one write without reading their replies.
#[track_caller]
pub fn send_all(client: &mut Client, commands: &[&[&str]]) {
    let bytes: Vec<u8> = commands.iter().flat_map(|args| encode(args)).collect();
    client.send_raw(&bytes).expect("the server reads");
}

/// The text of a command's reply, also of an error.
#[track_caller]
pub fn reply_text<A: AsRef<[u8]>>(client: &mut Client, args: &[A]) -> String {
    let value = client.cmd(args);
    value.error().unwrap_or_else(|| value.text())
}

/// Reads the next reply.
///
/// # Panics
/// If none comes: the server hangs, or it has closed the connection.
#[track_caller]
pub fn reply(client: &mut Client) -> Value {
    match client.read_reply() {
        Ok(reply) => reply.value,
        Err(e) => panic!("no reply: {e}"),
    }
}

/// The reply that comes within `wait`, if any. Shows whether a client is still blocked.
///
/// # Panics
/// If the connection ends.
#[track_caller]
pub fn reply_within(client: &mut Client, wait: Duration) -> Option<Value> {
    client.set_timeout(wait);
    let got = client.read_reply();
    client.set_timeout(PATIENCE);
    match got {
        Ok(reply) => Some(reply.value),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
        Err(e) => panic!("the connection ends: {e}"),
    }
}

/// The id of this client, for CLIENT KILL and CLIENT UNBLOCK.
#[track_caller]
pub fn id(client: &mut Client) -> String {
    client.cmd(&["CLIENT", "ID"]).int().to_string()
}

/// A number from INFO.
#[track_caller]
pub fn info(client: &mut Client, field: &str) -> u64 {
    let info = client.cmd(&["INFO", "everything"]).text();
    let found = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    found.and_then(|n| n.trim().parse().ok()).unwrap_or_else(|| panic!("no {field} in INFO"))
}

/// Waits until exactly `n` clients are blocked.
#[track_caller]
pub fn until_blocked(client: &mut Client, n: u64) {
    until(&format!("{n} clients are blocked"), || info(client, "blocked_clients") == n);
}

/// Waits until `is` returns true.
///
/// # Panics
/// If it is still false after [`PATIENCE`].
#[track_caller]
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < PATIENCE, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs `check` on the reference first, if it is installed, and then on the server under test. This
/// proves that the test expects what the reference does. `args` go to both servers, `weft` to the
/// server under test alone.
pub fn on_both(args: &[&str], weft: &[&str], check: impl Fn(&mut Server)) {
    match Server::valkey(args) {
        Some(mut valkey) => check(&mut valkey),
        None => weft_testkit::skipped::note_here("no valkey-server in PEERS_BIN or PATH"),
    }
    check(&mut Server::weft(&[args, weft].concat()));
}

/// Stops the slow lane from starting commands, for as long as the test needs. [`LongCommand`] keeps its
/// threads busy only for a limited time.
#[track_caller]
pub fn pause_slow_lane(client: &mut Client, is_on: bool) {
    client.ok(&["DEBUG", "PAUSE-SLOW-LANE", if is_on { "1" } else { "0" }]);
}

/// Waits until `n` commands are in the slow lane.
#[track_caller]
pub fn until_in_slow_lane(client: &mut Client, n: u64) {
    until(&format!("{n} commands are in the slow lane"), || info(client, "slow_lane_jobs") == n);
}

/// A shard that stays locked until released, by a MIGRATE to a socket that never answers. MIGRATE counts as a write:
/// CLIENT PAUSE WRITE takes effect at once but is answered after the release.
pub struct HeldShard {
    key: String,
    mover: Client,
    silent: TcpStream,
}

impl HeldShard {
    /// Locks the shard of the keys with this tag. Counts as one command in the slow lane.
    #[track_caller]
    pub fn with_tag(server: &Server, tag: &str) -> Self {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("a port").port().to_string();
        let key = format!("{{{tag}}}held");
        let mut mover = client(server);
        mover.ok(&["SET", &key, "v"]);
        send(&mut mover, &["MIGRATE", "127.0.0.1", &port, &key, "0", "600000"]);
        let (silent, _) = silent.accept().expect("the key is moved");
        HeldShard { key, mover, silent }
    }

    /// A string of the shard.
    pub fn key(&self) -> &str {
        &self.key
    }

    #[track_caller]
    pub fn release(mut self) {
        drop(self.silent);
        reply(&mut self.mover);
    }
}

/// A command that reads one set, takes long, locks a single shard and has a short reply.
pub struct LongCommand {
    set: String,
    /// How many times the command must name the set per second of work.
    per_second: f64,
}

impl LongCommand {
    /// A long command on the shard of this tag. It is calibrated by a run, so the server must be
    /// idle.
    #[track_caller]
    pub fn with_tag(server: &Server, tag: &str) -> LongCommand {
        const MEMBERS: usize = 20_000;
        const NAMED: usize = 200;
        let mut client = client(server);
        let set = format!("{{{tag}}}long");
        let members: Vec<String> = (0..MEMBERS).map(|n| format!("member:{n}")).collect();
        for part in members.chunks(1000) {
            let add = ["SADD", &set].into_iter().chain(part.iter().map(String::as_str));
            client.cmd(&add.collect::<Vec<_>>());
        }
        let mut long = LongCommand { set, per_second: 0.0 };
        let begin = Instant::now();
        assert_eq!(client.cmd(&long.command(NAMED)).int(), MEMBERS as i64);
        long.per_second = NAMED as f64 / begin.elapsed().as_secs_f64();
        long
    }

    fn command(&self, times: usize) -> Vec<String> {
        let head = ["SINTERCARD".to_string(), times.to_string()];
        head.into_iter().chain(std::iter::repeat_n(self.set.clone(), times)).collect()
    }

    /// The key that the command reads.
    pub fn key(&self) -> &str {
        &self.set
    }

    /// The command, sized for about this many seconds.
    pub fn request(&self, seconds: f64) -> Vec<String> {
        let times = ((self.per_second * seconds) as usize).clamp(10, 100_000);
        self.command(times)
    }

    /// Sends the command from a new client and waits until its shard is locked: until a request for
    /// the same key gets no answer. Doubles the length when the command ends too early.
    ///
    /// # Panics
    /// If no command keeps the shard busy for long enough.
    #[track_caller]
    pub fn begin(&self, server: &Server, seconds: f64) -> Client {
        for times in [1.0, 2.0, 4.0, 8.0] {
            let mut runner = client(server);
            send(&mut runner, &self.request(seconds * times));
            let mut probe = client(server);
            loop {
                send(&mut probe, &["EXISTS", &self.set]);
                if reply_within(&mut probe, Duration::from_millis(50)).is_none() {
                    return runner;
                }
                if reply_within(&mut runner, Duration::from_millis(1)).is_some() {
                    break;
                }
            }
        }
        panic!("the long command ended before the probe found its shard locked");
    }
}

/// CPU time of the slow lane's threads, in units of half a millisecond. A useless wake-up takes
/// less than a unit, and any slow command takes far more. The kernel's own ticks are too coarse.
///
/// # Panics
/// If the server does not run, or the kernel does not report the times.
pub fn slow_lane_cpu(server: &Server) -> u64 {
    const TICK_NS: u64 = 500_000;
    let tasks = format!("/proc/{}/task", server.pid());
    let threads = std::fs::read_dir(tasks).expect("the server runs").flatten();
    let ns = threads
        .filter(|thread| {
            let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            name.starts_with("weft-slow-")
        })
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok())
        .map(|stat| {
            let ns = stat.split(' ').next().unwrap_or_default();
            ns.parse::<u64>().expect("nanoseconds on a CPU")
        });
    ns.sum::<u64>() / TICK_NS
}
