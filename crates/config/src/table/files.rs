//! Other files.

use super::EFFECTIVE;
use crate::directive::Flags;
use crate::kind::Kind;

section! {
    after: 0,
    title: "Other files",
    about: "",

    INCLUDE = "include" {
        kind: Kind::Statement { min: 1, max: 1 },
        default: "/etc/weft/conf.d/*.conf",
        flags: Flags::REPEATABLE,
        status: EFFECTIVE,
        doc: "Read another file here, as if its lines replaced this one. The path may be a \
              pattern: its files are read in order of their names, and none is fine. Within one \
              file a directive may be set once; a file may change what a file before it has set, \
              so put includes first to override them and last to let them override. CONFIG REWRITE \
              changes this file only.",
    }
}
