//! Every command on keys has a seed for the fuzz target, `fuzz/corpus/commands/seed-<name>`.
//!
//! A fuzzer seldom finds a word like ZRANGEBYSCORE by chance.

use super::Problem;
use std::path::Path;

const SEEDS: &str = "fuzz/corpus/commands";
/// Commands without a grammar to make seeds of.
const OWN: &str = "tests/own_commands.md";

/// The names in a file of commands: the first field of each specification, with its line.
fn names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_spec = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let starts = line.contains("spec: Spec {");
        let name = line.trim().strip_prefix("name: \"").and_then(|rest| rest.strip_suffix("\","));
        let found = name.filter(|_| in_spec);
        in_spec = starts || (in_spec && found.is_none() && !line.contains('}'));
        found.map(|name| (at + 1, name))
    })
}

/// `file` is relative to the root.
pub fn check(root: &Path, file: &Path, text: &str, report: &mut Vec<Problem>) {
    if !file.starts_with("crates/commands/src") {
        return;
    }
    let own = std::fs::read_to_string(root.join(OWN)).unwrap_or_default();
    let is_own = |name: &str| own.lines().any(|line| line.starts_with(&format!("| `{name}`")));
    for (line, name) in names(text).filter(|(_, name)| !is_own(name)) {
        let seed = Path::new(SEEDS).join(format!("seed-{name}"));
        if !root.join(&seed).is_file() {
            let message = format!(
                "no {}: cargo run -p weft-testkit-differential --example seeds -- {SEEDS}",
                seed.display()
            );
            report.push(Problem { file: file.to_path_buf(), line, message });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_specifications_are_found() {
        let text = "const A: Command = Command {\n    spec: Spec {\n        name: \"get\",\n        \
                    arity: 2,\n    },\n};\nlet x = Thing {\n    name: \"no command\",\n};\n";
        assert_eq!(names(text).collect::<Vec<_>>(), [(3, "get")]);
    }
}
