//! Idle mode: opens connections and keeps them, to measure the cost of idle clients.

use std::io::{ErrorKind, IsTerminal, Write};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use crate::options::Options;
use crate::run::plain;
use crate::session::Session;
use crate::stream::{INPUT, NonBlocking};
use crate::suite::Suite;

/// Waits with open connections until one of them is closed.
///
/// # Errors
/// Always, with the final state of the connections.
pub fn wait(session: &mut Session, options: &Options, suite: &Suite) -> Result<(), String> {
    println!(
        "Creating {} idle connections and waiting forever (Ctrl+C when done)",
        options.clients
    );
    let _ = std::io::stdout().flush();
    // Exactly that many connections.
    session.cpu = None;
    let plan = session.plan(options, suite, suite.preload(), 1);
    let mut streams: Vec<NonBlocking> =
        session.connect(&plan, options.clients)?.into_iter().flatten().map(|(s, _)| s).collect();
    let failed = |e: rustix::io::Errno| format!("Error: epoll: {}", plain(&e.into()));
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
    for (i, stream) in streams.iter().enumerate() {
        let data = epoll::EventData::new_u64(i as u64);
        epoll::add(&epoll, stream, data, epoll::EventFlags::IN).map_err(failed)?;
    }
    if std::io::stdout().is_terminal() {
        print!("clients: {}\r", options.clients);
        let _ = std::io::stdout().flush();
    }
    let (mut events, mut input) = (Vec::with_capacity(1), vec![0; INPUT]);
    loop {
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(failed(e)),
        }
        for event in events.drain(..) {
            match streams[event.data.u64() as usize].recv(&mut input) {
                // Over TLS a server sends more than replies, for example tickets.
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => return Err("Error: Server closed the connection".to_string()),
            }
        }
    }
}
