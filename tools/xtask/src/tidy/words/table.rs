//! The table of words that are not plain, each with what to write instead.
//!
//! A pattern is a list of words between blanks, in lower case:
//!
//! | word | matches |
//! |---|---|
//! | `a` | the word |
//! | `a\|b` | either word |
//! | `*` | any word |
//! | `^` | nothing, at the beginning of a sentence |
//!
//! Questions are not searched: there, "who" and "what" are right.
//!
//! A good pattern has few false hits: a rule that is right nine times of ten belongs here, one that
//! is right every other time does not. A new rule raises counts: delete `tools/xtask/words.txt` and
//! run `cargo xtask tidy --update` once.

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The words that are found.
    pub pattern: &'static str,
    /// Patterns around them that are right.
    pub unless: &'static [&'static str],
    /// What to write instead.
    pub advice: &'static str,
}

const fn rule(pattern: &'static str, advice: &'static str) -> Rule {
    Rule { pattern, unless: &[], advice }
}

/// All rules. Each has an example in the tests of this module.
pub const RULES: &[Rule] = &[
    // Subjects that are no things.
    rule("^ who", "name the subject: the client, thread, caller, replica"),
    rule("whoever|whomever", "name the subject: the client, thread, caller, replica"),
    rule(
        "for|of|by|to|from|with|as|and|or|than|if|where|when|because|since who",
        "name the subject: the client, thread, caller, replica",
    ),
    rule(
        "somebody|nobody|everybody|anybody",
        "name the subject: no client, every thread, another caller",
    ),
    rule("one|ones|those|he|they who", "name the subject: the client that, operators that"),
    rule("^ what", "name the thing: the data, the rest, the value; or begin with a verb"),
    rule(
        "what is|was|were|are|has|had|stands|lies|comes|came|follows|remains",
        "name the thing: the data, the rest, the value",
    ),
    rule("that which", "name the thing"),
    rule("^ those that|which|of|in|with|whose", "repeat the noun: clients that, keys of"),
    rule("^ one that|which|whose", "repeat the noun: a client that"),
    // Words that the field has other terms for.
    rule("told|tell|tells|telling|untold", "notify, report, print, pass; distinguish from"),
    Rule {
        pattern: "behind",
        unless: &[
            "lag|lags|lagging|lagged|fall|falls|fell|falling|fallen|left|leave|leaves behind",
            "far behind",
        ],
        advice: "after, below, next",
    },
    rule("in front", "before, first"),
    rule("beside|besides", "next to, with, compared with, in addition to, except"),
    rule("break|breaks|breaking|broke|broken off", "cancel, abort"),
    rule("break|breaks|breaking|broke|broken it|them off", "cancel, abort"),
    rule("go|goes|going|went|gone on", "continue"),
    rule("let|lets|letting go", "release"),
    rule("let|lets|letting it|them go", "release"),
    rule("in vain", "without effect; fails"),
    rule("give|gives|giving|gave up the|its|their", "release; stop"),
    rule("get|gets|getting to know", "read, learn, ask"),
    // Constructions.
    rule("has|have|had it|them|him be|done|made|read|sent|told|tell|do", "an active verb"),
    rule("is|are|was|were to be", "must be, should be; or name the thing"),
    rule("be it|they", "whether"),
    rule("as against", "unlike, instead of"),
    rule("that is|are none", "that is not a number, that is invalid"),
    Rule {
        pattern: "stand|stands|stood in|at|there|on|below|above|before|after|beside|behind",
        unless: &["stand|stands|stood in for"],
        advice: "is in, is at, precedes, follows",
    },
    rule("in the place of", "instead of"),
    rule("in hand", "held"),
    rule("so as", "to"),
    rule("all the same|while", "however; during"),
    rule("for the sake", "for"),
];

/// Text that is right as it is: a quotation, or a text about the words themselves. A file, or a
/// folder with a `/` at its end; the quoted words, or nothing for the whole place; the reason.
pub const EXEMPT: &[(&str, &str, &str)] = &[
    ("tools/xtask/src/tidy/words/", "", "the rules themselves"),
    ("CONTRIBUTING.md", "", "shows what not to write"),
    (
        "crates/admin/src/commands/scripting.rs",
        "cannot tell how the keys will be used",
        "as in Valkey",
    ),
    ("weft.conf", "", "written from crates/config, which is checked"),
];

#[cfg(test)]
mod tests {
    use super::super::pattern::{Sentence, matches};
    use super::RULES;

    /// A hit for each rule, in the order of the table.
    const HITS: &[&str] = &[
        "Who waits is served.",
        "Served by whoever comes.",
        "For who operates a server.",
        "Nobody waits.",
        "All those who wait are served.",
        "What dies is freed.",
        "It prints what is left.",
        "The value is that which was set.",
        "Those that wait are served.",
        "One that waits is served.",
        "Clients are told of it.",
        "The queue behind it.",
        "It sits in front of it.",
        "It runs beside others.",
        "It breaks off the save.",
        "Breaking it off.",
        "The save goes on.",
        "It lets go of the lock.",
        "It lets them go.",
        "It tries in vain.",
        "It gives up the lock.",
        "It gets to know the server.",
        "It has it done.",
        "The server that is to be judged.",
        "Its value, be it empty.",
        "Characters as against lifetimes.",
        "A number that is none.",
        "The text stands in a file.",
        "One in the place of many.",
        "With all keys in hand.",
        "So as not to wait.",
        "It warns all the same.",
        "For the sake of old clients.",
    ];

    /// Plain sentences near to a rule.
    const PLAIN: &[&str] = &[
        "Who waits?",
        "What is wrong with this machine?",
        "The replica lags behind.",
        "The files that a test left behind.",
        "It stands for a number.",
        "A fake stands in for the server.",
        "The client that waits is served after it.",
        "It is one that waits.",
        "It goes one step, and that is all.",
        "The operator said so.",
    ];

    fn found(text: &str) -> Vec<usize> {
        let sentence = Sentence::split(text);
        let rules = RULES.iter().enumerate();
        rules.filter(|(_, rule)| !matches(rule, &sentence).is_empty()).map(|(at, _)| at).collect()
    }

    #[test]
    fn each_rule_has_a_hit() {
        assert_eq!(HITS.len(), RULES.len());
        for (at, text) in HITS.iter().enumerate() {
            assert!(found(text).contains(&at), "{text}: {:?}", RULES[at]);
        }
    }

    #[test]
    fn plain_sentence_has_no_hit() {
        for text in PLAIN {
            assert_eq!(found(text), Vec::<usize>::new(), "{text}");
        }
    }
}
