//! Statistics of a file: for each database and type the number of keys, their sizes, and the
//! distribution of sizes.
//!
//! Names, order and rounding are those of the reference's check (`--stats`), because programs parse
//! them.

use std::collections::BTreeMap;
use std::fmt::Write;
use weft_base::num_format::fmt_f64_shortest;
use weft_types::hash::Hash;
use weft_types::list::List;
use weft_types::set::Set;
use weft_types::stream::Stream;
use weft_types::string::Str;
use weft_types::zset::View;
use weft_types::{Kind, Record, Type, value};

/// The output format of the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// A line for each number, a column for each type.
    #[default]
    Table,
    /// The same, separated by commas.
    Csv,
    /// A line for each number of each type: `[info] name:value`.
    Info,
}

/// The columns in order. Modules have a column, as in the reference, but never any keys.
const COLUMNS: [(&str, Option<Type>); 7] = [
    ("string", Some(Type::String)),
    ("list", Some(Type::List)),
    ("set", Some(Type::Set)),
    ("zset", Some(Type::Zset)),
    ("hash", Some(Type::Hash)),
    ("module", None),
    ("stream", Some(Type::Stream)),
];

/// Limits of the distributions: elements of one value, and bytes of one element. Larger values
/// count only in sums and maxima.
const NUMBERS_BELOW: u64 = 1 << 18;
const SIZES_BELOW: u64 = 1 << 21;

/// Counts of all databases, filled by [`Profile::add`].
#[derive(Clone, Debug, Default)]
pub struct Profile {
    databases: Vec<[Column; COLUMNS.len()]>,
}

/// The counts of one type in one database.
#[derive(Clone, Debug, Default)]
struct Column {
    keys: u64,
    expiring: u64,
    expired: u64,
    key_bytes: u64,
    elements: u64,
    element_bytes: u64,
    most_elements: u64,
    largest_element: u64,
    numbers: Distribution,
    sizes: Distribution,
}

/// How often each value occurred. Values from 2048 on are rounded to their first eleven binary
/// digits.
#[derive(Clone, Debug, Default)]
struct Distribution {
    seen: BTreeMap<u64, u64>,
    count: u64,
}

impl Distribution {
    fn add(&mut self, value: u64) {
        let rough = (u64::BITS - value.leading_zeros()).saturating_sub(11);
        *self.seen.entry(((value >> rough) << rough) | ((1 << rough) - 1)).or_default() += 1;
        self.count += 1;
    }

    /// The value that this percentage of values doesn't exceed; 0 if there are no values.
    fn percentile(&self, percent: f64) -> u64 {
        let mut left = ((percent / 100.0 * self.count as f64 + 0.5) as u64).max(1);
        let found = self.seen.iter().find(|(_, times)| {
            let is_here = **times >= left;
            left = left.saturating_sub(**times);
            is_here
        });
        found.map_or(0, |(value, _)| *value)
    }
}

impl Profile {
    /// Selects database `db`. It is reported even if it has no keys.
    pub(super) fn choose(&mut self, db: usize) {
        if self.databases.len() <= db {
            self.databases.resize_with(db + 1, Default::default);
        }
    }

    /// Counts a key of database `db`. `expiry` in Unix milliseconds. O(elements).
    pub(super) fn add(&mut self, db: usize, record: &Record, expiry: Option<i64>, now_ms: i64) {
        self.choose(db);
        let of = Kind::of(record.kind()).type_of();
        let nth = COLUMNS.iter().position(|(_, column)| *column == Some(of));
        let Some(column) = nth.map(|nth| &mut self.databases[db][nth]) else { return };
        column.keys += 1;
        column.expiring += u64::from(expiry.is_some());
        column.expired += u64::from(expiry.is_some_and(|at| at < now_ms));
        column.key_bytes += record.key().len() as u64;
        let elements = value::elements(record) as u64;
        column.elements += elements;
        column.most_elements = column.most_elements.max(elements);
        if elements < NUMBERS_BELOW {
            column.numbers.add(elements);
        }
        each_size(record, of, |size| column.element(size as u64));
    }

    /// Prints the statistics. `Layout::Info` has no line of type names, because each of its lines
    /// contains one.
    #[must_use]
    pub fn lines(&self, layout: Layout) -> Vec<String> {
        let none = [<[Column; COLUMNS.len()]>::default()];
        let databases = if self.databases.is_empty() { &none } else { &self.databases[..] };
        let mut lines = Vec::new();
        for (db, columns) in databases.iter().enumerate() {
            let of_all =
                |number: &dyn Fn(usize) -> String| (0..COLUMNS.len()).map(number).collect();
            let names: Vec<String> = of_all(&|nth| COLUMNS[nth].0.to_string());
            row(layout, db, "type.name", &names, &mut lines);
            for (name, number) in NUMBERS {
                let values: Vec<String> = of_all(&|nth| number(&columns[nth]));
                row(layout, db, name, &values, &mut lines);
            }
        }
        lines
    }
}

/// Appends one number for all types.
fn row(layout: Layout, db: usize, name: &str, values: &[String], lines: &mut Vec<String>) {
    let full = format!("db.{db}.{name}");
    let (mut line, separator, width) = match layout {
        Layout::Table => (format!("{full:<30}"), '\t', 5),
        Layout::Csv => (full, ',', 0),
        Layout::Info => {
            let named = COLUMNS.iter().zip(values).filter(|_| name != "type.name");
            let line = |((kind, _), value): (&(&str, Option<Type>), &String)| {
                format!("[info] db.{db}.type.{kind}.{name}:{value}")
            };
            return lines.extend(named.map(line));
        }
    };
    for value in values {
        let _ = write!(line, "{separator}{value:<width$}");
    }
    lines.push(line);
}

/// Formats one number of a type.
type Number = fn(&Column) -> String;

const NUMBERS: [(&str, Number); 17] = [
    ("keys.total", |of| of.keys.to_string()),
    ("expire_keys.total", |of| of.expiring.to_string()),
    ("already_expired.total", |of| of.expired.to_string()),
    ("keys.size", |of| of.key_bytes.to_string()),
    ("keys.value_size", |of| of.element_bytes.to_string()),
    ("elements.total", |of| of.elements.to_string()),
    ("elements.size", |of| of.element_bytes.to_string()),
    ("elements.num.max", |of| of.most_elements.to_string()),
    ("elements.num.avg", |of| average(of.elements, of.keys)),
    ("elements.num.p99", |of| two_digits(of.numbers.percentile(99.0) as f32)),
    ("elements.num.p90", |of| two_digits(of.numbers.percentile(90.0) as f32)),
    ("elements.num.p50", |of| two_digits(of.numbers.percentile(50.0) as f32)),
    ("elements.size.max", |of| of.largest_element.to_string()),
    ("elements.size.avg", |of| average(of.element_bytes, of.elements)),
    ("elements.size.p99", |of| two_digits(of.sizes.percentile(99.0) as f32)),
    ("elements.size.p90", |of| two_digits(of.sizes.percentile(90.0) as f32)),
    ("elements.size.p50", |of| two_digits(of.sizes.percentile(50.0) as f32)),
];

fn average(sum: u64, count: u64) -> String {
    two_digits(if count == 0 { 0.0 } else { sum as f32 / count as f32 })
}

fn two_digits(number: f32) -> String {
    format!("{:.2}", f64::from(number))
}

impl Column {
    fn element(&mut self, size: u64) {
        self.element_bytes += size;
        self.largest_element = self.largest_element.max(size);
        if size < SIZES_BELOW {
            self.sizes.add(size);
        }
    }
}

/// Passes the size of each element in bytes: for a hash with its value, for a sorted set with its
/// score as text, for a stream each field with its value.
fn each_size(record: &Record, of: Type, mut seen: impl FnMut(usize)) {
    match of {
        Type::String => Str::of(record).into_iter().for_each(|text| seen(text.len())),
        Type::List => {
            if let Some(list) = List::of(record) {
                list.each_from(0, |element| {
                    seen(element.len());
                    true
                });
            }
        }
        Type::Set => {
            if let Some(set) = Set::of(record) {
                set.each(|member| seen(member.len()));
            }
        }
        Type::Zset => {
            if let Some(zset) = View::of(record) {
                zset.for_each(|member, score| seen(member.len() + fmt_f64_shortest(score).len()));
            }
        }
        Type::Hash => {
            if let Some(hash) = Hash::of(record, i64::MIN) {
                hash.each(|pair| seen(pair.field.len() + pair.value.len()));
            }
        }
        Type::Stream => {
            if let Some(stream) = Stream::of(record) {
                let entries = stream.log.runs().flatten();
                let pairs = entries.flat_map(|entry| entry.pairs());
                pairs.for_each(|(field, value)| seen(field.len() + value.len()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_rounding_of_distributions() {
        let mut few = Distribution::default();
        assert_eq!(few.percentile(99.0), 0);
        (1..=10).for_each(|n| few.add(n));
        assert_eq!([50.0, 90.0, 99.0].map(|percent| few.percentile(percent)), [5, 9, 10]);
        let mut large = Distribution::default();
        [2047, 2048, 5000, 1_000_000].into_iter().for_each(|n| large.add(n));
        let all: Vec<u64> = large.seen.keys().copied().collect();
        assert_eq!(all, [2047, 2049, 5003, 1_000_447]);
        few.add(0);
        assert_eq!(few.percentile(1.0), 0);
    }

    #[test]
    fn layouts_have_the_format_of_the_reference() {
        let mut profile = Profile::default();
        profile.choose(1);
        let table = profile.lines(Layout::Table);
        assert_eq!(table.len(), 36);
        let names = "string\tlist \tset  \tzset \thash \tmodule\tstream";
        assert_eq!(table[18], format!("db.1.type.name                \t{names}"));
        let csv = profile.lines(Layout::Csv);
        assert_eq!(csv[9], "db.0.elements.num.avg,0.00,0.00,0.00,0.00,0.00,0.00,0.00");
        let info = profile.lines(Layout::Info);
        assert_eq!(info.len(), 2 * 17 * 7);
        assert_eq!(info[6], "[info] db.0.type.stream.keys.total:0");
        assert_eq!(Profile::default().lines(Layout::Csv).len(), 18);
    }
}
