//! The databases that a selector allows.

use crate::rule_error::Why;

/// All databases, or those of a sorted list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Databases {
    All,
    /// Each once, in ascending order.
    Only(Vec<u32>),
}

/// The reference keeps a database in an `int`.
const MAX: u64 = i32::MAX as u64;

impl Databases {
    /// Parses the text after `db=`: numbers, separated by commas.
    pub fn parse(text: &[u8]) -> Result<Databases, Why> {
        let numbers = text.split(|byte| *byte == b',').map(number);
        let mut numbers = numbers.collect::<Result<Vec<u32>, Why>>()?;
        numbers.sort_unstable();
        numbers.dedup();
        Ok(Databases::Only(numbers))
    }

    #[inline]
    pub fn allow(&self, database: usize) -> bool {
        match self {
            Databases::All => true,
            Databases::Only(numbers) => numbers.iter().any(|number| *number as usize == database),
        }
    }

    /// The rule. `alldbs` for all.
    pub fn describe(&self) -> String {
        match self {
            Databases::All => "alldbs".into(),
            Databases::Only(numbers) if numbers.is_empty() => "resetdbs".into(),
            Databases::Only(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                format!("db={}", numbers.join(","))
            }
        }
    }
}

/// As `strtol` reads it: white space and a sign may precede the digits.
fn number(text: &[u8]) -> Result<u32, Why> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().take_while(|byte| is_space(byte)).count()..];
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Why::Syntax);
    }
    let add = |sum: u64, digit: &u8| (sum * 10 + u64::from(digit - b'0')).min(MAX + 1);
    let value = digits.iter().fold(0, add);
    match u32::try_from(value) {
        Ok(value) if u64::from(value) <= MAX && (!is_negative || value == 0) => Ok(value),
        _ => Err(Why::Database),
    }
}
