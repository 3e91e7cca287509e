//! Links between the Markdown files of the tree: the file exists, and so does the heading. Every page of `docs/` is in the
//! book's table of contents.
//!
//! Links to other machines are not checked: a check must not depend on a network.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::Problem;

/// Pages of the book.
const BOOK: &str = "docs";

/// The table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Parts of generated pages: their links are relative to the page.
const PARTS: [&str; 1] = ["crates/metrics/src/docs.md"];

/// A link to a file of the tree or to a heading.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    /// From 1.
    pub line: usize,
    /// As written, without the heading; empty for a heading of the same file.
    pub path: String,
    /// The heading, or empty.
    pub heading: String,
}

/// Whether the rule applies to a file.
fn applies(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "md")
        && PARTS.iter().all(|part| file != Path::new(part))
}

/// Checks the links of these files, which are relative to `root`.
pub fn check(root: &Path, files: &[PathBuf], problems: &mut Vec<Problem>) {
    let mut headings = BTreeMap::new();
    for file in files.iter().filter(|file| applies(file)) {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        for link in links(&text) {
            if let Some(message) = broken(root, file, &link, &mut headings) {
                problems.push(Problem { file: file.clone(), line: link.line, message });
            }
        }
    }
    let summary = fs::read_to_string(root.join(SUMMARY)).unwrap_or_default();
    let listed: BTreeSet<PathBuf> =
        links(&summary).iter().map(|link| join(Path::new(BOOK), &link.path)).collect();
    let pages = files.iter().filter(|file| file.starts_with(BOOK) && applies(file));
    for page in pages.filter(|page| *page != Path::new(SUMMARY) && !listed.contains(*page)) {
        let message = format!("a page that {SUMMARY} doesn't list");
        problems.push(Problem { file: page.clone(), line: 1, message });
    }
}

/// The fault of a link, if it has one.
fn broken(
    root: &Path,
    file: &Path,
    link: &Link,
    headings: &mut BTreeMap<PathBuf, BTreeSet<String>>,
) -> Option<String> {
    let target = match link.path.as_str() {
        "" => file.to_path_buf(),
        path => join(file.parent().unwrap_or(Path::new("")), path),
    };
    if target.starts_with("..") {
        return Some(format!("a link out of the tree: {}", link.path));
    }
    if !root.join(&target).exists() {
        return Some(format!("a link to a missing file: {}", link.path));
    }
    if link.heading.is_empty() || target.extension().is_none_or(|extension| extension != "md") {
        return None;
    }
    let known = headings
        .entry(target.clone())
        .or_insert_with(|| anchors(&fs::read_to_string(root.join(&target)).unwrap_or_default()));
    let heading = &link.heading;
    (!known.contains(heading)).then(|| format!("no heading #{heading} in {}", target.display()))
}

/// A path relative to `folder`, without `.` and `..` where possible.
pub fn join(folder: &Path, path: &str) -> PathBuf {
    let mut joined = PathBuf::new();
    for part in folder.join(path).components() {
        let is_inside =
            joined.components().next_back().is_some_and(|last| last != Component::ParentDir);
        match part {
            Component::CurDir => {}
            Component::ParentDir if is_inside => {
                joined.pop();
            }
            part => joined.push(part),
        }
    }
    joined
}

/// The links of a Markdown text to files and headings, outside of code.
pub fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (line, prose) in prose(text) {
        for (at, _) in prose.match_indices("](") {
            let rest = &prose[at + 2..];
            let Some(target) = rest.split([')', ' ']).next() else { continue };
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            found.push(Link { line, path: path.to_string(), heading: heading.to_string() });
        }
    }
    found
}

/// The lines outside of fences, without code spans, with their numbers.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut in_fence = false;
    for (i, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence && !line.starts_with("    ") {
            // Every second part is code. A span that goes over lines has no links in our pages.
            let parts = line.split('`').enumerate();
            let text: Vec<&str> =
                parts.map(|(i, part)| if i % 2 == 0 { part } else { "" }).collect();
            lines.push((i + 1, text.join("`")));
        }
    }
    lines
}

/// The anchors of the headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut in_fence = false;
    for line in text.lines() {
        if line.starts_with("```") {
            in_fence = !in_fence;
        }
        let title = line.trim_start_matches('#');
        if in_fence || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let name = anchor(title.trim());
        let free = (0..).map(|n| if n == 0 { name.clone() } else { format!("{name}-{n}") });
        let free = free.into_iter().find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_not_links() {
        let text = "[a](b.md#c) and [d](#e), `[x](y)`, [web](https://a.b/c)\n```text\n[x](y)\n```\n    [x](y)\n\
                    ![i](f/i.svg \"t\")\n";
        let found: Vec<(usize, String, String)> =
            links(text).into_iter().map(|link| (link.line, link.path, link.heading)).collect();
        let expected = [(1, "b.md", "c"), (1, "", "e"), (6, "f/i.svg", "")];
        assert_eq!(found, expected.map(|(line, a, b)| (line, a.to_string(), b.to_string())));
    }

    #[test]
    fn anchors_are_those_of_the_renderers() {
        let text = "# state.json\n## A `b-c_d` & e\n## Same\n### Same\n```sh\n# no\n```\n#no\n";
        let expected = ["a-b-c_d--e", "same", "same-1", "statejson"];
        assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn paths_are_joined() {
        assert_eq!(join(Path::new("docs/design"), "../a.md"), Path::new("docs/a.md"));
        assert_eq!(join(Path::new("docs"), "../../a.md"), Path::new("../a.md"));
        assert_eq!(join(Path::new(""), "./a/b"), Path::new("a/b"));
    }

    #[test]
    fn broken_links_and_unlisted_pages_are_found() {
        let root = tempdir();
        fs::create_dir_all(root.join("docs")).expect("a folder");
        for (file, text) in [
            ("docs/SUMMARY.md", "[a](a.md)\n"),
            ("docs/a.md", "# A\n[x](b.md#b)\n[x](b.md#c)\n[x](c.md)\n[x](#a)\n[x](../../z)\n"),
            ("docs/b.md", "# B\n"),
        ] {
            fs::write(root.join(file), text).expect("a file");
        }
        let files = ["docs/SUMMARY.md", "docs/a.md", "docs/b.md"].map(PathBuf::from);
        let mut problems = Vec::new();
        check(&root, &files, &mut problems);
        let found: Vec<String> = problems.iter().map(Problem::to_string).collect();
        let expected = [
            "docs/a.md:3: no heading #c in docs/b.md",
            "docs/a.md:4: a link to a missing file: c.md",
            "docs/a.md:6: a link out of the tree: ../../z",
            "docs/b.md:1: a page that docs/SUMMARY.md doesn't list",
        ];
        fs::remove_dir_all(&root).expect("our folder");
        assert_eq!(found, expected);
    }

    /// A folder of this test's own.
    fn tempdir() -> PathBuf {
        let dir = std::env::temp_dir().join(format!("weft-links-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        dir
    }
}
