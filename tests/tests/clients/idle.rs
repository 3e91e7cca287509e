//! An idle server takes no CPU, however many threads and connections it has.

use std::time::Duration;

use weft_testkit::{Client, Server};

const CONNECTIONS: usize = 200;
const WATCH: Duration = Duration::from_secs(3);

/// CPU seconds that all threads together may take during the test. A spinning thread takes all of
/// them, a thread that wakes every millisecond about a tenth. Ten housekeeping wake-ups a second
/// are below one tick of the kernel's accounting.
const CPU_SECONDS: f64 = 0.15;

#[test]
#[ignore = "long: cargo xtask test --all"]
fn idle_connections_take_no_cpu() {
    for threads in ["1", "2", "4", "8"] {
        let server = Server::weft(&["--io-threads", threads]);
        let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.client()).collect();
        // The clients were busy before: all mechanisms that adapt to load must calm down again.
        for client in &mut clients {
            let work: Vec<Vec<&str>> = (0..50).map(|_| vec!["INCR", "n"]).collect();
            assert_eq!(client.pipeline(&work).expect("answered").len(), 50);
        }
        std::thread::sleep(Duration::from_millis(500));
        let before = server.process().cpu();
        std::thread::sleep(WATCH);
        let after = server.process().cpu();
        let used = after.total() - before.total();
        assert!(
            used <= CPU_SECONDS,
            "io-threads {threads}: {used:.2} s of CPU while idle: {before:?} to {after:?}"
        );
        for client in &mut clients {
            assert_eq!(client.cmd(&["PING"]).text(), "PONG");
        }
    }
}
