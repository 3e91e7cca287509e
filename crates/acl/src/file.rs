//! The file of users: a line `user NAME RULES` for each.

use crate::patterns::has_invalid_bytes;
use crate::policy::Policy;
use crate::rule_error::Why;
use crate::user::User;
use crate::users::{Users, merge_selectors};
use std::collections::BTreeMap;

/// After the errors of all lines.
const NOTHING_CHANGED: &[u8] =
    b"WARNING: ACL errors detected, no change to the previously active ACL rules was \
                                 performed";

/// Parses a file. `path` is for error messages.
///
/// # Errors
/// The errors of all lines, as one line of text. They contain no passwords.
pub fn parse(policy: Policy<'_>, path: &str, text: &[u8]) -> Result<Users, Vec<u8>> {
    let mut users = BTreeMap::new();
    let mut errors = Vec::new();
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
        parse_line(policy, path, number, line, &mut users, &mut errors);
    }
    if errors.is_empty() {
        return Ok(Users::of(policy, users.into_values()));
    }
    errors.extend_from_slice(NOTHING_CHANGED);
    Err(errors)
}

fn parse_line(
    policy: Policy<'_>,
    path: &str,
    number: usize,
    line: &[u8],
    users: &mut BTreeMap<Box<[u8]>, User>,
    errors: &mut Vec<u8>,
) {
    let line = line.trim_ascii();
    if line.is_empty() {
        return;
    }
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [b"user", name, rules @ ..] = &words[..] else {
        let text = "should start with user keyword followed by the username. ";
        errors.extend_from_slice(format!("{path}:{number} {text}").as_bytes());
        return;
    };
    if has_invalid_bytes(name) {
        errors.extend_from_slice(format!("'{path}:{number}: username '").as_bytes());
        errors.extend_from_slice(name);
        errors.extend_from_slice(b"' contains invalid characters. ");
        return;
    }
    if users.contains_key(*name) {
        errors.extend_from_slice(b"WARNING: Duplicate user '");
        errors.extend_from_slice(name);
        errors.extend_from_slice(format!("' found on line {number}. ").as_bytes());
        return;
    }
    let mut user = User::new(name, policy.channels);
    match merge_selectors(rules) {
        Ok(rules) => apply_all(policy, path, number, &rules, &mut user, errors),
        Err(_) => {
            let text = "Unmatched parenthesis in selector definition.";
            errors.extend_from_slice(format!("{path}:{number}: {text}").as_bytes());
        }
    }
    users.insert(user.name.clone(), user);
}

/// Applies the rules of a line. Reports each unknown command, but only the first of other errors, because it can
/// be the cause of later ones.
fn apply_all(
    policy: Policy<'_>,
    path: &str,
    number: usize,
    rules: &[Vec<u8>],
    user: &mut User,
    errors: &mut Vec<u8>,
) {
    let mut is_first = true;
    for rule in rules {
        let rule = trim(rule);
        match user.apply(policy, rule) {
            Ok(()) => {}
            Err(Why::UnknownCommand) => {
                errors.extend_from_slice(
                    format!("{path}:{number}: Error in applying operation '").as_bytes(),
                );
                errors.extend_from_slice(rule);
                errors.extend_from_slice(format!("': {}. ", Why::UnknownCommand.text()).as_bytes());
            }
            Err(why) if is_first => {
                errors.extend_from_slice(format!("{path}:{number}: {}. ", why.text()).as_bytes());
                is_first = false;
            }
            Err(_) => {}
        }
    }
}

/// Without tabs and line ends around it.
fn trim(rule: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b'\t' | b'\r' | b'\n');
    let start = rule.iter().take_while(|byte| is_blank(byte)).count();
    let end = rule.iter().rev().take_while(|byte| is_blank(byte)).count();
    &rule[start..rule.len().max(start + end) - end]
}

/// The text of the file.
pub fn write(users: &Users) -> Vec<u8> {
    let mut text = Vec::new();
    for user in users.iter() {
        text.extend_from_slice(&user.line());
        text.push(b'\n');
    }
    text
}
