//! Sentences as lists of words, and the search for a pattern in them.

use super::table::Rule;

/// A word or a mark of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    /// In lower case; code between backticks or braces is a single backtick.
    word: String,
    /// Its first byte.
    at: usize,
    /// The byte after it.
    end: usize,
    /// Whether it begins a sentence.
    first: bool,
    /// Whether its sentence is a question.
    asked: bool,
}

/// A paragraph in words.
#[derive(Debug)]
pub struct Sentence(Vec<Token>);

impl Sentence {
    /// Splits a paragraph.
    pub fn split(text: &str) -> Sentence {
        let mut tokens: Vec<Token> = Vec::new();
        let token = |word, at, end| Token { word, at, end, first: false, asked: false };
        let mut rest = text.char_indices().peekable();
        while let Some((at, c)) = rest.next() {
            let mut end = at + c.len_utf8();
            if c == '`' || c == '{' {
                let close = if c == '`' { '`' } else { '}' };
                for (next, c) in rest.by_ref() {
                    end = next + c.len_utf8();
                    if c == close {
                        break;
                    }
                }
                tokens.push(token("`".to_string(), at, end));
            } else if is_word(c) {
                while let Some((next, c)) = rest.next_if(|(_, c)| is_word(*c)) {
                    end = next + c.len_utf8();
                }
                tokens.push(token(text[at..end].to_lowercase(), at, end));
            } else if !c.is_whitespace() {
                tokens.push(token(c.to_string(), at, end));
            }
        }
        mark_sentences(&mut tokens);
        Sentence(tokens)
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '\'' | '-' | '_')
}

/// Marks the first word of each sentence, and questions. A cell of a table and an item of a list
/// count as sentences.
fn mark_sentences(tokens: &mut [Token]) {
    let ends = |word: &str| matches!(word, "." | "!" | "?" | "|");
    let mut begin = 0;
    while begin < tokens.len() {
        let len = tokens[begin..].iter().position(|token| ends(&token.word));
        let end = len.map_or(tokens.len(), |len| begin + len);
        let question = tokens.get(end).is_some_and(|token| token.word == "?");
        let words = &mut tokens[begin..end];
        words.iter_mut().for_each(|token| token.asked = question);
        if let Some(first) = words.iter_mut().find(|token| token.word.starts_with(is_word)) {
            first.first = true;
        }
        begin = end + 1;
    }
}

/// The byte ranges of a paragraph that a rule finds.
pub fn matches(rule: &Rule, sentence: &Sentence) -> Vec<(usize, usize)> {
    let right: Vec<(usize, usize)> =
        rule.unless.iter().flat_map(|pattern| search(pattern, sentence)).collect();
    let mut found = search(rule.pattern, sentence);
    found.retain(|(at, end)| !right.iter().any(|(from, to)| from <= at && end <= to));
    found
}

fn search(pattern: &str, sentence: &Sentence) -> Vec<(usize, usize)> {
    let (first, pattern) = match pattern.strip_prefix("^ ") {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let words: Vec<&str> = pattern.split(' ').collect();
    let fits = |(token, word): (&Token, &&str)| {
        *word == "*" && token.word.starts_with(is_word)
            || word.split('|').any(|word| word == token.word)
    };
    let windows = sentence.0.windows(words.len());
    let found = windows.filter(|tokens| {
        !tokens[0].asked && (!first || tokens[0].first) && tokens.iter().zip(&words).all(fits)
    });
    found.map(|tokens| (tokens[0].at, tokens[tokens.len() - 1].end)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &'static str, text: &str) -> Vec<String> {
        let rule = Rule { pattern, unless: &["x b"], advice: "" };
        let ranges = matches(&rule, &Sentence::split(text));
        ranges.into_iter().map(|(at, end)| text[at..end].to_string()).collect()
    }

    #[test]
    fn word_matches_whole_words_in_any_case() {
        assert_eq!(found("b", "B, ab b-c b's (b)"), ["B", "b"]);
        assert_eq!(found("a b|c", "a  b a, b A\nc"), ["a  b", "A\nc"]);
        assert_eq!(found("a *", "a. a `b` a d"), ["a d"]);
        assert_eq!(found("b", "`b` {b} x b `b"), Vec::<String>::new());
    }

    #[test]
    fn caret_matches_at_the_beginning_of_statements() {
        assert_eq!(found("^ b", "b c. B d? B e? - b! | b | (b) b"), ["b", "b", "b"]);
        assert_eq!(found("b", "b c, b? b."), ["b"]);
        assert_eq!(found("^ b", "a b, b"), Vec::<String>::new());
    }
}
