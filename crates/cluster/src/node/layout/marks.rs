//! `marks/SHARD`: slots that SETSLOT has marked as moving.

use super::text::{Invalid, Writer, id, lines, ranges, unknown};
use super::values::{join, set_of};
use crate::id::ShardId;
use crate::slots::{Slot, SlotSet};
use std::collections::{BTreeMap, BTreeSet};

/// The marks of a shard, each with the other shard. They are no part of `shards/ID`: an older version that finds a line it doesn't know
/// there would stop serving the shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarksValue {
    /// Slots of this shard whose keys go to the other one.
    pub migrating: BTreeMap<Slot, ShardId>,
    /// Slots whose keys come from the other shard.
    pub importing: BTreeMap<Slot, ShardId>,
}

impl MarksValue {
    pub fn is_empty(&self) -> bool {
        self.migrating.is_empty() && self.importing.is_empty()
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        for (word, marks) in [("migrating", &self.migrating), ("importing", &self.importing)] {
            for shard in marks.values().collect::<BTreeSet<_>>() {
                let of_shard = marks.iter().filter(|(_, other)| *other == shard);
                let slots: SlotSet = of_shard.map(|(slot, _)| *slot).collect();
                writer = writer.line(word, format_args!("{shard} {}", join(&slots.ranges())));
            }
        }
        writer.finish()
    }

    /// # Errors
    /// The value is not of this version's form.
    pub fn parse(value: &[u8]) -> Result<MarksValue, Invalid> {
        let mut marks = MarksValue::default();
        for (word, rest) in lines(value)? {
            let of_word = match word {
                "migrating" => &mut marks.migrating,
                "importing" => &mut marks.importing,
                _ => return Err(unknown(word)),
            };
            let (shard, slots) = rest.split_once(' ').unwrap_or((rest, ""));
            let shard = id(shard)?;
            for slot in set_of(&ranges(slots)?).iter() {
                if of_word.insert(slot, shard).is_some() {
                    return Err(Invalid(format!("slot {slot} has two marks '{word}'")));
                }
            }
        }
        Ok(marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::NodeId;

    #[test]
    fn marks_read_back() {
        let [one, two] = [1, 2].map(|byte| NodeId::from_random([byte; 20]));
        let value = MarksValue {
            migrating: BTreeMap::from([(3, one), (4, one), (5, two), (7, one)]),
            importing: BTreeMap::from([(16383, two)]),
        };
        let text = value.encode();
        assert_eq!(MarksValue::parse(&text), Ok(value));
        let expected =
            format!("weft 1\nmigrating {one} 3-4 7\nmigrating {two} 5\nimporting {two} 16383\n");
        assert_eq!(String::from_utf8(text.clone()).unwrap(), expected);
        for at in 0..text.len() {
            let _ = MarksValue::parse(&text[..at]);
        }
        let empty = MarksValue::default();
        assert_eq!(MarksValue::parse(&empty.encode()), Ok(empty));
        for wrong in ["migrating 1 2", "other 1", &format!("migrating {one} 16384")] {
            assert!(MarksValue::parse(format!("weft 1\n{wrong}\n").as_bytes()).is_err(), "{wrong}");
        }
        let twice = format!("weft 1\nmigrating {one} 1-2\nmigrating {two} 2\n");
        assert!(MarksValue::parse(twice.as_bytes()).is_err());
    }
}
