//! The prose of a file: the text that people read.
//!
//! | file | prose |
//! |---|---|
//! | Markdown | everything except blocks of code |
//! | Rust | comments, strings of three words or more, names of functions of three words or more |
//! | others | comments after `#`, and doc strings of Python |
//!
//! Wrapped lines are joined, so that a pattern may go over the end of a line.

use crate::tidy::source::{self, Piece};

/// A paragraph: joined lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paragraph {
    /// The text.
    pub text: String,
    /// The offset of each line in the text, and its number from 1.
    lines: Vec<(usize, usize)>,
}

impl Paragraph {
    fn push(&mut self, line: usize, text: &str) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.lines.push((self.text.len(), line));
        self.text.push_str(text);
    }

    /// The number of the line that holds this byte of the text.
    pub fn line(&self, at: usize) -> usize {
        let line = self.lines.iter().rev().find(|(begin, _)| *begin <= at);
        line.or(self.lines.first()).map_or(1, |(_, line)| *line)
    }
}

/// The fewest words of a string or of a name that is read as a sentence.
const SENTENCE: usize = 3;

/// The paragraphs of a file with this extension.
pub fn paragraphs(extension: &str, text: &str) -> Vec<Paragraph> {
    match extension {
        "md" => Prose::of(text.lines().enumerate().map(|(at, line)| (at + 1, line))),
        "rs" => rust(text),
        _ => hashes(text),
    }
}

/// Joins lines to paragraphs.
#[derive(Default)]
struct Prose {
    done: Vec<Paragraph>,
    open: Paragraph,
    /// Within a block of code.
    code: bool,
}

impl Prose {
    fn of<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Paragraph> {
        let mut prose = Prose::default();
        for (line, text) in lines {
            prose.line(line, text);
        }
        prose.end();
        prose.done
    }

    /// A line of Markdown, as in a document or in a comment.
    fn line(&mut self, line: usize, text: &str) {
        let trimmed = text.trim();
        if trimmed.starts_with("```") {
            self.code = !self.code;
            self.end();
        } else if self.code {
        } else if trimmed.is_empty() || (self.open.text.is_empty() && text.starts_with("    ")) {
            // An indented block of code follows a blank line.
            self.end();
        } else {
            let numbered = trimmed.split_once(". ").is_some_and(|(number, _)| {
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            });
            let item = numbered || trimmed.starts_with("* ") || trimmed.starts_with("- ");
            if item || trimmed.starts_with(['|', '#']) {
                self.end();
            }
            self.open.push(line, trimmed);
        }
    }

    fn end(&mut self) {
        if !self.open.text.is_empty() {
            self.done.push(std::mem::take(&mut self.open));
        }
    }
}

fn rust(text: &str) -> Vec<Paragraph> {
    let mut done = Vec::new();
    // Consecutive lines of comments are one text.
    let mut comment: Vec<(usize, String)> = Vec::new();
    let flush = |comment: &mut Vec<(usize, String)>, done: &mut Vec<Paragraph>| {
        done.extend(Prose::of(comment.iter().map(|(line, text)| (*line, text.as_str()))));
        comment.clear();
    };
    for Piece { line, alone, text } in source::pieces(text) {
        let Some(words) = text.strip_prefix("//") else {
            if text.starts_with("/*") {
                let inner = text.trim_start_matches(['/', '*']).trim_end_matches(['/', '*']);
                let lines = inner.lines().enumerate().map(|(at, text)| (line + at, text));
                done.extend(Prose::of(lines));
            } else if !text.starts_with('\'') {
                done.extend(string(line, &text));
            }
            continue;
        };
        let words = words.trim_start_matches(['/', '!']);
        let words = words.strip_prefix(' ').unwrap_or(words).to_string();
        if !comment.last().is_some_and(|(last, _)| alone && last + 1 == line) {
            flush(&mut comment, &mut done);
        }
        comment.push((line, words));
        // A comment after code ends on its line.
        if !alone {
            flush(&mut comment, &mut done);
        }
    }
    flush(&mut comment, &mut done);
    done.extend(names(text));
    done
}

/// A string literal with its quotes, if it is a sentence.
fn string(line: usize, literal: &str) -> Vec<Paragraph> {
    let raw = literal.starts_with('r');
    let inner = literal.trim_start_matches(['r', '#']).trim_end_matches('#').trim_matches('"');
    if inner.split_whitespace().count() < SENTENCE {
        return Vec::new();
    }
    let mut prose = Prose::default();
    for (at, text) in inner.lines().enumerate() {
        let text = if raw { text } else { text.trim_end_matches('\\') };
        for (part, text) in text.split("\\n").enumerate() {
            if part > 0 {
                prose.end();
            }
            // Code of other languages in strings is not prose, but indented text is.
            prose.line(line + at, text.trim());
        }
    }
    prose.end();
    prose.done
}

/// The names of functions that are sentences: those of tests, above all.
fn names(text: &str) -> Vec<Paragraph> {
    let code = source::code_only(text);
    let mut names = Vec::new();
    for (at, line) in code.lines().enumerate() {
        let Some((_, rest)) = line.split_once("fn ") else { continue };
        let name = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or("");
        if name.split('_').count() >= SENTENCE {
            let mut paragraph = Paragraph::default();
            paragraph.push(at + 1, &name.replace('_', " "));
            names.push(paragraph);
        }
    }
    names
}

/// Comments that `#` begins, and strings in three quotes.
fn hashes(text: &str) -> Vec<Paragraph> {
    let mut prose = Prose::default();
    let mut doc = false;
    for (at, line) in text.lines().enumerate() {
        let quotes = line.matches("\"\"\"").count();
        let trimmed = line.trim();
        if doc || quotes > 0 {
            prose.line(at + 1, trimmed.trim_matches('"'));
        } else if let Some(comment) = trimmed.strip_prefix('#') {
            prose.line(at + 1, comment.trim_start_matches(['#', '!']).trim());
        } else {
            prose.end();
            if let Some((_, comment)) = line.split_once(" # ") {
                prose.line(at + 1, comment.trim());
                prose.end();
            }
        }
        doc ^= quotes % 2 == 1;
        if quotes > 0 && !doc {
            prose.end();
        }
    }
    prose.end();
    prose.done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(extension: &str, text: &str) -> Vec<String> {
        paragraphs(extension, text).into_iter().map(|paragraph| paragraph.text).collect()
    }

    #[test]
    fn markdown_joins_lines_and_leaves_out_code() {
        let text = "# A\nb\nc\n\n    code\n\nd:\n\n```\ncode\n```\n* e\n  f\n| g | h |\n1. i\n";
        assert_eq!(texts("md", text), ["# A b c", "d:", "* e f", "| g | h |", "1. i"]);
        let found = paragraphs("md", "a\nbc\n");
        assert_eq!((found[0].line(0), found[0].line(2), found[0].line(3)), (1, 2, 2));
    }

    #[test]
    fn rust_has_comments_sentences_and_names() {
        let text = "//! A\n//! b.\n//!\n//! C\nfn f() {} // d e f\n// g\nfn a_long_name() {\n    \
                    let s = \"one two \\\n        three\";\n    let t = \"no 'such\";\n    /* h */\n\
                    //! ```\n//! code\n//! ```\nlet r = r#\"x \"y\" z\"#;\n";
        let mut found = texts("rs", text);
        found.sort();
        let want = ["A b.", "C", "a long name", "d e f", "g", "h", "one two three", "x \"y\" z"];
        assert_eq!(found, want);
        let name = paragraphs("rs", text).pop().unwrap();
        assert_eq!((name.text.as_str(), name.line(0)), ("a long name", 7));
    }

    #[test]
    fn other_files_have_comments_and_doc_strings() {
        let text = "#!/bin/sh\n# A\n# b\nx = 1 # c\n\"\"\"D\ne.\"\"\"\ny = \"#f\"\n";
        assert_eq!(texts("py", text), ["/bin/sh A b", "c", "D e."]);
    }
}
