//! A lower bound for the cost of a request on this machine: one epoll loop that reads, counts the
//! requests by their `*`, and replies to each with the same bytes. It parses nothing and stores
//! nothing. Benchmarks compare with it. Usage: `floor PORT`.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).and_then(|p| p.parse().ok()).unwrap_or(7000u16);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(u64::MAX), EventFlags::IN)?;
    let mut clients: HashMap<u64, TcpStream> = HashMap::new();
    let mut input = vec![0u8; 1 << 16];
    let mut events: Vec<Event> = Vec::with_capacity(1024);
    loop {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let token = event.data.u64();
            if token == u64::MAX {
                let (client, _) = listener.accept()?;
                client.set_nodelay(true)?;
                let token = client.as_raw_fd() as u64;
                epoll::add(&epoll, &client, EventData::new_u64(token), EventFlags::IN)?;
                clients.insert(token, client);
            } else if clients.get_mut(&token).is_none_or(|c| !serve(c, &mut input)) {
                clients.remove(&token);
            }
        }
    }
}

/// Replies to one client's input. Returns whether the client is still connected.
fn serve(client: &mut TcpStream, input: &mut [u8]) -> bool {
    let Ok(n @ 1..) = client.read(input) else { return false };
    let requests = input[..n].iter().filter(|b| **b == b'*').count();
    client.write_all(&b"+PONG\r\n".repeat(requests)).is_ok()
}
