//! The blocks of a page, and what the page says about running them.
//!
//! The info string of a fenced block is a language and, for commands, an optional mark:
//!
//! | info string | the test |
//! |---|---|
//! | `sh` | runs the lines; the last exit code must be 0 |
//! | `sh server` | starts the server, and ends it after the page |
//! | `console` | runs the lines after `$ ` and compares all that they print |
//! | `redis` | sends the lines to the server on port 6379; an error reply fails |
//! | `conf` | starts a server with the lines as its file |
//! | any language, then `file NAME` | writes the lines into this file |
//! | one of the first five, then `no-test: REASON` | counts the block |
//! | one of the first five, then `tested-by: FILE` | counts the block; the file must mention the page |
//! | `text`, `json`, `yaml`, `acl` | ignores the block: it has no commands |
//!
//! All else is an error, so that no command stays untested unnoticed.

/// How a test treats a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    Run,
    Serve,
    Compare,
    Send,
    Configure,
    /// Written into a file of this name.
    Write(String),
    /// Not run, for this reason.
    NoTest(String),
    /// Run by another test, in this file.
    TestedBy(String),
    /// No commands.
    Ignore,
}

/// A fenced block.
#[derive(Debug)]
pub struct Block {
    /// Line of the opening fence, from 1.
    pub line: usize,
    pub action: Action,
    pub text: String,
}

/// Splits a page into its blocks. An error names the line.
pub fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    let mut after_blank = true;
    while let Some((i, line)) = lines.next() {
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        if let Some(info) = bare.strip_prefix("```") {
            let action = action(info).map_err(|e| format!("line {}: {e}", i + 1))?;
            let mut text = String::new();
            loop {
                let (_, line) =
                    lines.next().ok_or_else(|| format!("line {}: an open fence", i + 1))?;
                if line.trim() == "```" {
                    break;
                }
                text += line.get(indent..).unwrap_or_default();
                text.push('\n');
            }
            blocks.push(Block { line: i + 1, action, text });
        } else if indent >= 4 && after_blank {
            return Err(format!("line {}: an indented block; use a fence with a language", i + 1));
        }
        after_blank = line.trim().is_empty();
    }
    Ok(blocks)
}

fn action(info: &str) -> Result<Action, String> {
    let (language, mark) = info.split_once(' ').unwrap_or((info, ""));
    if let Some((kind, value)) = mark.split_once(": ") {
        let value = value.trim().to_string();
        match kind {
            "no-test" if !value.is_empty() => return Ok(Action::NoTest(value)),
            "tested-by" if !value.is_empty() => return Ok(Action::TestedBy(value)),
            _ => {}
        }
    }
    if let Some(name) = mark.strip_prefix("file ") {
        return Ok(Action::Write(name.to_string()));
    }
    match (language, mark) {
        ("sh", "") => Ok(Action::Run),
        ("sh", "server") => Ok(Action::Serve),
        ("console", "") => Ok(Action::Compare),
        ("redis", "") => Ok(Action::Send),
        ("conf", "") => Ok(Action::Configure),
        ("text" | "json" | "yaml" | "acl", "") => Ok(Action::Ignore),
        _ => Err(format!("{info:?} says neither how to run the block nor why not")),
    }
}

/// The commands of a `console` block, each with its output. A line that ends with a backslash continues.
pub fn commands(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) if !is_open => found.push((format!("{command}\n"), String::new())),
            (_, Some(last)) if is_open => last.0 += &format!("{line}\n"),
            (_, Some(last)) => last.1 += &format!("{line}\n"),
            (_, None) => {}
        }
        is_open = found
            .last()
            .is_some_and(|(command, output)| output.is_empty() && command.ends_with("\\\n"));
    }
    found
}

/// Whether real output has the form of the shown one: the same lines in the same order, where spaces count as one, a
/// number stands for any number, and `...` for any text or, alone on a line, for any lines.
pub fn is_like(shown: &str, real: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(plain).filter(|line| !line.is_empty()).collect()
    };
    let (shown, real) = (lines(shown), lines(real));
    has_lines(&shown, &real)
}

fn has_lines(shown: &[String], real: &[String]) -> bool {
    match shown.split_first() {
        None => real.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=real.len()).any(|skipped| has_lines(rest, &real[skipped..]))
        }
        Some((first, rest)) => {
            real.first().is_some_and(|line| has_form(first, line)) && has_lines(rest, &real[1..])
        }
    }
}

/// Spaces as one, numbers as `0`.
fn plain(line: &str) -> String {
    let mut plain = String::new();
    for word in line.split_whitespace() {
        if !plain.is_empty() {
            plain.push(' ');
        }
        let mut in_number = false;
        for (i, c) in word.char_indices() {
            let next_is_digit = word[i + c.len_utf8()..].starts_with(|c: char| c.is_ascii_digit());
            let in_next =
                c.is_ascii_digit() || (in_number && (c == '.' || c == ',') && next_is_digit);
            if in_next && !in_number {
                plain.push('0');
            } else if !in_next {
                plain.push(c);
            }
            in_number = in_next;
        }
    }
    plain
}

fn has_form(shown: &str, real: &str) -> bool {
    let mut parts = shown.split("...");
    let Some(mut rest) = parts.next().and_then(|first| real.strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

#[test]
fn block_without_a_mark_is_refused() {
    let page = "text\n\n```sh\na\n```\n\n1. x\n\n   ```sh no-test: needs root\n   b\n   ```\n";
    let found = blocks(page).expect("a good page");
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].line, found[0].text.as_str()), (3, "a\n"));
    assert_eq!(found[1].action, Action::NoTest("needs root".to_string()));
    assert_eq!(found[1].text, "b\n");
    for wrong in [
        "```\na\n```\n",
        "```bash\na\n```\n",
        "```sh no-test:\na\n```\n",
        "```sh no-test: \na\n```\n",
        "```sh sometimes\na\n```\n",
        "```sh\na\n",
        "text\n\n    a\n",
    ] {
        assert!(blocks(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn console_block_has_commands_and_output() {
    let found = commands("$ a \\\n  b\nc\n$ d\n$ e\nf\n\ng\n");
    let expected = [("a \\\n  b\n", "c\n"), ("d\n", ""), ("e\n", "f\n\ng\n")];
    assert_eq!(found, expected.map(|(a, b)| (a.to_string(), b.to_string())));
}

#[test]
fn output_is_compared_by_form() {
    for (shown, real) in [
        ("a  1.5 us\n", "a 23,004 us\n"),
        ("a\n...\nz\n", "a\nb\nc\nz\n"),
        ("a\n...\nz\n", "a\nz\n"),
        ("cpu ... of ...: ok\n", "cpu 3 x of b: ok\n"),
        ("", "\n"),
    ] {
        assert!(is_like(shown, real), "{shown:?} {real:?}");
    }
    for (shown, real) in [
        ("a 1\n", "b 1\n"),
        ("a\n", "a\nb\n"),
        ("a\nb\n", "a\n"),
        ("a\n...\nz\n", "a\nb\n"),
        ("a ... z\n", "a b y\n"),
        ("OK\n", ""),
    ] {
        assert!(!is_like(shown, real), "{shown:?} {real:?}");
    }
}
