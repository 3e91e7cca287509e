//! The commands that a selector allows: a bitmap, first arguments of other commands, and the rules that led to them.

use crate::catalog::{Catalog, Command, MAX_COMMANDS, category_bit};
use crate::patterns::has_invalid_bytes;
use crate::rule_error::Why;

const WORDS: usize = MAX_COMMANDS / 64;

/// The bit of commands that do not exist yet: set by `+@all`, so that the description can begin with it.
const FUTURE: usize = MAX_COMMANDS - 1;

/// The first arguments that are allowed for a command which is not.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FirstArgs {
    number: usize,
    allowed: Vec<Box<[u8]>>,
}

/// A rule after `+@all` or `-@all`, in lower case and without its sign: `get`, `config|get`, `@read`, `select|0`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    adds: bool,
    text: String,
}

/// The commands that a selector allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commands {
    /// All commands, without a look at the bitmap. False once anything was taken away.
    pub all: bool,
    bits: [u64; WORDS],
    first_args: Vec<FirstArgs>,
    rules: Vec<Rule>,
}

impl Commands {
    /// All commands, or none.
    pub fn new(all: bool) -> Commands {
        let word = if all { u64::MAX } else { 0 };
        Commands { all, bits: [word; WORDS], first_args: Vec::new(), rules: Vec::new() }
    }

    /// Whether the command with this number is allowed, with any arguments.
    #[inline]
    pub fn has(&self, number: usize) -> bool {
        self.bits.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    /// Whether a request of this command is allowed.
    #[inline]
    pub fn allow(&self, command: &Command, args: &[&[u8]]) -> bool {
        self.all
            || command.is_always_allowed
            || self.has(command.number)
            || self.allow_first_arg(command, args)
    }

    #[cold]
    fn allow_first_arg(&self, command: &Command, args: &[&[u8]]) -> bool {
        let at = if command.is_subcommand { 2 } else { 1 };
        let (Some(first), Some(known)) =
            (args.get(at), self.first_args.iter().find(|known| known.number == command.number))
        else {
            return false;
        };
        known.allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(first))
    }

    /// Applies a rule that begins with `+` or `-`; it is not `+@all` or `-@all`.
    pub fn apply(&mut self, catalog: &Catalog, rule: &[u8]) -> Result<(), Why> {
        let (sign, name) = rule.split_first().ok_or(Why::Syntax)?;
        let adds = *sign == b'+';
        if let [b'@', category @ ..] = name {
            return self.apply_category(catalog, category, adds);
        }
        match name.iter().rposition(|byte| *byte == b'|') {
            Some(bar) if adds => self.add_after_bar(catalog, &name[..bar], &name[bar + 1..]),
            Some(_) | None => {
                let command = catalog.find(name).ok_or(Why::UnknownCommand)?;
                self.change(command, adds);
                self.note(command.full_name, adds);
                Ok(())
            }
        }
    }

    fn apply_category(&mut self, catalog: &Catalog, name: &[u8], adds: bool) -> Result<(), Why> {
        let bit = category_bit(name).ok_or(Why::UnknownCommand)?;
        self.note(&format!("@{}", String::from_utf8_lossy(name)), adds);
        catalog.all().filter(|command| command.is_in(bit)).for_each(|c| self.change(c, adds));
        Ok(())
    }

    /// `+config|get`, or a first argument as in `+select|0`.
    fn add_after_bar(&mut self, catalog: &Catalog, name: &[u8], sub: &[u8]) -> Result<(), Why> {
        let command = catalog.find(name).ok_or(Why::UnknownCommand)?;
        if command.is_subcommand {
            return Err(Why::FirstArgOfSubcommand);
        }
        // Rules with these bytes could not be read again from their description.
        if sub.is_empty() || has_invalid_bytes(sub) || sub.iter().any(|b| b"\"'()".contains(b)) {
            return Err(Why::Syntax);
        }
        let full = [name, b"|", sub].concat();
        if command.subcommands.is_empty() {
            self.add_first_arg(command.number, sub);
        } else {
            self.change(catalog.find(&full).ok_or(Why::UnknownCommand)?, true);
        }
        // Not UTF-8: a first argument can be any bytes, but the description must be one line of text.
        self.note(std::str::from_utf8(&full).map_err(|_| Why::Syntax)?, true);
        Ok(())
    }

    fn add_first_arg(&mut self, number: usize, sub: &[u8]) {
        let found = self.first_args.iter().position(|known| known.number == number);
        let at = found.unwrap_or_else(|| {
            self.first_args.push(FirstArgs { number, allowed: Vec::new() });
            self.first_args.len() - 1
        });
        let allowed = &mut self.first_args[at].allowed;
        if !allowed.iter().any(|known| known.eq_ignore_ascii_case(sub)) {
            allowed.push(sub.into());
        }
    }

    /// Allows or forbids a command with its subcommands.
    fn change(&mut self, command: &Command, allow: bool) {
        self.first_args.retain(|known| known.number != command.number);
        let numbers = std::iter::once(command.number).chain(command.subcommands.iter().copied());
        numbers.for_each(|number| self.set(number, allow));
    }

    fn set(&mut self, number: usize, allow: bool) {
        let (word, bit) = (&mut self.bits[number / 64], 1 << (number % 64));
        if allow {
            *word |= bit;
        } else {
            *word &= !bit;
            self.all = false;
        }
    }

    /// Records a rule. It replaces an earlier one of the same command, and those of its subcommands.
    fn note(&mut self, text: &str, adds: bool) {
        let text = text.to_ascii_lowercase();
        let is_replaced = |known: &str| match known.strip_prefix(text.as_str()) {
            Some(rest) => rest.is_empty() || rest.starts_with('|'),
            None => false,
        };
        self.rules.retain(|rule| !is_replaced(&rule.text));
        self.rules.push(Rule { adds, text });
    }

    /// The rules that lead to these rights, from `+@all` or `-@all` on.
    pub fn describe(&self) -> String {
        let mut text = String::from(if self.has(FUTURE) { "+@all" } else { "-@all" });
        for rule in &self.rules {
            text.push_str(if rule.adds { " +" } else { " -" });
            text.push_str(&rule.text);
        }
        text
    }
}
