//! Encodes units of the effect log as bytes of the stream.
//!
//! Several commands are enclosed in MULTI and EXEC, so a replica applies all of them or none.
//! SELECT precedes a command whose database differs from the previous one. At the beginning of a
//! unit it precedes MULTI: Redis up to 6 writes it there, and some replicas don't understand it
//! inside. A primary's messages to its replicas (PING, GETACK) are part of the stream and count in
//! its offset.

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
        out.extend(self.1);
    }
}

/// Appends a command of these words. O(bytes).
pub fn words(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        out.extend(format!("${}\r\n", word.len()).bytes());
        out.extend_from_slice(word);
        out.extend(b"\r\n");
    }
}

/// Encodes units, and tracks the selected database.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    db: Option<usize>,
}

impl Encoder {
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

    /// Records the database that forwarded bytes of the stream have selected.
    pub fn selected(&mut self, db: usize) {
        self.db = Some(db);
    }

    /// Appends a unit. O(bytes).
    pub fn unit<C: Command>(&mut self, commands: &[C], out: &mut Vec<u8>) {
        let Some(first) = commands.first() else { return };
        let several = commands.len() > 1;
        self.select(first.db(), out);
        if several {
            words(&[b"MULTI"], out);
        }
        for command in commands {
            self.select(command.db(), out);
            command.append_to(out);
        }
        if several {
            words(&[b"EXEC"], out);
        }
    }

    fn select(&mut self, db: usize, out: &mut Vec<u8>) {
        if self.db != Some(db) {
            self.db = Some(db);
            words(&[b"SELECT", db.to_string().as_bytes()], out);
        }
    }
}

/// The primary is alive: `PING`.
pub const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
/// Replicas must report their offset at once: `REPLCONF GETACK *`.
pub const GET_ACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_become_transactions_and_databases_are_selected() {
        let ping = |db| (db, PING);
        let (mut out, mut encoder) = (Vec::new(), Encoder::default());
        encoder.unit(&[ping(0)], &mut out);
        encoder.unit::<(usize, &[u8])>(&[], &mut out);
        encoder.unit(&[ping(2), ping(2), ping(3)], &mut out);
        encoder.unit(&[ping(3)], &mut out);
        encoder.forget_db();
        encoder.unit(&[ping(3)], &mut out);
        assert_eq!(
            String::from_utf8_lossy(&out).replace("\r\n", " "),
            "*2 $6 SELECT $1 0 *1 $4 PING *2 $6 SELECT $1 2 *1 $5 MULTI *1 $4 PING *1 $4 PING \
             *2 $6 SELECT $1 3 *1 $4 PING *1 $4 EXEC *1 $4 PING *2 $6 SELECT $1 3 *1 $4 PING "
        );
    }

    #[test]
    fn constants_equal_the_encoded_words() {
        for (constant, text) in
            [(PING, &[&b"PING"[..]][..]), (GET_ACK, &[b"REPLCONF", b"GETACK", b"*"])]
        {
            let mut out = Vec::new();
            words(text, &mut out);
            assert_eq!(out, constant);
        }
    }
}
