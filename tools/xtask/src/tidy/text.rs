//! Rules for every text file.

/// Words for unfinished work. In two parts, since this file is checked too.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Calls for unfinished work, or for debugging.
const CALLS: [&str; 3] =
    [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("db", "g!(")];

/// Folders of one machine.
const PLACES: [&str; 3] = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/")];

/// Reports broken rules of the lines of `text`.
pub fn check(text: &str, report: &mut impl FnMut(usize, String)) {
    for (i, line) in text.lines().enumerate() {
        check_line(line, &mut |message| report(i + 1, message));
    }
    let lines = text.lines().count();
    if !text.is_empty() && !text.ends_with('\n') {
        report(lines, "the last line has no line end".to_string());
    } else if text.ends_with("\n\n") {
        report(lines, "blank lines at the end".to_string());
    }
}

fn check_line(line: &str, report: &mut impl FnMut(String)) {
    if line.contains('\t') {
        report("a tab".to_string());
    }
    if line.ends_with([' ', '\r']) {
        report("white space at the end of the line".to_string());
    }
    for word in UNFINISHED {
        if has_word(line, word) {
            report(format!("{word}: finish it or write it down elsewhere"));
        }
    }
    for call in CALLS {
        if line.contains(call) {
            report(format!("{call}...)"));
        }
    }
    for place in PLACES {
        if has_absolute(line, place) {
            report(format!("{place}: a path of one machine"));
        }
    }
}

/// Whether `line` has a path that begins with `place`, rather than one that passes through it.
fn has_absolute(line: &str, place: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | ')' | '*');
    line.match_indices(place).any(|(at, _)| !line[..at].chars().next_back().is_some_and(goes_on))
}

/// Whether `line` has `word` as a whole word.
pub fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(is_part);
        let behind = line[at + word.len()..].chars().next().is_some_and(is_part);
        !before && !behind
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let mut found = Vec::new();
        check(text, &mut |line, _| found.push(line));
        found
    }

    #[test]
    fn plain_text_passes() {
        assert!(lines("").is_empty());
        assert!(lines("a\n\n  b\n").is_empty());
        // Parts of longer words.
        assert!(lines("XXXX aTODO TODOs XXX_\n").is_empty());
    }

    #[test]
    fn each_rule_finds_its_line() {
        assert_eq!(lines("a\n\tb\n"), [2]);
        assert_eq!(lines("a \nb\r\n"), [1]);
        assert_eq!(lines("a\nb"), [2]);
        assert_eq!(lines("a\n\n"), [2]);
        for word in UNFINISHED {
            assert_eq!(lines(&format!("a\n// {word}: later\n")), [2]);
        }
        for call in CALLS {
            assert_eq!(lines(&format!("    {call}x)\n")), [1]);
        }
        for place in PLACES {
            assert_eq!(lines(&format!("see {place}user\n")), [1]);
            assert!(lines(&format!("see $folder{place}user and ..{place}\n")).is_empty());
        }
    }
}
