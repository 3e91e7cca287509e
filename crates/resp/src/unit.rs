//! Encodes requests, and units of the effect log as requests, for files and replicas.
//!
//! Several commands of a unit are enclosed in MULTI and EXEC, so a reader applies all of them or
//! none. SELECT precedes a command whose database differs from the previous one.

/// One command of a unit.
pub trait Command {
    /// Its database.
    fn db(&self) -> usize;

    /// Appends it as a client could have sent it: `*3\r\n$3\r\nSET\r\n...`.
    fn append_to(&self, out: &mut Vec<u8>);
}

/// A database and the command's encoded bytes.
impl Command for (usize, &[u8]) {
    fn db(&self) -> usize {
        self.0
    }

    fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.1);
    }
}

/// Where a unit of several commands selects the database of its first command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstSelect {
    /// Replicas: Redis up to 6 writes it there, and some replicas don't understand it inside.
    BeforeMulti,
    /// Append-only files, as in Valkey.
    AfterMulti,
}

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Encodes units, and tracks the selected database.
#[derive(Clone, Debug)]
pub struct UnitEncoder {
    first_select: FirstSelect,
    db: Option<usize>,
}

impl UnitEncoder {
    /// An encoder whose first command selects its database.
    #[must_use]
    pub fn new(first_select: FirstSelect) -> UnitEncoder {
        UnitEncoder { first_select, db: None }
    }

    /// The selected database; `None` if the next command must select one.
    #[must_use]
    pub fn db(&self) -> Option<usize> {
        self.db
    }

    /// Makes the next command select its database, because a reader that begins here may not know
    /// it.
    pub fn forget_db(&mut self) {
        self.db = None;
    }

    /// Records the database that forwarded requests have selected.
    pub fn selected(&mut self, db: usize) {
        self.db = Some(db);
    }

    /// Appends a unit: nothing if it has no commands. O(bytes).
    pub fn unit<C: Command>(&mut self, commands: &[C], out: &mut Vec<u8>) {
        let [first, rest @ ..] = commands else { return };
        let several = !rest.is_empty();
        if self.first_select == FirstSelect::BeforeMulti {
            self.select(first.db(), out);
        }
        if several {
            out.extend_from_slice(MULTI);
        }
        for command in commands {
            self.select(command.db(), out);
            command.append_to(out);
        }
        if several {
            out.extend_from_slice(EXEC);
        }
    }

    fn select(&mut self, db: usize, out: &mut Vec<u8>) {
        if self.db != Some(db) {
            self.db = Some(db);
            append_request(&[b"SELECT", db.to_string().as_bytes()], out);
        }
    }
}

/// Appends a request of these words. O(bytes).
pub fn append_request(words: &[&[u8]], out: &mut Vec<u8>) {
    append_head(b'*', words.len(), out);
    for word in words {
        append_head(b'$', word.len(), out);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn append_head(kind: u8, count: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

    fn encoded(first_select: FirstSelect) -> String {
        let ping = |db| (db, PING);
        let (mut out, mut encoder) = (Vec::new(), UnitEncoder::new(first_select));
        encoder.unit(&[ping(0)], &mut out);
        encoder.unit::<(usize, &[u8])>(&[], &mut out);
        encoder.unit(&[ping(2), ping(2), ping(3)], &mut out);
        encoder.unit(&[ping(3)], &mut out);
        encoder.forget_db();
        encoder.unit(&[ping(3)], &mut out);
        encoder.selected(12);
        encoder.unit(&[ping(12), ping(12)], &mut out);
        assert_eq!(encoder.db(), Some(12));
        String::from_utf8_lossy(&out).replace("\r\n", " ")
    }

    #[test]
    fn units_become_transactions_and_databases_are_selected() {
        assert_eq!(
            encoded(FirstSelect::BeforeMulti),
            "*2 $6 SELECT $1 0 *1 $4 PING *2 $6 SELECT $1 2 *1 $5 MULTI *1 $4 PING *1 $4 PING \
             *2 $6 SELECT $1 3 *1 $4 PING *1 $4 EXEC *1 $4 PING *2 $6 SELECT $1 3 *1 $4 PING \
             *1 $5 MULTI *1 $4 PING *1 $4 PING *1 $4 EXEC "
        );
        assert_eq!(
            encoded(FirstSelect::AfterMulti),
            "*2 $6 SELECT $1 0 *1 $4 PING *1 $5 MULTI *2 $6 SELECT $1 2 *1 $4 PING *1 $4 PING \
             *2 $6 SELECT $1 3 *1 $4 PING *1 $4 EXEC *1 $4 PING *2 $6 SELECT $1 3 *1 $4 PING \
             *1 $5 MULTI *1 $4 PING *1 $4 PING *1 $4 EXEC "
        );
    }

    #[test]
    fn constants_equal_the_encoded_words() {
        for (constant, word) in [(MULTI, b"MULTI".as_slice()), (EXEC, b"EXEC"), (PING, b"PING")] {
            let mut out = Vec::new();
            append_request(&[word], &mut out);
            assert_eq!(out, constant);
        }
    }
}
