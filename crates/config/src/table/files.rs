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
              pattern: matching files are read in order of their names, and a pattern without \
              matches is no error. One file may set a directive only once, and later files \
              override earlier ones. Put includes first to override them, and last to let them \
              override this file. CONFIG REWRITE changes this file only.",
    }
}
