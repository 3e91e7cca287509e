//! One connection of a generator thread: its requests in flight and its unsent bytes.

use std::collections::VecDeque;

use crate::skipper::{Skipper, Types};
use crate::stream::NonBlocking;
use crate::verify::Progress;

/// Requests sent together that wait for replies of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The time of sending or, in an open loop, the due time.
    pub due_ns: u64,
    pub left: u32,
    /// Index of the kind of request, or [`GREETING`].
    pub kind: u16,
    /// Outside of the warm-up.
    pub counted: bool,
    pub expect: Types,
}

/// The kind of the first commands of a connection.
pub const GREETING: u16 = u16::MAX;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The server has not accepted it yet.
    Connecting,
    /// The handshake of TLS is not done.
    Handshake,
    Open,
}

/// A connection.
#[derive(Debug)]
pub struct Conn {
    pub stream: NonBlocking,
    pub skipper: Skipper,
    flights: VecDeque<Flight>,
    in_flight: u64,
    /// Bytes that the socket did not take.
    pub unsent: Vec<u8>,
    /// The number of these bytes that it has taken since.
    pub sent: usize,
    pub phase: Phase,
    /// Registered for output.
    pub watched: bool,
    /// The index of its node in the cluster.
    pub node: usize,
    /// Requests in flight, byte for byte; only in cluster mode.
    pub requests: VecDeque<Vec<u8>>,
    /// Numbers of the keys in flight; only when content is verified.
    pub keys: VecDeque<u64>,
    pub progress: Progress,
}

impl Conn {
    pub fn new(stream: NonBlocking, phase: Phase, node: usize) -> Conn {
        Conn {
            stream,
            skipper: Skipper::default(),
            flights: VecDeque::new(),
            in_flight: 0,
            unsent: Vec::new(),
            sent: 0,
            phase,
            watched: false,
            node,
            requests: VecDeque::new(),
            keys: VecDeque::new(),
            progress: Progress::default(),
        }
    }

    /// Whether it waits for output.
    #[inline]
    pub fn wants_output(&self) -> bool {
        match self.phase {
            Phase::Connecting => true,
            Phase::Handshake | Phase::Open => !self.unsent.is_empty() || self.stream.holds_output(),
        }
    }

    /// Requests without a reply.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Notes requests that are sent now.
    #[inline]
    pub fn depart(&mut self, flight: Flight) {
        self.in_flight += u64::from(flight.left);
        match self.flights.back_mut() {
            Some(last) if Flight { left: last.left, ..flight } == *last => {
                last.left += flight.left;
            }
            _ => self.flights.push_back(flight),
        }
    }

    /// The request that the next reply is for.
    #[inline]
    pub fn next(&self) -> Option<&Flight> {
        self.flights.front()
    }

    /// A reply for the next request has arrived.
    #[inline]
    pub fn arrive(&mut self) {
        self.in_flight -= 1;
        if let Some(flight) = self.flights.front_mut() {
            flight.left -= 1;
            if flight.left == 0 {
                self.flights.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(due_ns: u64, left: u32) -> Flight {
        Flight { due_ns, left, kind: 0, counted: true, expect: Types::ANY }
    }

    #[test]
    fn requests_of_a_kind_share_a_flight() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut conn = Conn::new(NonBlocking::new(socket.into(), None), Phase::Open, 0);
        conn.depart(flight(1, 2));
        conn.depart(flight(1, 1));
        conn.depart(flight(2, 1));
        assert_eq!((conn.flights.len(), conn.in_flight()), (2, 4));
        for due in [1, 1, 1, 2] {
            assert_eq!(conn.next().unwrap().due_ns, due);
            conn.arrive();
        }
        assert_eq!((conn.next(), conn.in_flight()), (None, 0));
    }
}
