//! Finds the programs: the server under test and the servers to compare it with.
//!
//! | program | found by |
//! |---|---|
//! | `weft-server` | `WEFT_SERVER`; else, under cargo, built with the profile and target folder of the running test; else the one in the folder of the test |
//! | peers | the folder in `PEERS_BIN`, else `PATH` |
//! | `etcd` | `ETCD_BIN`, the program or its folder; else as the peers; else `PATH` |
//!
//! Why build: `cargo test -p weft-tests` does not build the binary of another package, and would test an old binary.
//! Asking cargo costs a few tenths of a second when nothing has changed, and prevents that. A lock file keeps test
//! programs that start at the same time from asking together.
//!
//! Cargo builds a binary for the integration tests of its package. So the request is for such a test (`command_line`),
//! of the whole workspace: then the binary has the features that it has in `cargo test --workspace`, and a run of all
//! tests builds it once. `cargo build --package weft-server` would compile every crate a second time.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock};

/// The server under test.
///
/// # Panics
/// If there is no server and it can't be built.
pub fn weft() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| match env::var_os("WEFT_SERVER") {
        Some(path) => {
            let path = PathBuf::from(path);
            assert!(path.is_file(), "WEFT_SERVER={} is not a file", path.display());
            path
        }
        None => build_server(),
    })
}

/// `target/<profile>` of the running test, whose own folder is `deps` in it.
fn profile_dir() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own path");
    let dir = test.parent().expect("a file has a folder");
    match dir.ends_with("deps") || dir.ends_with("examples") {
        true => dir.parent().expect("deps is in a profile's folder").to_path_buf(),
        false => dir.to_path_buf(),
    }
}

fn build_server() -> PathBuf {
    let dir = profile_dir();
    let server = dir.join("weft-server");
    let Some(cargo) = env::var_os("CARGO") else {
        assert!(server.is_file(), "no WEFT_SERVER, no cargo, and no {}", server.display());
        return server;
    };
    let profile = match dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let lock =
        File::create(dir.join(".weft-server-build.lock")).expect("the target folder is writable");
    // The lock is released when the file is closed, on every path out of this function.
    flock(&lock, FlockOperation::LockExclusive).expect("files can be locked");
    let output = without_package(&mut Command::new(cargo))
        .args(["test", "--workspace", "--no-run", "--quiet"])
        .args(["--test", "command_line", "--profile", profile])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .arg("--target-dir")
        .arg(dir.parent().expect("a profile's folder is in the target folder"))
        .stdin(Stdio::null())
        .output()
        .expect("cargo runs");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "weft-server does not build:\n{report}");
    server
}

/// Removes the variables that describe the package of a test. The build script of ring reads them as its own: each package's tests would
/// build ring, and all that depends on it, again.
fn without_package(command: &mut Command) -> &mut Command {
    let prefixes =
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_", "CARGO_PRIMARY_"];
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        {
            command.env_remove(name);
        }
    }
    command
}

/// A program of the peers, such as `valkey-server` or `valkey-cli`.
pub fn peer(program: &str) -> Option<PathBuf> {
    let dirs = match env::var_os("PEERS_BIN") {
        Some(dirs) => dirs,
        None => env::var_os("PATH")?,
    };
    env::split_paths(&dirs).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// A program of the system, such as `man`.
pub fn program(name: &str) -> Option<PathBuf> {
    let dirs = env::var_os("PATH")?;
    env::split_paths(&dirs).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// `valkey-server`, the reference of behaviour.
pub fn valkey() -> Option<PathBuf> {
    peer("valkey-server")
}

/// A Redis 8 server, installed as `redis8-server` so that it does not hide another Redis.
pub fn redis8() -> Option<PathBuf> {
    peer("redis8-server")
}

/// etcd, the store of a cluster.
pub fn etcd() -> Option<PathBuf> {
    let named = env::var_os("ETCD_BIN").map(PathBuf::from);
    let named = named.map(|path| if path.is_dir() { path.join("etcd") } else { path });
    named.filter(|path| path.is_file()).or_else(|| peer("etcd")).or_else(|| program("etcd"))
}
