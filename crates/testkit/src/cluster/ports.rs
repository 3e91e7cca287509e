//! Ports of cluster nodes: below the kernel's ephemeral range, so that no client socket takes one while its node is
//! down. The bus port is 10000 above, where tools expect it.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 10_100;
const RANGE: u16 = 12_000;
/// The distance of a node's bus port.
pub const BUS: u16 = 10_000;

/// A port that is free now, and whose bus port is, too. No two calls in a process get the same one.
pub fn node_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test programs that run at once start at different places.
    let start = (std::process::id() as u16).wrapping_mul(97) % RANGE;
    for _ in 0..RANGE {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % RANGE;
        let port = FIRST + (start + step) % RANGE;
        if is_free(port) && is_free(port + BUS) {
            return port;
        }
    }
    panic!("no free pair of ports");
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}
