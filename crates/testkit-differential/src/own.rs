//! Commands that the reference doesn't have, from a table that developers also read:
//! `tests/own_commands.md`.
//!
//! ```text
//! | command | why we have it | tested in |
//! |---|---|---|
//! | `mycommand` | ... | `tests/tests/values/mycommand.rs` |
//! ```

const TABLE: &str = include_str!("../../../tests/own_commands.md");

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCommand {
    /// Its name in COMMAND LIST.
    pub name: String,
    /// The reason for the command.
    pub why: String,
    /// The file that tests it.
    pub tested_in: String,
}

/// The rows of the tree's table.
pub fn list() -> Vec<OwnCommand> {
    from_markdown(TABLE)
}

/// Whether a command, or the container of a subcommand, is our own.
pub fn is_own(name: &str) -> bool {
    is_among(&list(), name)
}

fn is_among(list: &[OwnCommand], name: &str) -> bool {
    let container = name.split('|').next().unwrap_or_default();
    list.iter()
        .any(|own| own.name.eq_ignore_ascii_case(name) || own.name.eq_ignore_ascii_case(container))
}

/// Wrong rows of the list, given the commands of both servers in COMMAND LIST.
pub fn stale(list: &[OwnCommand], ours: &[String], theirs: &[String]) -> Vec<String> {
    let has = |names: &[String], name: &str| names.iter().any(|n| n.eq_ignore_ascii_case(name));
    let complaint = |own: &OwnCommand| {
        if !has(ours, &own.name) {
            Some(format!("{} is listed as our own, but the server does not have it", own.name))
        } else if has(theirs, &own.name) {
            Some(format!("{} is listed as our own, but the reference has it", own.name))
        } else {
            None
        }
    };
    list.iter().filter_map(complaint).collect()
}

/// # Panics
/// On a row without three cells.
fn from_markdown(text: &str) -> Vec<OwnCommand> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, why, tested_in] = cells[..] else { panic!("not three cells: {line}") };
        let code = |cell: &str| cell.trim_matches('`').to_string();
        OwnCommand { name: code(name), why: why.to_string(), tested_in: code(tested_in) }
    };
    text.lines().filter(|line| line.starts_with("| `")).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn rows_name_a_reason_and_a_test() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for own in list() {
            assert!(!own.why.is_empty(), "{}: why?", own.name);
            assert!(root.join(&own.tested_in).is_file(), "{}: no {}", own.name, own.tested_in);
        }
    }

    #[test]
    fn list_of_own_commands_is_parsed_and_checked() {
        let list = from_markdown("| command | why |\n|---|---|\n| `mine` | for fun | `a.rs` |\n");
        let mine =
            OwnCommand { name: "mine".into(), why: "for fun".into(), tested_in: "a.rs".into() };
        assert_eq!(list, [mine]);
        assert!(is_among(&list, "MINE") && is_among(&list, "mine|sub") && !is_among(&list, "get"));
        let names = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
        assert!(stale(&list, &names(&["get", "mine"]), &names(&["get"])).is_empty());
        assert_eq!(stale(&list, &names(&["get"]), &names(&["get"])).len(), 1);
        assert_eq!(stale(&list, &names(&["mine"]), &names(&["mine"])).len(), 1);
    }
}
