//! A library: its text, the names of its first line, and its functions.

use crate::engine::{LibraryId, Registered};
use crate::flags::ScriptFlags;
use crate::script::History;
use std::collections::HashSet;

/// The longest time that a library may take to load without delaying an I/O thread, in nanoseconds.
const FAST_NS: u64 = 2_000_000;

/// A function of a library.
#[derive(Debug)]
pub struct Function {
    pub name: Box<[u8]>,
    pub description: Option<Box<[u8]>>,
    pub flags: ScriptFlags,
    pub history: History,
}

/// A library that has been loaded. Its functions are in the order in which they were registered.
#[derive(Debug)]
pub struct Library {
    pub id: LibraryId,
    pub name: Box<[u8]>,
    /// With the first line.
    pub text: Box<[u8]>,
    /// Where the code begins, at the end of the first line.
    code_at: usize,
    pub functions: Box<[Function]>,
    /// It takes long to load: no I/O thread loads it.
    pub is_slow: bool,
}

/// The first line of a library: `#!lua name=mylib`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub name: Vec<u8>,
    code_at: usize,
}

impl Head {
    /// Reads the first line.
    ///
    /// # Errors
    /// The text of the error reply, without its code.
    pub fn parse(text: &[u8]) -> Result<Head, Vec<u8>> {
        let invalid = || b"Invalid library metadata".to_vec();
        if !text.starts_with(b"#!") {
            return Err(b"Missing library metadata".to_vec());
        }
        let code_at = text.iter().position(|b| matches!(b, b'\n' | 0)).unwrap_or(text.len());
        if text.get(code_at) != Some(&b'\n') {
            return Err(invalid());
        }
        let words = weft_base::words::split(&text[..code_at]).ok_or_else(invalid)?;
        let (first, rest) = words.split_first().ok_or_else(invalid)?;
        let mut name = None;
        for word in rest {
            let is_name = word.get(..5).is_some_and(|key| key.eq_ignore_ascii_case(b"name="));
            if !is_name {
                return Err([b"Invalid metadata value given: ", &word[..]].concat());
            }
            if name.replace(word[5..].to_vec()).is_some() {
                let text = b"Invalid metadata value, name argument was given multiple times";
                return Err(text.to_vec());
            }
        }
        let name = name.ok_or_else(|| b"Library name was not given".to_vec())?;
        if !is_valid_name(&name) {
            return Err(b"Library names can only contain letters, numbers, or underscores(_) and \
                         must be at least one character long"
                .to_vec());
        }
        let engine = first.get(2..).unwrap_or_default();
        if !engine.eq_ignore_ascii_case(b"lua") {
            return Err([b"Engine '", engine, b"' not found"].concat());
        }
        Ok(Head { name, code_at })
    }

    /// The code of the library with this head.
    pub fn code<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.code_at..]
    }
}

fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

impl Library {
    /// A library that an interpreter has loaded in `ns` nanoseconds.
    ///
    /// # Errors
    /// It has no functions, or invalid names: the text of the error reply, without its code.
    pub fn new(
        id: LibraryId,
        head: Head,
        text: &[u8],
        registered: Vec<Registered>,
        ns: u64,
    ) -> Result<Library, Vec<u8>> {
        let mut names = HashSet::new();
        for function in &registered {
            if !is_valid_name(&function.name) {
                return Err(
                    b"Function names can only contain letters, numbers, or underscores(_) \
                             and must be at least one character long"
                        .to_vec(),
                );
            }
            if !names.insert(&function.name) {
                return Err(b"Function already exists in the library".to_vec());
            }
        }
        if registered.is_empty() {
            return Err(b"No functions registered".to_vec());
        }
        let functions = registered
            .into_iter()
            .map(|function| Function {
                name: function.name.into(),
                description: function.description.map(Into::into),
                flags: function.flags,
                history: History::default(),
            })
            .collect();
        let Head { name, code_at } = head;
        let is_slow = ns > FAST_NS;
        Ok(Library { id, name: name.into(), text: text.into(), code_at, functions, is_slow })
    }

    /// The code for the interpreter: from the end of the first line on, so that lines keep their numbers.
    pub fn code(&self) -> &[u8] {
        &self.text[self.code_at..]
    }

    /// Approximate bytes of its text and entries.
    pub fn memory(&self) -> usize {
        let functions = self.functions.iter().map(|function| {
            let description = function.description.as_ref().map_or(0, |text| text.len());
            size_of::<Function>() + function.name.len() + description
        });
        size_of::<Library>() + self.name.len() + self.text.len() + functions.sum::<usize>()
    }

    /// Runs of its functions that were undone and began again.
    pub fn restarts(&self) -> u64 {
        self.functions.iter().map(|function| function.history.restarts()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<String, String> {
        let utf8 = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Head::parse(text.as_bytes()).map(|head| utf8(head.name)).map_err(utf8)
    }

    #[test]
    fn first_lines() {
        for text in ["#!lua name=a\n", "#!LUA NAME=a\r\nx", "#!lua  name=\"a\" \nx"] {
            assert_eq!(head(text), Ok("a".into()), "{text}");
        }
        for (text, error) in [
            ("x", "Missing library metadata"),
            ("#!lua name=a", "Invalid library metadata"),
            ("#!lua name=a\0\n", "Invalid library metadata"),
            ("#!lua name='a\n", "Invalid library metadata"),
            ("#!lua\n", "Library name was not given"),
            ("#! lua name=a\n", "Invalid metadata value given: lua"),
            ("#!js name=a\n", "Engine 'js' not found"),
            (
                "#!lua name=a name=b\n",
                "Invalid metadata value, name argument was given multiple times",
            ),
        ] {
            assert_eq!(head(text), Err(error.into()), "{text}");
        }
        let names = "Library names can only contain letters, numbers, or underscores(_) and must be \
                     at least one character long";
        assert_eq!(head("#!js name=a-b\n"), Err(names.into()));
    }
}
