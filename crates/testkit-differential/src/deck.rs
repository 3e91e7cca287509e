//! Draws random steps, each rule in proportion to its weight.

use std::collections::BTreeSet;

use super::commands::{self, Group, ParsedRule};
use super::generate::{self, Step};
use super::values::Context;
use weft_testkit::rng::Rng;

/// The rules of some groups.
pub struct Deck {
    rules: Vec<(ParsedRule, Group)>,
    groups: Vec<(Group, u32)>,
    /// For each rule the sum of weights up to it.
    sums: Vec<u64>,
    context: Context,
}

impl Deck {
    /// All rules of these groups, drawn in proportion to the number of each group.
    pub fn new(groups: &[(Group, u32)]) -> Deck {
        let rules = groups.iter().flat_map(|(group, _)| {
            commands::parse(&[*group]).into_iter().map(|rule| (rule, *group))
        });
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| d.as_secs() as i64);
        let mut deck = Deck {
            rules: rules.collect(),
            groups: groups.to_vec(),
            sums: Vec::new(),
            context: Context { now },
        };
        deck.sum_up();
        deck
    }

    /// Keeps the optional rules whose commands and subcommands a server has.
    ///
    /// `names` is its COMMAND LIST in upper case, subcommands as `CLIENT|ID`.
    pub fn keep_optional(&mut self, names: &BTreeSet<String>) {
        self.rules
            .retain(|(rule, _)| !rule.rule.optional || rule.names().all(|name| has(names, &name)));
        self.sum_up();
    }

    /// Keeps the rules for which `keep` is true.
    pub fn retain(&mut self, keep: impl Fn(&ParsedRule) -> bool) {
        self.rules.retain(|(rule, _)| keep(rule));
        self.sum_up();
    }

    fn sum_up(&mut self) {
        let share = |group: Group| {
            let weights = self
                .rules
                .iter()
                .filter(|(_, g)| *g == group)
                .map(|(rule, _)| u64::from(rule.rule.weight));
            let of_group = self
                .groups
                .iter()
                .find(|(g, _)| *g == group)
                .map_or(0, |(_, share)| u64::from(*share));
            // In units of 2^-20, so that the rules of large groups keep their proportions.
            (of_group << 20) / weights.sum::<u64>().max(1)
        };
        let mut sum = 0;
        let mut sums = Vec::with_capacity(self.rules.len());
        for (rule, group) in &self.rules {
            sum += share(*group) * u64::from(rule.rule.weight);
            sums.push(sum);
        }
        self.sums = sums;
    }

    /// The next step.
    ///
    /// # Panics
    /// If there are no rules.
    pub fn draw(&self, rng: &mut Rng) -> Step {
        let total = *self.sums.last().expect("there are rules");
        let at = rng.below(total as usize) as u64;
        let (rule, _) = &self.rules[self.sums.partition_point(|&sum| sum <= at)];
        generate::step(&rule.parts, rule.rule.mutable, rng, self.context)
    }
}

/// Whether the list has this name; `RPUSH|KEY` is the command RPUSH, which has no subcommands.
fn has(names: &BTreeSet<String>, name: &str) -> bool {
    let command = name.split('|').next().unwrap_or(name);
    let is_container = names
        .iter()
        .any(|other| other.strip_prefix(command).is_some_and(|rest| rest.starts_with('|')));
    names.contains(if is_container { name } else { command })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_drawn_in_proportion_to_their_weights() {
        let deck = Deck::new(&[(Group::Strings, 90), (Group::Server, 10)]);
        let of_server = |wanted: Group| {
            deck.rules.iter().position(|(_, group)| *group == wanted).expect("both are there")
        };
        assert_eq!(of_server(Group::Strings), 0);
        let boundary = deck.sums[of_server(Group::Server) - 1];
        let share = boundary as f64 / *deck.sums.last().unwrap() as f64;
        assert!((share - 0.9).abs() < 0.01, "{share}");
    }

    #[test]
    fn optional_rules_are_removed_without_their_command() {
        let mut deck = Deck::new(&[(Group::Types, 1), (Group::Strings, 1)]);
        let before = deck.rules.len();
        deck.keep_optional(&BTreeSet::from(["RPUSH".to_string()]));
        assert!(deck.rules.len() < before);
        assert!(deck.rules.iter().any(|(rule, _)| rule.rule.syntax.starts_with("RPUSH")));
        assert!(!deck.rules.iter().any(|(rule, _)| rule.rule.syntax.starts_with("HSET")));
    }

    #[test]
    fn subcommands_are_looked_up_in_containers_only() {
        let names = ["CLIENT", "CLIENT|ID", "RPUSH"].map(String::from).into();
        assert!(has(&names, "CLIENT|ID") && has(&names, "RPUSH|LIST") && has(&names, "CLIENT"));
        assert!(!has(&names, "CLIENT|TRACKING") && !has(&names, "HSET"));
    }
}
