//! The table of directives.
//!
//! One file per section; a directive is one entry in one of them:
//!
//! ```text
//! TCP_KEEPALIVE = "tcp-keepalive" {          // Id::TCP_KEEPALIVE
//!     kind: int(0, INT_MAX),
//!     default: "300",
//!     status: EFFECTIVE,
//!     doc: "Seconds ...",
//! }
//! ```
//!
//! `aka "old-name", "other-name"` after the name and a `flags:` line are optional. The id, the lookup
//! by name, the commands and `weft.conf` follow. (`weft.conf` is checked in; its test says how to
//! write it again.) A directive that the reference doesn't have needs its name in
//! `tests/peer.rs`. `status: EFFECTIVE` also stands for a value that is only stored and shown.
//!
//! Sections are numbered one after the other: each begins where the section named in its `after:`
//! ends, which a constant assertion below checks.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::directive::{Directive, Id, Status};

/// Defines the directives of a section and their ids.
macro_rules! section {
    (
        after: $first:expr,
        title: $title:literal,
        about: $about:literal,
        $(
            $id:ident = $name:literal $(aka $($alias:literal),+)? {
                kind: $kind:expr,
                default: $default:expr,
                $(flags: $flags:expr,)?
                status: $status:expr,
                doc: $doc:literal,
            }
        )+
    ) => {
        /// The number of this section's first directive.
        const FIRST: u16 = $first;
        /// The number after this section's last directive.
        pub(super) const END: u16 = FIRST + [$($name),+].len() as u16;

        /// Places in this section, in order.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Place { $($id),+ }

        impl $crate::directive::Id {
            $(
                #[doc = concat!("`", $name, "`")]
                pub const $id: $crate::directive::Id =
                    $crate::directive::Id(FIRST + Place::$id as u16);
            )+
        }

        /// The section.
        pub(super) static SECTION: $crate::table::Section = $crate::table::Section {
            first: FIRST,
            title: $title,
            about: $about,
            directives: &DIRECTIVES,
        };

        static DIRECTIVES: [$crate::directive::Directive; [$($name),+].len()] = [
            $($crate::directive::Directive {
                id: $crate::directive::Id::$id,
                name: $name,
                aliases: &[$($($alias),+)?],
                kind: $kind,
                default: $default,
                flags: $crate::directive::Flags::NONE$(.and($flags))?,
                status: $status,
                doc: $doc,
            }),+
        ];
    };
}

mod clients;
mod cluster;
mod compat;
mod encodings;
mod files;
mod general;
mod internal;
mod lazyfree;
mod memory;
mod monitoring;
mod network;
mod persistence;
mod process;
mod replication;
mod scripting;
mod security;
mod threads;
mod tls;

/// Directives that belong together, with a heading for `weft.conf`.
pub(crate) struct Section {
    /// The number of its first directive.
    pub first: u16,
    /// Heading.
    pub title: &'static str,
    /// A few sentences under the heading; may be empty.
    pub about: &'static str,
    /// The directives, in order.
    pub directives: &'static [Directive],
}

/// Every section, in the order of `weft.conf` and of the ids.
pub(crate) static SECTIONS: [&Section; 18] = [
    &files::SECTION,
    &network::SECTION,
    &tls::SECTION,
    &general::SECTION,
    &process::SECTION,
    &threads::SECTION,
    &security::SECTION,
    &clients::SECTION,
    &memory::SECTION,
    &lazyfree::SECTION,
    &persistence::SECTION,
    &replication::SECTION,
    &cluster::SECTION,
    &scripting::SECTION,
    &monitoring::SECTION,
    &encodings::SECTION,
    &compat::SECTION,
    &internal::SECTION,
];

/// How many directives there are.
pub(crate) const COUNT: usize = internal::END as usize;

/// Every directive, at the place of its id.
pub(crate) static TABLE: [&Directive; COUNT] = flatten();

/// Lines the sections up, and fails to compile when their numbers have a gap.
const fn flatten() -> [&'static Directive; COUNT] {
    let mut table = [&SECTIONS[0].directives[0]; COUNT];
    let (mut section, mut at) = (0, 0);
    while section < SECTIONS.len() {
        assert!(SECTIONS[section].first as usize == at, "sections are not in order");
        let mut place = 0;
        while place < SECTIONS[section].directives.len() {
            table[at] = &SECTIONS[section].directives[place];
            at += 1;
            place += 1;
        }
        section += 1;
    }
    assert!(at == COUNT);
    table
}

/// A name found in the table.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    /// The directive.
    pub id: Id,
    /// The spelling that was found, lower case.
    pub spelling: &'static str,
}

/// Every spelling of every directive, in byte order.
pub(crate) static NAMES: LazyLock<BTreeMap<&'static str, Name>> = LazyLock::new(|| {
    let spellings = |directive: &'static Directive| {
        let names = std::iter::once(&directive.name).chain(directive.aliases);
        names.map(|spelling| (*spelling, Name { id: directive.id, spelling }))
    };
    TABLE.iter().flat_map(|directive| spellings(directive)).collect()
});

/// The directive that is spelled `name`, in any case.
pub(crate) fn lookup(name: &[u8]) -> Option<Name> {
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    NAMES.get(name.as_str()).copied()
}

/// Bounds that many directives share.
const INT_MAX: i64 = i32::MAX as i64;
const LONG_MAX: i64 = i64::MAX;
const SIZE_MAX: u64 = i64::MAX as u64;
const PORT_MAX: i64 = 65535;

// Which features have arrived. A feature that arrives is switched here; one
// directive of it can be switched in its entry.
const EFFECTIVE: Status = Status::Effective;
const PERSISTENCE: Status = Status::NotYet("persistence");
const MPTCP: Status = Status::NotYet("Multipath TCP");
const MODULES: Status = Status::NotYet("modules");
