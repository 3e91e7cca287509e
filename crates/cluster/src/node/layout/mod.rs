//! Keys and values under the prefix of the store.
//!
//! Values are lines of text, so that operators can read them with `etcdctl`. The first line is the
//! version of the layout. A value with another version, an unknown line or a missing one is an
//! error: a node that guesses would decide on something else than the writer meant.

mod copying;
mod key;
mod marks;
mod text;
mod values;

pub use copying::{CopyPhase, Copying};
pub use key::{HandoverId, IslandId, Key};
pub use marks::MarksValue;
pub use text::Invalid;
pub use values::{
    Candidacy, FailoverValue, HandoverValue, IslandValue, LeaseValue, NodeValue, ShardValue,
};
