//! The script or function that a command runs.

use std::sync::Arc;
use weft_script::functions::Found;
use weft_script::{History, Script};

/// A script of EVAL, or a function of FCALL.
#[derive(Clone, Debug)]
pub enum Code {
    Script(Arc<Script>),
    Function(Found),
}

impl Code {
    pub fn history(&self) -> &History {
        match self {
            Code::Script(script) => &script.history,
            Code::Function(found) => &found.function().history,
        }
    }

    /// Whether it must not run on an I/O thread.
    pub fn is_long(&self) -> bool {
        match self {
            Code::Script(script) => script.history.is_long(),
            Code::Function(found) => found.library.is_slow || found.function().history.is_long(),
        }
    }

    /// The command that ends it while it runs.
    pub fn killer(&self) -> &'static str {
        match self {
            Code::Script(_) => "SCRIPT KILL",
            Code::Function(_) => "FUNCTION KILL",
        }
    }
}
