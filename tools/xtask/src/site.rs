//! `cargo xtask site`: the documentation as a web site, in `target/site`.
//!
//! mdBook makes the site from `docs/` as it is; `mdbook build docs` works, too. But pages link to files outside of `docs/`,
//! which mdBook leaves out. So this task makes a second book, `repository/`, of the Markdown files that are linked from there.
//! It copies other linked files as text, and changes the links. Then it checks every link and heading of the result.
//!
//! Rejected: links to a server of repositories, which a site without a network, or of another version, doesn't have; copies in
//! `docs/`, which become old.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tidy::links;

/// The version of mdBook in the advice to install it.
const MDBOOK: &str = "0.5.4";

/// The folder of the site for files outside of `docs/`.
const OUTSIDE: &str = "repository";

/// Kinds of files that a browser shows by themselves. Others get the end `.txt`.
const SHOWN: [&str; 5] = ["html", "svg", "png", "txt", "css"];

type Result<T> = std::result::Result<T, String>;

/// Makes the site. Returns what it contains.
pub fn build(root: &Path) -> Result<String> {
    let mdbook = std::env::var_os("MDBOOK").unwrap_or_else(|| "mdbook".into());
    let found = Command::new(&mdbook).arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        return Err(format!(
            "no mdbook on PATH or in MDBOOK; to install it: cargo install mdbook --locked --version {MDBOOK}"
        ));
    }
    let root = root.canonicalize().map_err(|e| e.to_string())?;
    let site = root.join("target/site");
    make(Command::new(&mdbook).arg("build").arg(root.join("docs")).arg("--dest-dir").arg(&site))?;
    let outside = outside_pages(&root)?;
    let second = root.join("target/site-repository");
    write_second_book(&root, &second, &outside)?;
    let place = site.join(OUTSIDE);
    make(Command::new(&mdbook).arg("build").arg(&second).arg("--dest-dir").arg(place))?;
    let mut pages = Vec::new();
    html_below(&site, &mut pages)?;
    let mut mover = Mover { root, site, copied: BTreeSet::new() };
    for page in &pages {
        mover.change_links(page)?;
    }
    let broken = broken_links(&mover.site, &pages)?;
    if !broken.is_empty() {
        return Err(broken.join("\n"));
    }
    Ok(format!(
        "site: {} pages, {} other files, no broken link; open target/site/index.html",
        pages.len(),
        mover.copied.len()
    ))
}

fn make(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(|e| e.to_string())?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(log)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, text: &[u8]) -> Result<()> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, text)).map_err(|e| format!("{}: {e}", path.display()))
}

/// Markdown files outside of `docs/` that a page links to, directly or through another such file.
fn outside_pages(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut open: Vec<PathBuf> = links::links(&read(&root.join("docs/SUMMARY.md"))?)
        .into_iter()
        // A title without a page has no path.
        .filter(|link| !link.path.is_empty())
        .map(|link| links::join(Path::new("docs"), &link.path))
        .collect();
    while let Some(page) = open.pop() {
        let folder = page.parent().unwrap_or(Path::new(""));
        for link in links::links(&read(&root.join(&page))?) {
            let target = links::join(folder, &link.path);
            let is_page = target.extension().is_some_and(|extension| extension == "md");
            if is_page && !target.starts_with("docs") && found.insert(target.clone()) {
                open.push(target);
            }
        }
    }
    Ok(found)
}

/// Writes the source of the second book.
fn write_second_book(root: &Path, book: &Path, pages: &BTreeSet<PathBuf>) -> Result<()> {
    if book.exists() {
        fs::remove_dir_all(book).map_err(|e| e.to_string())?;
    }
    let mut summary = "# Summary\n\n".to_string();
    for page in pages {
        let text = read(&root.join(page))?;
        let title = text.lines().find_map(|line| line.strip_prefix("# "));
        let title = title.map_or(page.display().to_string(), |title| title.replace(['[', ']'], ""));
        summary += &format!("- [{title}]({})\n", page.display());
        write(&book.join("src").join(page), text.as_bytes())?;
    }
    write(&book.join("src/SUMMARY.md"), summary.as_bytes())?;
    let settings = "[book]\ntitle = \"Weft: files of the repository\"\n\n[output.html.search]\nenable = false\n\n\
                    [output.html.print]\nenable = false\n";
    write(&book.join("book.toml"), settings.as_bytes())
}

fn html_below(folder: &Path, pages: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).map_err(|e| e.to_string())?;
    for entry in entries {
        let path = entry.map_err(|e| e.to_string())?.path();
        // The page for missing addresses has links from the root of a server.
        if path.is_dir() {
            html_below(&path, pages)?;
        } else if path.extension().is_some_and(|e| e == "html") && !path.ends_with("404.html") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(())
}

/// The values of `href` and `src`, with their places.
fn targets(html: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for attribute in [" href=\"", " src=\""] {
        for (at, _) in html.match_indices(attribute) {
            let begin = at + attribute.len();
            let value = html[begin..].split('"').next().unwrap_or_default();
            let is_elsewhere = value.contains(':') || value.is_empty() || value.starts_with("//");
            if !is_elsewhere {
                found.push((begin, value));
            }
        }
    }
    found.sort_unstable();
    found
}

/// Changes links to files outside of the book.
struct Mover {
    root: PathBuf,
    site: PathBuf,
    copied: BTreeSet<PathBuf>,
}

impl Mover {
    fn change_links(&mut self, page: &Path) -> Result<()> {
        let html = read(page)?;
        let place = page.strip_prefix(&self.site).unwrap_or(page).to_path_buf();
        let mut changed = String::new();
        let mut done = 0;
        for (at, target) in targets(&html) {
            changed += &html[done..at];
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            changed += &match path {
                "" => target.to_string(),
                path => self.change(&place, path, heading)?,
            };
            done = at + target.len();
        }
        changed += &html[done..];
        if changed == html { Ok(()) } else { write(page, changed.as_bytes()) }
    }

    /// The new value of a link of the page at `place` in the site.
    fn change(&mut self, place: &Path, path: &str, heading: &str) -> Result<String> {
        let folder = in_repository(place.parent().unwrap_or(Path::new("")));
        let file = links::join(&folder, path);
        let mut target = in_site(&file);
        if target.ends_with("README.html") {
            target.set_file_name("index.html");
        }
        let mut heading = heading;
        let source = self.root.join(&file);
        if source.is_dir() {
            target.push("files.txt");
            write(&self.site.join(&target), names(&source)?.as_bytes())?;
        } else if !self.site.join(&target).exists() {
            if !source.is_file() {
                return Err(format!("{}: a link to a missing file: {path}", place.display()));
            }
            if !target.extension().is_some_and(|e| SHOWN.iter().any(|shown| e == *shown)) {
                target.as_mut_os_string().push(".txt");
            }
            write(&self.site.join(&target), &fs::read(&source).map_err(|e| e.to_string())?)?;
            self.copied.insert(target.clone());
            heading = "";
        }
        let up = "../".repeat(place.components().count() - 1);
        let plain = links::join(place.parent().unwrap_or(Path::new("")), path);
        let new = if plain == target { path.to_string() } else { up + &target.to_string_lossy() };
        Ok(if heading.is_empty() { new } else { format!("{new}#{heading}") })
    }
}

/// The names of the files in a folder, each on a line.
fn names(folder: &Path) -> Result<String> {
    let entries = fs::read_dir(folder).map_err(|e| e.to_string())?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(|e| e.to_string())?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names.join("\n") + "\n")
}

/// The folder of the repository that a folder of the site stands for.
fn in_repository(place: &Path) -> PathBuf {
    match place.strip_prefix(OUTSIDE) {
        Ok(rest) => rest.to_path_buf(),
        Err(_) => Path::new("docs").join(place),
    }
}

/// The place in the site for a file of the repository.
fn in_site(file: &Path) -> PathBuf {
    match file.strip_prefix("docs") {
        Ok(rest) => rest.with_extension(match rest.extension().and_then(|e| e.to_str()) {
            Some("md") => "html",
            other => other.unwrap_or_default(),
        }),
        Err(_) => Path::new(OUTSIDE).join(file),
    }
}

/// Links of the made pages without a file or without a heading.
fn broken_links(site: &Path, pages: &[PathBuf]) -> Result<Vec<String>> {
    let mut ids: BTreeMap<PathBuf, String> = BTreeMap::new();
    for page in pages {
        ids.insert(page.clone(), read(page)?);
    }
    let mut broken = Vec::new();
    for page in pages {
        let place = page.strip_prefix(site).unwrap_or(page);
        for (_, target) in targets(&ids[page]) {
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = match path {
                "" => page.clone(),
                path => site.join(links::join(place.parent().unwrap_or(Path::new("")), path)),
            };
            let has_heading = heading.is_empty()
                || ids.get(&file).is_none_or(|html| html.contains(&format!("id=\"{heading}\"")));
            if !file.exists() || !has_heading {
                broken.push(format!("target/site/{}: broken link {target}", place.display()));
            }
        }
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_other_machines_are_left_alone() {
        let html =
            "<a class=\"x\" href=\"a.html#b\">c</a><img src=\"i.svg\"><a href=\"https://x\"></a>";
        let found: Vec<&str> = targets(html).into_iter().map(|(_, target)| target).collect();
        assert_eq!(found, ["a.html#b", "i.svg"]);
    }

    #[test]
    fn places_of_both_books() {
        assert_eq!(in_repository(Path::new("design")), Path::new("docs/design"));
        assert_eq!(in_repository(Path::new("repository/benches")), Path::new("benches"));
        assert_eq!(in_site(Path::new("docs/design/aof.html")), Path::new("design/aof.html"));
        assert_eq!(in_site(Path::new("weft.conf")), Path::new("repository/weft.conf"));
    }
}
