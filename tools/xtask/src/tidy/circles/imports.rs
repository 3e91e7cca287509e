//! Reads the imports between the modules of a crate from their sources, without a compiler.
//!
//! A module is a file. It imports another one by `use crate::...`, `use super::...`, `use self::...` or the name of
//! a child, and by such paths in its code. A path that leads to a re-export is followed to the module that defines
//! the name. Modules and blocks for tests don't count, and neither does `mod child;`.

use std::collections::{BTreeMap, BTreeSet};

/// The sources of a crate by module path (`a::b`; the root is empty), without comments.
pub type Sources = BTreeMap<String, String>;

/// For each module, the others that it imports.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// The text without comments, up to the first block of tests.
pub fn strip(text: &str) -> String {
    let body = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = body.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules that a file declares for tests only.
pub fn declared_for_tests(text: &str) -> Vec<String> {
    let mut lines = text.lines().map(str::trim).peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(") && line.contains("test") {
            let next = lines.peek().copied().unwrap_or_default();
            found.extend(
                next.strip_prefix("mod ").and_then(|n| n.strip_suffix(';')).map(String::from),
            );
        }
    }
    found
}

/// The statements that begin with `use` after `prefix`, each up to its semicolon.
fn uses(text: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("use ") {
        let before = &rest[..at];
        let line = &before[before.rfind('\n').map_or(0, |n| n + 1)..];
        let head = line.trim();
        rest = &rest[at + "use ".len()..];
        let is_public = head.starts_with("pub");
        if !(head.is_empty() || is_public && head.split_whitespace().count() == 1) {
            continue;
        }
        let end = rest.find(';').unwrap_or(rest.len());
        found.push((is_public, rest[..end].split_whitespace().collect::<Vec<_>>().join(" ")));
        rest = &rest[end..];
    }
    found
}

/// The leaves of a tree of paths: `a::{b, c::d}` has two. A leaf that is renamed keeps both names.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else { return vec![tree.to_string()] };
    let close = tree.rfind('}').unwrap_or(tree.len());
    let (head, body) = (&tree[..open], &tree[open + 1..close]);
    let (mut depth, mut from, mut parts) = (0usize, 0, Vec::new());
    for (at, letter) in body.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&body[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&body[from..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| leaves(part).into_iter().map(|leaf| format!("{head}{leaf}"))).collect()
}

/// Joins two paths, of which one may be empty.
fn join(a: &str, b: &str) -> String {
    match (a, b) {
        ("", path) | (path, "") => path.to_string(),
        (a, b) => format!("{a}::{b}"),
    }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// A path of `module` from the root of the crate; `None`: it leads out of the crate.
fn absolute(sources: &Sources, module: &str, path: &str) -> Option<String> {
    if let Some(rest) = path.strip_prefix("crate::") {
        return Some(rest.to_string());
    }
    let (mut base, mut path) = (module, path);
    if let Some(rest) = path.strip_prefix("self::") {
        return Some(join(base, rest));
    }
    if path.starts_with("super::") {
        while let Some(rest) = path.strip_prefix("super::") {
            (base, path) = (parent(base), rest);
        }
        return Some(join(base, path));
    }
    let child = join(module, path.split("::").next().unwrap_or_default());
    (sources.contains_key(&child) && !module.is_empty()).then(|| join(module, path))
}

/// Names that modules re-export, with the path that each stands for.
fn re_exports(sources: &Sources) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (module, text) in sources {
        for (_, tree) in uses(text).into_iter().filter(|(is_public, _)| *is_public) {
            for leaf in leaves(&tree) {
                let (path, alias) = leaf.split_once(" as ").unwrap_or((&leaf, ""));
                let Some(path) = absolute(sources, module, path.trim()) else { continue };
                let last = path.rsplit("::").next().unwrap_or_default();
                let name = if alias.is_empty() { last } else { alias.trim() };
                found.insert(join(module, name), path.clone());
            }
        }
    }
    found
}

/// The longest beginning of `path` that `is`, with the rest.
fn longest(path: &str, is: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
    let mut head = path;
    loop {
        if is(head) {
            return Some((head, path[head.len()..].trim_start_matches("::")));
        }
        head = head.rsplit_once("::")?.0;
    }
}

/// The module that defines what `path` names.
fn defining(sources: &Sources, exports: &BTreeMap<String, String>, path: String) -> String {
    const MOST: usize = 8;
    let mut path = path;
    for _ in 0..MOST {
        let Some((head, rest)) = longest(&path, |head| exports.contains_key(head)) else { break };
        path = join(&exports[head], rest);
    }
    longest(&path, |head| sources.contains_key(head)).map_or("", |(head, _)| head).to_string()
}

/// Paths in code that begin with `crate::` or `super::`.
fn inline_paths(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let is_inside = text[..at].chars().next_back().is_some_and(is_part);
            let end = text[at..].find(|c| !is_part(c)).map_or(text.len(), |n| at + n);
            if !is_inside {
                found.push(text[at..end].trim_end_matches(':').to_string());
            }
        }
    }
    found
}

/// The imports of all modules.
pub fn graph(sources: &Sources) -> Graph {
    let exports = re_exports(sources);
    let mut graph = Graph::new();
    for (module, text) in sources {
        let trees = uses(text);
        // A re-export is not an import: its users are followed to the defining module.
        let own = trees.iter().filter(|(is_public, _)| !is_public);
        let of_uses = own.flat_map(|(_, tree)| leaves(tree));
        let paths = of_uses.chain(inline_paths(text));
        let to = paths.filter_map(|path| {
            let path = path.split(" as ").next().unwrap_or_default().trim();
            let path = path.strip_suffix("::self").or(path.strip_suffix("::*")).unwrap_or(path);
            let to = defining(sources, &exports, absolute(sources, module, path)?);
            (to != *module && !to.is_empty()).then_some(to)
        });
        graph.insert(module.clone(), to.collect());
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        files.iter().map(|(module, text)| (module.to_string(), strip(text))).collect()
    }

    fn imports(graph: &Graph, module: &str) -> Vec<String> {
        graph[module].iter().cloned().collect()
    }

    #[test]
    fn imports_are_found_in_every_form() {
        let all = sources(&[
            ("", "pub mod a;"),
            ("a", "pub mod b;\npub use b::Thing;\nuse crate::c::{self, d::{E, F as G}};"),
            ("a::b", "// use crate::x::Y;\nuse super::super::c::H;"),
            ("c", "pub mod d;\nfn f() { crate::a::Thing::new() }"),
            ("c::d", "use std::io;\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}"),
        ]);
        let graph = graph(&all);
        assert_eq!(imports(&graph, "a"), ["c", "c::d"], "a re-export is not an import");
        assert_eq!(imports(&graph, "a::b"), ["c"]);
        assert_eq!(imports(&graph, "c"), ["a::b"], "the re-export is followed");
        assert!(imports(&graph, "c::d").is_empty());
    }

    #[test]
    fn modules_for_tests_are_known() {
        let text = "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(all(test, not(loom)))]\nmod c;\n";
        assert_eq!(declared_for_tests(text), ["b", "c"]);
    }
}
