//! What has come for a thread, in its order, as far as somebody had to look ahead.
//!
//! A client that listens and executes commands gets what was published before a command in front of
//! its reply. That lies in the mailbox while the command runs; so the mailbox is emptied into this
//! row, and what is for the client is taken from it. The row is worked off between batches as if it
//! had just come. Every message has a number, so that a client which has looked up to some number
//! gets nothing twice.
//!
//! Many clients may look, and thousands of messages may lie there that are each for one of them. So
//! those are found by their client; only what is for all who listen to something is looked at by each.

use std::collections::{HashMap, VecDeque};

/// Whom a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// This client.
    Client(u64),
    /// Whoever listens to its channel.
    Listeners,
    /// The thread.
    Thread,
}

/// What can come by mail.
pub trait Addressed {
    fn to(&self) -> To;
}

/// See the module.
#[derive(Debug)]
pub struct Mail<M> {
    row: VecDeque<M>,
    /// The number of the first message of the row.
    first: u64,
    /// The numbers of those of the row that are for listeners, and for single clients.
    listeners: VecDeque<u64>,
    clients: HashMap<u64, VecDeque<u64>, foldhash::fast::RandomState>,
}

impl<M> Default for Mail<M> {
    fn default() -> Self {
        Mail {
            row: VecDeque::new(),
            first: 0,
            listeners: VecDeque::new(),
            clients: HashMap::default(),
        }
    }
}

/// Those of ascending `numbers` that are not below `least`.
fn from(numbers: &VecDeque<u64>, least: u64) -> impl Iterator<Item = u64> {
    numbers.range(numbers.partition_point(|number| *number < least)..).copied()
}

impl<M: Addressed> Mail<M> {
    /// Looks at all that has come: `take` gives the next message.
    pub fn stage(&mut self, mut take: impl FnMut() -> Option<M>) {
        while let Some(message) = take() {
            let number = self.end();
            match message.to() {
                To::Client(client) => self.clients.entry(client).or_default().push_back(number),
                To::Listeners => self.listeners.push_back(number),
                To::Thread => {}
            }
            self.row.push_back(message);
        }
    }

    /// Whether there are messages that somebody had to look at ahead.
    #[inline]
    pub fn is_staged(&self) -> bool {
        !self.row.is_empty()
    }

    /// The next message to be worked off, with its number.
    #[inline]
    pub fn next(&mut self, take: impl FnOnce() -> Option<M>) -> Option<(u64, M)> {
        let message = match self.row.pop_front() {
            Some(staged) => {
                self.strike(staged.to());
                staged
            }
            None => take()?,
        };
        let number = self.first;
        self.first += 1;
        Some((number, message))
    }

    /// The first of those for `to` has left the row.
    fn strike(&mut self, to: To) {
        match to {
            To::Listeners => drop(self.listeners.pop_front()),
            To::Client(client) => {
                if let Some(numbers) = self.clients.get_mut(&client) {
                    numbers.pop_front();
                    if numbers.is_empty() {
                        self.clients.remove(&client);
                    }
                }
            }
            To::Thread => {}
        }
    }

    /// Shows those of the row from `number` on that are for `client` or for listeners, in order. O(these).
    pub fn since(&self, number: u64, client: u64, mut show: impl FnMut(&M)) {
        let mut all = from(&self.listeners, number).peekable();
        let own = self.clients.get(&client).into_iter().flat_map(|own| from(own, number));
        let at = |number: u64| &self.row[(number - self.first) as usize];
        for number in own {
            while let Some(before) = all.next_if(|before| *before < number) {
                show(at(before));
            }
            show(at(number));
        }
        all.for_each(|number| show(at(number)));
    }

    /// The number of the next message that will come.
    pub fn end(&self) -> u64 {
        self.first + self.row.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digits are for the client of that number, small letters for listeners.
    impl Addressed for char {
        fn to(&self) -> To {
            match self.to_digit(10) {
                Some(client) => To::Client(client.into()),
                None if self.is_lowercase() => To::Listeners,
                None => To::Thread,
            }
        }
    }

    fn shown(mail: &Mail<char>, number: u64, client: u64) -> String {
        let mut shown = String::new();
        mail.since(number, client, |letter| shown.push(*letter));
        shown
    }

    #[test]
    fn numbers_go_on() {
        let mut queue = VecDeque::from(['a', 'b', 'c']);
        let mut mail = Mail::default();
        assert_eq!(mail.next(|| queue.pop_front()), Some((0, 'a')));
        mail.stage(|| queue.pop_front());
        assert_eq!((mail.end(), shown(&mail, 0, 1)), (3, "bc".into()));
        assert_eq!(shown(&mail, 2, 1), "c");
        queue.push_back('d');
        assert_eq!(mail.next(|| queue.pop_front()), Some((1, 'b')));
        assert_eq!(shown(&mail, 1, 1), "c");
        assert_eq!(mail.next(|| queue.pop_front()), Some((2, 'c')));
        assert_eq!(shown(&mail, 7, 1), "");
        assert_eq!(mail.next(|| queue.pop_front()), Some((3, 'd')));
        assert_eq!(mail.next(|| queue.pop_front()), None);
        assert_eq!(mail.end(), 4);
    }

    #[test]
    fn each_is_shown_what_is_for_him() {
        let mut queue: VecDeque<char> = "1aT2b11c2".chars().collect();
        let mut mail = Mail::default();
        mail.stage(|| queue.pop_front());
        assert!(mail.is_staged());
        assert_eq!(shown(&mail, 0, 1), "1ab11c");
        assert_eq!(shown(&mail, 5, 1), "11c");
        assert_eq!(shown(&mail, 0, 2), "a2bc2");
        assert_eq!(shown(&mail, 0, 3), "abc");
        for _ in 0..6 {
            mail.next(|| None);
        }
        assert_eq!((shown(&mail, 0, 1), shown(&mail, 7, 2)), ("1c".into(), "c2".into()));
        while mail.next(|| None).is_some() {}
        assert!(!mail.is_staged() && mail.clients.is_empty() && mail.listeners.is_empty());
    }
}
