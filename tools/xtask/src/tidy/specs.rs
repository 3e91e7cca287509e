//! A command's specification may be written as another's with changes: `..GET.spec`. It must name
//! its flags nevertheless, if only as `flags: GET.spec.flags`. A change of GET's flags must show
//! which other commands have them, and a new command needs a decision on its flags. A command on
//! keys must also name its special handling, which rarely is that of the other command.

use super::source::code_only;
use std::path::Path;

/// Reports specifications that don't name their flags.
pub fn check(file: &Path, text: &str, report: &mut impl FnMut(usize, String)) {
    let has_commands = ["crates/commands/src", "crates/admin/src/commands"];
    if !has_commands.iter().any(|folder| file.starts_with(folder)) {
        return;
    }
    let code = code_only(text);
    for (end, _) in code.match_indices(".spec") {
        let before = &code[..end];
        let word = before.rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        let Some(dots) = word.filter(|at| before[..=*at].ends_with("..")) else { continue };
        if code[end + ".spec".len()..]
            .starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.')
        {
            continue;
        }
        let literal = &before[start(&before[..dots])..];
        let on_keys = file.starts_with("crates/commands/src");
        for field in ["flags", "special"].into_iter().filter(|field| *field == "flags" || on_keys) {
            if !literal.contains(&format!("{field}:")) {
                let line = before.lines().count();
                let message =
                    format!("takes another's {field} without saying so: write `{field}: ...`");
                report(line, message);
            }
        }
    }
}

/// The beginning of the struct literal that `code` ends in: after its open brace.
fn start(code: &str) -> usize {
    let mut open = 0;
    for (at, c) in code.char_indices().rev() {
        match c {
            '}' => open += 1,
            '{' if open == 0 => return at + 1,
            '{' => open -= 1,
            _ => {}
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let mut found = Vec::new();
        check(Path::new("crates/commands/src/a.rs"), text, &mut |line, _| found.push(line));
        found
    }

    #[test]
    fn flags_must_be_named() {
        let named = "spec: Spec { name: \"a\", flags: GET.spec.flags, special: S, ..GET.spec },\n";
        assert!(lines(named).is_empty());
        assert_eq!(lines("spec: Spec { name: \"a\", special: S, ..GET.spec },\n"), [1]);
        assert_eq!(lines("spec: Spec { name: \"a\", flags: F, ..GET.spec },\n"), [1]);
        let nested = "Spec {\n flags: F,\n special: S, keys: &[KeySpec { begin: 1 }],\n \
                      ..pop::GET.spec\n}\n";
        assert!(lines(nested).is_empty());
        assert_eq!(lines(&nested.replace(" flags: F,\n", "")), [3]);
        assert!(lines("let a = cmd.spec; for x in 0..self.spec.len() {}\n").is_empty());
    }
}
