//! Modules of one crate that import each other, directly or through others, can't be read or moved separately.
//! This rule finds them, and no crate may get more of them.

mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Problem;
use imports::{Graph, Sources};

/// The number of modules of a crate that are in a circle; other crates have none. Numbers only
/// sink.
const ALLOWED: &[(&str, usize)] = &[
    ("crates/commands", 14),
    ("crates/config", 4),
    ("crates/keyspace", 28),
    ("crates/persist", 2),
    ("crates/replication", 3),
    ("crates/table", 5),
    ("crates/types", 11),
    ("tools/benchmark", 2),
    ("tools/tune", 9),
];

/// Reports crates whose number of modules in circles differs from the recorded one.
///
/// # Errors
/// If the sources can't be read.
pub fn check(root: &Path, problems: &mut Vec<Problem>) -> io::Result<()> {
    for folder in ["crates", "tools"] {
        for entry in fs::read_dir(root.join(folder))? {
            let name = format!("{folder}/{}", entry?.file_name().to_string_lossy());
            let source = root.join(&name).join("src");
            if source.is_dir() {
                let circles = circles(&imports::graph(&read(&source)?));
                problems.extend(compare(&name, &circles));
            }
        }
    }
    Ok(())
}

fn compare(name: &str, circles: &[Vec<String>]) -> Option<Problem> {
    let found: usize = circles.iter().map(Vec::len).sum();
    let allowed = ALLOWED.iter().find(|(of, _)| *of == name).map_or(0, |(_, number)| *number);
    let message = match found.cmp(&allowed) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Less => {
            format!(
                "only {found} modules are in a circle, {allowed} are recorded: lower the number"
            )
        }
        std::cmp::Ordering::Greater => {
            let all: Vec<String> = circles.iter().map(|circle| circle.join(" ")).collect();
            format!("{found} modules are in a circle, {allowed} are allowed: {}", all.join("; "))
        }
    };
    Some(Problem { file: PathBuf::from(name), line: 1, message })
}

/// The sources below `folder`, without modules for tests.
fn read(folder: &Path) -> io::Result<Sources> {
    let mut files = Vec::new();
    collect(folder, Path::new(""), &mut files)?;
    let mut sources = Sources::new();
    let mut for_tests = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(folder.join(&file))?;
        let module = module_of(&file);
        for name in imports::declared_for_tests(&text) {
            for_tests.insert(if module.is_empty() { name } else { format!("{module}::{name}") });
        }
        sources.insert(module, imports::strip(&text));
    }
    let is_for_tests = |module: &str| {
        for_tests.iter().any(|of| module == of || module.starts_with(&format!("{of}::")))
    };
    sources.retain(|module, _| !is_for_tests(module) && !module.ends_with("tests"));
    Ok(sources)
}

fn collect(folder: &Path, dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(dir))? {
        let entry = entry?;
        let path = dir.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(folder, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// `a/b.rs` and `a/b/mod.rs` are `a::b`; the root of a library or program is empty.
fn module_of(file: &Path) -> String {
    let path = file.with_extension("");
    let mut parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    if parts.last() == Some(&"mod") || parts.len() == 1 && matches!(parts[0], "lib" | "main") {
        parts.pop();
    }
    parts.join("::")
}

/// The circles of a graph: sets of modules, each of which reaches all others of its set.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|module| (module, reach(graph, module))).collect();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    for (module, reaches) in &reached {
        if !reaches.contains(module) || seen.contains(*module) {
            continue;
        }
        let circle: Vec<String> = reaches
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(module)))
            .map(|other| (*other).clone())
            .collect();
        seen.extend(circle.iter().cloned());
        found.push(circle);
    }
    found
}

/// The modules that `from` imports, directly or through others.
fn reach<'g>(graph: &'g Graph, from: &str) -> BTreeSet<&'g String> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&String> = graph.get(from).into_iter().flatten().collect();
    while let Some(module) = left.pop() {
        if reached.insert(module) {
            left.extend(graph.get(module).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circle_is_found_without_modules_that_depend_on_it() {
        let graph: Graph = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "")]
            .into_iter()
            .map(|(from, to)| (from.to_string(), Some(to.to_string()).into_iter().collect()))
            .collect();
        assert_eq!(circles(&graph), [["a", "b", "c"]]);
        let message = compare("crates/x", &circles(&graph)).map(|problem| problem.message);
        assert_eq!(message.unwrap(), "3 modules are in a circle, 0 are allowed: a b c");
        assert_eq!(compare("crates/x", &[]), None);
    }

    #[test]
    fn files_name_their_modules() {
        let names = ["lib.rs", "a.rs", "a/mod.rs", "a/b.rs"].map(|f| module_of(Path::new(f)));
        assert_eq!(names, ["", "a", "a", "a::b"]);
    }
}
