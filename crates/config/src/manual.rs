//! The manual pages and shell completions of the server, from the table of directives.
//!
//! `weft-server.1` is about the program, `weft.conf.5` about every directive. `weft-server
//! --install-docs` writes them, so they describe this binary.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use weft_base::share::{self, Completion};

use crate::cli::USAGE;
use crate::default_file::{default_lines, effect, facts};
use crate::directive::{Directive, Flags, Id, Status};
use crate::kind::Kind;
use crate::table::SECTIONS;

/// The program, as the pages call it.
const PROGRAM: &str = "weft-server";

/// Writes everything below `root`, a folder like `/usr/local/share`; returns the written files.
///
/// # Errors
/// Those of writing files.
pub fn install(root: &Path) -> io::Result<Vec<PathBuf>> {
    share::write(
        root,
        &[
            (share::man_page(1, PROGRAM), program_page()),
            (share::man_page(5, "weft.conf"), file_page()),
            (share::completion(Completion::Bash, PROGRAM), bash()),
            (share::completion(Completion::Zsh, PROGRAM), zsh()),
            (share::completion(Completion::Fish, PROGRAM), fish()),
        ],
    )
}

/// `weft-server.1`.
fn program_page() -> String {
    let mut out = head(
        "WEFT-SERVER",
        1,
        "weft-server",
        "in-memory data store that speaks the Redis protocol",
    );
    heading(&mut out, "SYNOPSIS");
    out.push_str(".nf\n");
    for line in USAGE.lines().take_while(|line| !line.is_empty()) {
        let _ = writeln!(out, "{}", text(line.trim_start_matches("Usage:").trim()));
    }
    out.push_str(".fi\n");
    heading(&mut out, "DESCRIPTION");
    for paragraph in USAGE.split("\n\n").skip(1) {
        let titled = paragraph.split_once(":\n").filter(|(title, _)| !title.contains(' '));
        if let Some((title, _)) = titled {
            heading(&mut out, &title.to_uppercase());
        }
        match titled.map_or(paragraph, |(_, body)| body) {
            table if table.starts_with(' ') => as_it_is(&mut out, table),
            prose => {
                let _ = writeln!(out, ".PP\n{}", text(&prose.replace('\n', " ")));
            }
        }
    }
    heading(&mut out, "EXIT STATUS");
    out.push_str("0 after a shutdown that was asked for, 1 when the server could not start.\n");
    heading(&mut out, "SEE ALSO");
    out.push_str(".BR weft.conf (5),\n.BR weft\\-benchmark (1),\n.BR weft\\-tune (1)\n");
    out
}

/// Lines that keep their breaks and columns.
fn as_it_is(out: &mut String, lines: &str) {
    out.push_str(".PP\n.nf\n");
    lines.lines().for_each(|line| {
        let _ = writeln!(out, "{}", text(line));
    });
    out.push_str(".fi\n");
}

/// `weft.conf.5`.
fn file_page() -> String {
    let mut out = head("WEFT.CONF", 5, "weft.conf", "configuration of weft-server");
    heading(&mut out, "DESCRIPTION");
    out.push_str(&text(
        "A line is a directive and its arguments; arguments with spaces need quotes. On the \
         command line the same directives follow two dashes. Amounts of memory have units: 1k is \
         1000 bytes, 1kb is 1024; likewise m, mb, g and gb. Files written for Redis and Valkey \
         load; directives without effect say so below, and in the log at start.",
    ));
    out.push('\n');
    for section in SECTIONS {
        let mut shown = section.directives.iter().filter(|d| is_shown(d)).peekable();
        if shown.peek().is_none() {
            continue;
        }
        heading(&mut out, &section.title.to_uppercase());
        for directive in shown {
            entry(&mut out, directive);
        }
    }
    heading(&mut out, "SEE ALSO");
    out.push_str(".BR weft\\-server (1)\n");
    out
}

fn entry(out: &mut String, directive: &Directive) {
    let lines = default_lines(directive);
    let _ = writeln!(out, ".TP\n.B {}", text(&lines[0]));
    for line in &lines[1..] {
        let _ = writeln!(out, ".TQ\n.B {}", text(line));
    }
    let all = [directive.doc.to_string(), facts(directive), effect(directive)];
    let words: Vec<&str> = all.iter().flat_map(|part| part.split_whitespace()).collect();
    let _ = writeln!(out, "{}", text(&words.join(" ")));
}

fn is_shown(directive: &Directive) -> bool {
    !directive.flags.contains(Flags::HIDDEN)
}

fn head(title: &str, section: u8, name: &str, about: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".TH {} {section} \"\" \"Weft {version}\"\n.SH NAME\n{} \\- {}\n",
        text(title),
        text(name),
        text(about)
    )
}

fn heading(out: &mut String, title: &str) {
    let _ = writeln!(out, ".SH {}", text(title));
}

/// Text as roff takes it: no line is a request, dashes stay dashes.
fn text(plain: &str) -> String {
    let escaped = plain.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}

/// The content of completions: every directive with an effect, with its words.
fn offered() -> impl Iterator<Item = (&'static Directive, Vec<&'static str>)> {
    let directives = Id::all().map(Id::directive).filter(|d| is_shown(d));
    directives.filter(|d| d.status == Status::Effective).map(|directive| {
        let words = match &directive.kind {
            Kind::Bool => vec!["yes", "no"],
            Kind::Word { words, .. } | Kind::Words { words, .. } => words.to_vec(),
            Kind::IntOrAuto { .. } => vec!["auto"],
            _ => Vec::new(),
        };
        (directive, words)
    })
}

/// Whether the value is a path, which every shell completes by itself.
fn is_path(directive: &Directive) -> bool {
    let paths = [Id::DIR, Id::LOGFILE, Id::PIDFILE, Id::UNIXSOCKET, Id::ACLFILE, Id::INCLUDE];
    paths.contains(&directive.id)
}

fn bash() -> String {
    let mut options = String::from("--help --version --install-docs");
    let mut cases = String::new();
    for (directive, words) in offered() {
        let _ = write!(options, " --{}", directive.name);
        if !words.is_empty() {
            let words = words.join(" ");
            let _ = writeln!(
                cases,
                "        --{}) COMPREPLY=($(compgen -W '{words}' -- \"$word\")); return ;;",
                directive.name
            );
        }
    }
    format!(
        "# Completions of weft-server for bash.\n\
         _weft_server() {{\n    \
             local word=${{COMP_WORDS[COMP_CWORD]}}\n    \
             case ${{COMP_WORDS[COMP_CWORD - 1]}} in\n{cases}    esac\n    \
             if [[ $word == -* ]]; then\n        \
                 COMPREPLY=($(compgen -W '{options}' -- \"$word\"))\n    \
             else\n        \
                 COMPREPLY=($(compgen -f -- \"$word\"))\n    \
             fi\n\
         }}\n\
         complete -o filenames -F _weft_server {PROGRAM}\n"
    )
}

fn zsh() -> String {
    let mut out = format!("#compdef {PROGRAM}\n_arguments -s \\\n");
    for (name, about) in [
        ("help", "print the usage"),
        ("version", "print the version"),
        ("install-docs", "write man pages and completions"),
    ] {
        let value = if name == "install-docs" { ":folder:_files -/" } else { "" };
        let _ = writeln!(out, "  '--{name}[{about}]{value}' \\");
    }
    for (directive, words) in offered() {
        let values = match words.as_slice() {
            _ if is_path(directive) => "_files".to_string(),
            [] => String::new(),
            words => format!("({})", words.join(" ")),
        };
        let about = brief(directive).replace(['[', ']', ':', '\''], "");
        let _ = writeln!(out, "  '--{}[{about}]:value:{values}' \\", directive.name);
    }
    out.push_str("  '1:configuration file:_files'\n");
    out
}

fn fish() -> String {
    let mut out = format!(
        "# Completions of weft-server for fish.\n\
         complete -c {PROGRAM} -l help -d 'Print the usage'\n\
         complete -c {PROGRAM} -l version -d 'Print the version'\n\
         complete -c {PROGRAM} -l install-docs -r -d 'Write man pages and completions'\n"
    );
    for (directive, words) in offered() {
        let values = match words.as_slice() {
            _ if is_path(directive) => " -rF".to_string(),
            [] => " -x".to_string(),
            words => format!(" -x -a '{}'", words.join(" ")),
        };
        let about = brief(directive).replace('\'', "");
        let _ = writeln!(out, "complete -c {PROGRAM} -l {}{values} -d '{about}'", directive.name);
    }
    out
}

/// The first sentence of the paragraph.
fn brief(directive: &Directive) -> &'static str {
    let end = directive.doc.find(". ").unwrap_or(directive.doc.len());
    directive.doc[..end].trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directive_is_in_the_page() {
        let page = file_page();
        for directive in Id::all().map(Id::directive) {
            let line = format!("\n.B {}", text(&default_lines(directive)[0]));
            assert_eq!(page.contains(&line), is_shown(directive), "{}", directive.name);
        }
        assert!(page.contains("NO EFFECT YET"));
    }

    #[test]
    fn no_line_of_text_is_a_request() {
        for page in [program_page(), file_page()] {
            for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
                let request = line.split(' ').next().unwrap_or_default();
                let known = [".TH", ".SH", ".TP", ".TQ", ".B", ".BR", ".PP", ".nf", ".fi"];
                assert!(known.contains(&request), "{line}");
            }
        }
    }

    #[test]
    fn completions_offer_what_acts() {
        for script in [bash(), zsh(), fish()] {
            assert!(script.contains("io-threads") && script.contains("allkeys-lru"));
            let missing = Id::all().map(Id::directive).find(|d| d.status != Status::Effective);
            assert!(missing.is_none_or(|d| !script.contains(&format!("-l {} ", d.name))));
        }
        assert!(
            !bash().contains(" --tls-port") || Id::TLS_PORT.directive().status == Status::Effective
        );
    }
}
