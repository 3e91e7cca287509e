//! The messages of a thread in order, with an index of those that clients had to read ahead.
//!
//! A subscriber that executes commands must get the messages published before a command ahead of
//! the command's reply. These messages are in the mailbox while the command runs. So the thread
//! moves the mailbox into this queue and delivers the client's messages from there. Between
//! batches, the thread processes the queue like newly arrived messages. Every message has a number,
//! so a client that has read ahead to a number gets no message twice.
//!
//! Many clients may read ahead, and the queue may hold thousands of messages that are each for one
//! client. So these are indexed by client. Only the messages for all subscribers are checked for
//! each client.

use std::collections::{HashMap, VecDeque};

/// The addressee of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// This client.
    Client(u64),
    /// The subscribers of a channel.
    Listeners,
    /// The thread.
    Thread,
}

/// A message that can be put into an inbox.
pub trait Addressed {
    fn to(&self) -> To;
}

/// The queue of a thread's messages, with its index.
#[derive(Debug)]
pub struct Inbox<M> {
    queue: VecDeque<M>,
    /// The number of the first message in the queue.
    first: u64,
    /// The numbers of the queued messages for subscribers, and of those for single clients.
    subscriber_numbers: VecDeque<u64>,
    client_numbers: HashMap<u64, VecDeque<u64>, foldhash::fast::RandomState>,
}

impl<M> Default for Inbox<M> {
    fn default() -> Self {
        Inbox {
            queue: VecDeque::new(),
            first: 0,
            subscriber_numbers: VecDeque::new(),
            client_numbers: HashMap::default(),
        }
    }
}

/// The ascending `numbers` from `least` on.
fn numbers_from(numbers: &VecDeque<u64>, least: u64) -> impl Iterator<Item = u64> {
    numbers.range(numbers.partition_point(|number| *number < least)..).copied()
}

impl<M: Addressed> Inbox<M> {
    /// Moves all arrived messages into the queue: `take` returns the next one.
    pub fn stage(&mut self, mut take: impl FnMut() -> Option<M>) {
        while let Some(message) = take() {
            let number = self.end();
            match message.to() {
                To::Client(client) => {
                    self.client_numbers.entry(client).or_default().push_back(number)
                }
                To::Listeners => self.subscriber_numbers.push_back(number),
                To::Thread => {}
            }
            self.queue.push_back(message);
        }
    }

    /// Whether the queue holds messages that were read ahead.
    #[inline]
    pub fn has_read_ahead(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Removes the next message to process. Also returns its number.
    #[inline]
    pub fn next(&mut self, take: impl FnOnce() -> Option<M>) -> Option<(u64, M)> {
        let message = match self.queue.pop_front() {
            Some(staged) => {
                self.remove_from_index(staged.to());
                staged
            }
            None => take()?,
        };
        let number = self.first;
        self.first += 1;
        Some((number, message))
    }

    /// Removes the index entry of a message that has left the queue.
    fn remove_from_index(&mut self, to: To) {
        match to {
            To::Listeners => drop(self.subscriber_numbers.pop_front()),
            To::Client(client) => {
                if let Some(numbers) = self.client_numbers.get_mut(&client) {
                    numbers.pop_front();
                    if numbers.is_empty() {
                        self.client_numbers.remove(&client);
                    }
                }
            }
            To::Thread => {}
        }
    }

    /// Passes the queued messages from `number` on that are for `client` or for subscribers to
    /// `show`, in order. O(messages shown).
    pub fn since(&self, number: u64, client: u64, mut show: impl FnMut(&M)) {
        let mut all = numbers_from(&self.subscriber_numbers, number).peekable();
        let own =
            self.client_numbers.get(&client).into_iter().flat_map(|own| numbers_from(own, number));
        let at = |number: u64| &self.queue[(number - self.first) as usize];
        for number in own {
            while let Some(before) = all.next_if(|before| *before < number) {
                show(at(before));
            }
            show(at(number));
        }
        all.for_each(|number| show(at(number)));
    }

    /// The number of the next message to arrive.
    pub fn end(&self) -> u64 {
        self.first + self.queue.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digits are for the client with that number, small letters for subscribers.
    impl Addressed for char {
        fn to(&self) -> To {
            match self.to_digit(10) {
                Some(client) => To::Client(client.into()),
                None if self.is_lowercase() => To::Listeners,
                None => To::Thread,
            }
        }
    }

    fn shown(inbox: &Inbox<char>, number: u64, client: u64) -> String {
        let mut shown = String::new();
        inbox.since(number, client, |letter| shown.push(*letter));
        shown
    }

    #[test]
    fn numbers_continue_after_staging() {
        let mut queue = VecDeque::from(['a', 'b', 'c']);
        let mut inbox = Inbox::default();
        assert_eq!(inbox.next(|| queue.pop_front()), Some((0, 'a')));
        inbox.stage(|| queue.pop_front());
        assert_eq!((inbox.end(), shown(&inbox, 0, 1)), (3, "bc".into()));
        assert_eq!(shown(&inbox, 2, 1), "c");
        queue.push_back('d');
        assert_eq!(inbox.next(|| queue.pop_front()), Some((1, 'b')));
        assert_eq!(shown(&inbox, 1, 1), "c");
        assert_eq!(inbox.next(|| queue.pop_front()), Some((2, 'c')));
        assert_eq!(shown(&inbox, 7, 1), "");
        assert_eq!(inbox.next(|| queue.pop_front()), Some((3, 'd')));
        assert_eq!(inbox.next(|| queue.pop_front()), None);
        assert_eq!(inbox.end(), 4);
    }

    #[test]
    fn clients_see_only_their_messages() {
        let mut queue: VecDeque<char> = "1aT2b11c2".chars().collect();
        let mut inbox = Inbox::default();
        inbox.stage(|| queue.pop_front());
        assert!(inbox.has_read_ahead());
        assert_eq!(shown(&inbox, 0, 1), "1ab11c");
        assert_eq!(shown(&inbox, 5, 1), "11c");
        assert_eq!(shown(&inbox, 0, 2), "a2bc2");
        assert_eq!(shown(&inbox, 0, 3), "abc");
        for _ in 0..6 {
            inbox.next(|| None);
        }
        assert_eq!((shown(&inbox, 0, 1), shown(&inbox, 7, 2)), ("1c".into(), "c2".into()));
        while inbox.next(|| None).is_some() {}
        assert!(
            !inbox.has_read_ahead()
                && inbox.client_numbers.is_empty()
                && inbox.subscriber_numbers.is_empty()
        );
    }
}
