//! What has come for a thread, in its order, as far as somebody had to look ahead.
//!
//! A client that listens and executes commands gets what was published before a command in front of
//! its reply. That lies in the mailbox while the command runs; so the mailbox is emptied into this
//! row, and what is for the client is taken from it. The row is worked off between batches as if it
//! had just come. Every message has a number, so that a client which has looked up to some number
//! gets nothing twice.

use std::collections::VecDeque;

/// See the module.
#[derive(Debug)]
pub struct Mail<M> {
    row: VecDeque<M>,
    /// The number of the first message of the row.
    first: u64,
}

impl<M> Default for Mail<M> {
    fn default() -> Self {
        Mail { row: VecDeque::new(), first: 0 }
    }
}

impl<M> Mail<M> {
    /// Looks at all that has come: `take` gives the next message.
    pub fn stage(&mut self, mut take: impl FnMut() -> Option<M>) {
        while let Some(message) = take() {
            self.row.push_back(message);
        }
    }

    /// The next message to be worked off, with its number.
    #[inline]
    pub fn next(&mut self, take: impl FnOnce() -> Option<M>) -> Option<(u64, M)> {
        let message = self.row.pop_front().or_else(take)?;
        let number = self.first;
        self.first += 1;
        Some((number, message))
    }

    /// Those of the row from this number on.
    pub fn since(&self, number: u64) -> impl Iterator<Item = &M> {
        self.row.iter().skip(number.saturating_sub(self.first) as usize)
    }

    /// The number of the next message that will come.
    pub fn end(&self) -> u64 {
        self.first + self.row.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on() {
        let mut queue = VecDeque::from(['a', 'b', 'c']);
        let mut mail = Mail::default();
        assert_eq!(mail.next(|| queue.pop_front()), Some((0, 'a')));
        mail.stage(|| queue.pop_front());
        assert_eq!((mail.end(), mail.since(0).collect::<String>()), (3, "bc".into()));
        assert_eq!(mail.since(2).collect::<String>(), "c");
        queue.push_back('d');
        assert_eq!(mail.next(|| queue.pop_front()), Some((1, 'b')));
        assert_eq!(mail.since(1).count(), 1);
        assert_eq!(mail.next(|| queue.pop_front()), Some((2, 'c')));
        assert_eq!(mail.since(7).count(), 0);
        assert_eq!(mail.next(|| queue.pop_front()), Some((3, 'd')));
        assert_eq!(mail.next(|| queue.pop_front()), None);
        assert_eq!(mail.end(), 4);
    }
}
