//! BITOP: combines several values bit by bit and stores the result.
//!
//! All values are borrowed together under the command's guard. The result is computed block by
//! block, in the record that is stored. So a block of the result stays in the L1 cache while all
//! values are applied to it. The loops go over single bytes, and the compiler vectorizes them on
//! every processor.

use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use crate::string::range::BYTES_PER_ELEMENT;
use crate::string::string;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, QueuedWork, Spec, Special};
use weft_keyspace::db::Change;
use weft_keyspace::{Classes, Key, RecordRef};
use weft_types::string::pieces::PIECE;
use weft_types::string::{Digits, Text, edit, record_text};

pub const BITOP: Command = Command {
    spec: Spec {
        name: "bitop",
        arity: -4,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &[
            KeySpec {
                flags: &["OW", "UPDATE"],
                begin: Begin::Index(2),
                find: Find::Range { last: 0, step: 1, limit: 0 },
                notes: "",
            },
            KeySpec {
                flags: &["RO", "ACCESS"],
                begin: Begin::Index(3),
                find: Find::Range { last: -1, step: 1, limit: 0 },
                notes: "",
            },
        ],
        acl: &[],
        group: Group::Bitmap,
        since: "2.6.0",
        summary: "Combines the values of keys bit by bit and stores the result in a key.",
        complexity: "O(N*M) where N is the length of the longest of M values.",
        syntax: "operation=(and=AND|or=OR|xor=XOR|not=NOT) destkey:key key...",
        history: &[],
        tips: &[],
        special: Special::queued_work(QueuedWork::ReadBytes),
    },
    lock: Lock::Keys,
    run: bitop,
    subcommands: &[],
};

const ONE_SOURCE: Error = Error::new("ERR BITOP NOT must be called with a single source key.");

/// Bytes of the result computed at a time.
const BLOCK: usize = 4096;

const _: () = assert!(PIECE.is_multiple_of(BLOCK));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    const ALL: [(&'static str, Operation); 4] = [
        ("AND", Operation::And),
        ("OR", Operation::Or),
        ("XOR", Operation::Xor),
        ("NOT", Operation::Not),
    ];

    /// Combines all values. Shorter ones count as padded with zeros. `out` is zeroed and as long as
    /// the longest value.
    fn combine(self, values: &[Text<'_>], out: &mut [u8]) {
        for (n, block) in out.chunks_mut(BLOCK).enumerate() {
            let (from, len) = (n * BLOCK, block.len());
            for (nth, value) in values.iter().enumerate() {
                // A block never crosses a piece boundary.
                let rest = value.slice_from(from);
                let part = &rest[..rest.len().min(len)];
                match nth {
                    0 => block[..part.len()].copy_from_slice(part),
                    _ => self.apply(block, part),
                }
            }
            if self == Operation::Not {
                block.iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
    }

    /// Applies a part of a value, which may be shorter, to a block of the result.
    fn apply(self, block: &mut [u8], part: &[u8]) {
        let (overlap, rest_of_block) = block.split_at_mut(part.len());
        let pairs = overlap.iter_mut().zip(part);
        match self {
            Operation::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                rest_of_block.fill(0);
            }
            Operation::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Operation::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            // NOT has a single value.
            Operation::Not => {}
        }
    }
}

/// The values of the records, with integers formatted into `room`. A missing key has an empty
/// value.
fn values<'r>(
    records: &'r [Option<RecordRef<'_>>],
    room: &'r mut [Digits],
) -> Result<Vec<Text<'r>>, Error> {
    let text = |(record, room): (&'r Option<RecordRef<'_>>, &'r mut Digits)| match record {
        None => Ok(Text::Whole(b"")),
        Some(record) => Ok(string(record)?.text(room)),
    };
    records.iter().zip(room).map(text).collect()
}

fn bitop(ctx: &mut Ctx<'_>) -> CmdResult {
    let named = Operation::ALL.iter().find(|(name, _)| ctx.is(1, name));
    let (_, operation) = *named.ok_or(SYNTAX)?;
    if operation == Operation::Not && ctx.args.len() != 4 {
        return Err(ONE_SOURCE);
    }
    ctx.weigh_args()?;
    let destination = ctx.key(2);
    let keys: Vec<Key<'_>> = (3..ctx.args.len()).map(|i| ctx.key(i)).collect();
    let records = ctx.db.read_all(&keys, |record| string(record).is_ok());
    let mut room = vec![Digits::new(); keys.len()];
    let values = values(&records, &mut room)?;
    let len = values.iter().map(|value| value.len()).max().unwrap_or(0);
    let work = len.saturating_mul(1 + values.len()) / BYTES_PER_ELEMENT;
    ctx.lane.weigh(work, &mut ctx.pause)?;
    if len == 0 {
        if ctx.db.clear(&destination) {
            ctx.notify(Classes::GENERIC, "del", &destination);
            ctx.dirty();
        }
    } else {
        // Built by an edit, not as a new string: OBJECT ENCODING reports an edited string (`raw`).
        let empty = record_text(destination.bytes, b"", None, 0);
        let result = edit(empty, len, |out| operation.combine(&values, out));
        ctx.db.alter(&destination, |_, clock| {
            result.set_clock(clock);
            Change::Store(result)
        });
        ctx.notify(Classes::STRING, "set", &destination);
        ctx.dirty();
    }
    ctx.reply.int(len as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_base::rng::Rng;

    /// The same, byte by byte over all values.
    fn bytewise(operation: Operation, values: &[&[u8]], len: usize) -> Vec<u8> {
        let byte = |value: &[u8], at: usize| value.get(at).copied().unwrap_or(0);
        let combined = |at: usize| {
            let bytes = values.iter().map(|value| byte(value, at));
            match operation {
                Operation::And => bytes.reduce(|a, b| a & b),
                Operation::Or => bytes.reduce(|a, b| a | b),
                Operation::Xor => bytes.reduce(|a, b| a ^ b),
                Operation::Not => bytes.map(|a| !a).next(),
            }
        };
        (0..len).map(|at| combined(at).expect("a value")).collect()
    }

    #[test]
    fn blocks_are_combined_like_single_bytes() {
        let mut rng = Rng::new(1);
        let bytes: Vec<u8> = (0..3 * BLOCK).map(|_| rng.next_u64() as u8).collect();
        let lens = [0, 1, 7, 100, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 9];
        for (_, operation) in Operation::ALL {
            for a in lens {
                for b in lens {
                    let mut values = vec![&bytes[..a], &bytes[5..5 + b], &bytes[9..9 + a / 2]];
                    if operation == Operation::Not {
                        values.truncate(1);
                    }
                    let len = values.iter().map(|value| value.len()).max().expect("a value");
                    let mut out = vec![0; len];
                    let texts: Vec<Text<'_>> = values.iter().map(|v| Text::Whole(v)).collect();
                    operation.combine(&texts, &mut out);
                    assert!(out == bytewise(operation, &values, len), "{operation:?} {a} {b}");
                }
            }
        }
    }
}
