//! Patterns in which `*` stands for any text, for lists of known differences.

/// Whether the whole of `text` matches `pattern`; `*` is the only special character.
///
/// Greedy with one backtracking point: if the shortest match after a `*` fails, it is tried one
/// byte longer. Takes `O(pattern * text)` at worst.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (p, t) = (pattern.as_bytes(), text.as_bytes());
    let (mut pi, mut ti) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pi < p.len() && p[pi] == b'*' {
            retry = Some((pi, ti));
            pi += 1;
        } else if pi < p.len() && ti < t.len() && p[pi] == t[ti] {
            pi += 1;
            ti += 1;
        } else if pi == p.len() && ti == t.len() {
            return true;
        } else if let Some((star, from)) = retry.filter(|&(_, from)| from < t.len()) {
            retry = Some((star, from + 1));
            pi = star + 1;
            ti = from + 1;
        } else {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn star_is_the_only_special_character() {
        assert!(
            matches("", "") && matches("*", "") && matches("*", "abc") && matches("a*c", "abbc")
        );
        assert!(matches("*b*b*", "abab") && matches("a?[", "a?["));
        assert!(
            !matches("a", "")
                && !matches("", "a")
                && !matches("a*c", "abcd")
                && !matches("*ab", "aba")
        );
    }
}
