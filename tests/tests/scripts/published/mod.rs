//! Published vulnerabilities of Redis and Valkey that clients reach with scripts, functions and payloads, each tried
//! on a server that others use. `docs/design/threat-model.md` lists them.
//!
//! The interpreter alone: `crates/script/src/lua/interpreter/tests/hostile.rs`.

mod blocked;
mod commands;
mod keys;
mod payloads;
mod sandbox;
mod users;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::scene::client;

/// The view of a script: the names in its tables, and functions that an attack may have replaced.
const GLOBALS: &str = "local names = {}
    for _, table_name in ipairs({'_G', 'string', 'table', 'math', 'redis', 'cjson', 'cmsgpack', 'struct', 'bit'}) do
      for key, value in pairs(_G[table_name] or _G) do
        names[#names + 1] = table_name .. '.' .. tostring(key) .. ':' .. type(value)
      end
    end
    table.sort(names)
    return {table.concat(names, ' '), ('x'):upper(), cjson.encode({1}), type(getmetatable('')), tostring(rawget(_G, 'x')),
      #redis.sha1hex('')}";

/// Ends the bystander when the attack has ended, also by a panic.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sets and gets a key of its own.
fn write_and_read(client: &mut Client) {
    client.ok(&["SET", "{bystander}k", "v"]);
    assert_eq!(client.cmd(&["STRLEN", "{bystander}k"]).int(), 1);
}

/// Attacks a server while another client uses it. The server must continue, and scripts have the same view as before
/// on each thread.
#[track_caller]
fn withstand(args: &[&str], attack: impl FnOnce(&Server, &mut Client)) {
    withstand_beside(args, write_and_read, attack);
}

/// As [`withstand`], with another client that does `use_server` again and again.
#[track_caller]
fn withstand_beside(
    args: &[&str],
    use_server: fn(&mut Client),
    attack: impl FnOnce(&Server, &mut Client),
) {
    let base = ["--io-threads", "2", "--io-threads-always-active", "yes"];
    let mut server = Server::weft(&[&base[..], args].concat());
    let before = client(&server).cmd(&["EVAL", GLOBALS, "0"]).to_string();
    let is_over = AtomicBool::new(false);
    // Connected before the attack, which may set a password.
    let mut bystander = client(&server);
    use_server(&mut bystander);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                use_server(&mut bystander);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let _end = SetOnDrop(&is_over);
        attack(&server, &mut client(&server));
    });
    assert!(server.is_alive(), "{}", server.log_tail());
    for _ in 0..4 {
        assert_eq!(client(&server).cmd(&["EVAL", GLOBALS, "0"]).to_string(), before);
    }
    let log = server.log();
    assert!(!log.contains("panicked"), "{}", server.log_tail());
}

/// Checks that the next reply is that of the next command: no reply had another one inside.
#[track_caller]
fn check_order(client: &mut Client, after: &str) {
    assert_eq!(client.cmd(&["ECHO", "in order"]).text(), "in order", "after {after}");
}
