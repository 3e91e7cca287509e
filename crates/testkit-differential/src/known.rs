//! Accepted differences, from a table that developers also read.
//!
//! ```text
//! | command | weft | reference | why |
//! |---|---|---|---|
//! | `LOLWUT*` | `*` | `*` | each server draws its own picture |
//! ```
//!
//! The first three cells are patterns in which `*` stands for any text (see [`glob`](weft_testkit::glob)).
//! The command is matched as [`describe`](weft_testkit::client::describe) prints it, with its words in
//! upper case. The replies are quoted raw bytes without the quotes, such as `:1\r\n`. Remove a row
//! that nothing has matched in a long run.

use weft_testkit::client::{Reply, describe};
use weft_testkit::glob;
use weft_testkit::value::quote;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Pattern of the command.
    pub command: String,
    /// Pattern of the raw reply of the server under test.
    pub ours: String,
    /// Pattern of the raw reply of the reference.
    pub reference: String,
    /// The reason why they may differ.
    pub why: String,
}

/// All rows of a table.
#[derive(Clone, Debug, Default)]
pub struct KnownDifferences {
    rows: Vec<Row>,
}

impl KnownDifferences {
    /// No differences are known.
    pub fn none() -> KnownDifferences {
        KnownDifferences::default()
    }

    /// Reads the table in a Markdown text; other text is skipped.
    ///
    /// # Panics
    /// On a row without four cells, or without a reason.
    pub fn from_markdown(text: &str) -> KnownDifferences {
        let body = text.lines().filter(|line| line.starts_with("| `"));
        KnownDifferences { rows: body.map(row).collect() }
    }

    /// The rows in their order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The index of the first row that explains this difference.
    pub fn explain(&self, args: &[Vec<u8>], ours: &Reply, reference: &Reply) -> Option<usize> {
        let upper: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_ascii_uppercase()).collect();
        let (command, ours, reference) =
            (describe(&upper), quote(&ours.raw), quote(&reference.raw));
        let inside = |quoted: &str| quoted[1..quoted.len() - 1].to_string();
        let (ours, reference) = (inside(&ours), inside(&reference));
        self.rows.iter().position(|row| {
            glob::matches(&row.command, &command)
                && glob::matches(&row.ours, &ours)
                && glob::matches(&row.reference, &reference)
        })
    }

    /// Whether a row accepts any reply to the command.
    pub fn explains_all(&self, args: &[Vec<u8>]) -> bool {
        let upper: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_ascii_uppercase()).collect();
        let command = describe(&upper);
        self.rows.iter().any(|row| {
            (&*row.ours, &*row.reference) == ("*", "*") && glob::matches(&row.command, &command)
        })
    }
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> =
        line.trim().trim_matches('|').split(" | ").map(|cell| cell.trim()).collect();
    let [command, ours, reference, why] = cells[..] else { panic!("not four cells: {line}") };
    let code = |cell: &str| {
        let code = cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
        code.unwrap_or_else(|| panic!("not in backquotes: {cell} in {line}")).to_string()
    };
    assert!(!why.is_empty(), "no reason: {line}");
    Row {
        command: code(command),
        ours: code(ours),
        reference: code(reference),
        why: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_testkit::value::parse;

    fn reply(raw: &str) -> Reply {
        Reply { value: parse(raw.as_bytes()).unwrap().unwrap().0, raw: raw.as_bytes().to_vec() }
    }

    #[test]
    fn row_explains_only_matching_differences() {
        let known = KnownDifferences::from_markdown(
            "# Text\n\n| command | weft | reference | why |\n|---|---|---|---|\n| `OBJECT REFCOUNT *` | `:1\\r\\n` | `:*` | not shared |\n",
        );
        assert_eq!(known.rows().len(), 1);
        let args =
            |words: &str| words.split(' ').map(|w| w.as_bytes().to_vec()).collect::<Vec<_>>();
        let explain = |words: &str, ours: &str, theirs: &str| {
            known.explain(&args(words), &reply(ours), &reply(theirs))
        };
        assert_eq!(explain("object refcount k", ":1\r\n", ":2\r\n"), Some(0));
        assert_eq!(explain("object refcount k", ":3\r\n", ":2\r\n"), None);
        assert_eq!(explain("object encoding k", ":1\r\n", ":2\r\n"), None);
        assert!(!known.explains_all(&args("object refcount k")));
        let known = KnownDifferences::from_markdown("| `LOLWUT*` | `*` | `*` | a picture |");
        assert!(known.explains_all(&args("lolwut 5")) && !known.explains_all(&args("get lolwut")));
    }

    #[test]
    #[should_panic(expected = "no reason")]
    fn a_row_needs_a_reason() {
        KnownDifferences::from_markdown("| `A` | `*` | `*` |  |");
    }
}
