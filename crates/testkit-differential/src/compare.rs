//! The comparisons of two replies.
//!
//! Most replies must be equal byte for byte. The rest are of few kinds: the order of a hash table's
//! elements, remaining times, facts about the server itself. Each rule names the strictest
//! comparison that holds for its command. Errors are always compared exactly.

use weft_testkit::client::Reply;
use weft_testkit::value::Value;

/// A comparison of the replies to one command; the left one is from the server under test.
#[derive(Clone, Copy, Debug)]
pub enum Compare {
    /// Byte for byte.
    Exact,
    /// Integers may differ by this much, also in arrays. Negative ones must be equal, since those
    /// of TTL have a meaning.
    Near(i64),
    /// Only the type of the reply: its content depends on the server.
    Shape,
    /// Equal after this function has converted both to a canonical form.
    As(fn(Value) -> Value),
    /// Every element of the left array is in the right one.
    Subset,
}

impl Compare {
    /// Whether the replies are equal by this comparison.
    pub fn same(self, left: &Reply, right: &Reply) -> bool {
        if left.raw == right.raw {
            return true;
        }
        match (&left.value, &right.value) {
            (Value::Error(_) | Value::BulkError(_), _)
            | (_, Value::Error(_) | Value::BulkError(_)) => false,
            (l, r) => self.same_values(l, r),
        }
    }

    fn same_values(self, left: &Value, right: &Value) -> bool {
        match self {
            Compare::Exact => false,
            Compare::Near(by) => match (left, right) {
                (Value::Integer(l), Value::Integer(r)) => {
                    l == r || *l >= 0 && *r >= 0 && l.abs_diff(*r) <= by as u64
                }
                (Value::Array(l), Value::Array(r)) => {
                    l.len() == r.len() && l.iter().zip(r).all(|(l, r)| self.same_values(l, r))
                }
                _ => false,
            },
            Compare::Shape => std::mem::discriminant(left) == std::mem::discriminant(right),
            Compare::As(canonical) => canonical(left.clone()) == canonical(right.clone()),
            Compare::Subset => match (left, right) {
                (Value::Array(l), Value::Array(r)) | (Value::Set(l), Value::Set(r)) => {
                    l.iter().all(|item| r.contains(item))
                }
                _ => false,
            },
        }
    }
}

/// The elements in ascending order: for replies in the order of a hash table.
pub fn unordered(value: Value) -> Value {
    match value {
        Value::Array(mut items) => {
            items.sort();
            Value::Array(items)
        }
        Value::Set(mut items) => {
            items.sort();
            Value::Set(items)
        }
        other => other,
    }
}

/// The pairs in ascending order: for maps, and for the flat arrays of RESP2.
pub fn pairs(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut pairs: Vec<&[Value]> = items.chunks(2).collect();
            pairs.sort();
            Value::Array(pairs.concat())
        }
        Value::Map(mut pairs) => {
            pairs.sort();
            Value::Map(pairs)
        }
        other => other,
    }
}

/// All arrays, sets and maps in ascending order, at any depth.
///
/// Two positions with equal types may be exchanged, so this is for replies that are made of sets,
/// such as the flags of keys.
pub fn deep_unordered(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            unordered(Value::Array(items.into_iter().map(deep_unordered).collect()))
        }
        Value::Set(items) => unordered(Value::Set(items.into_iter().map(deep_unordered).collect())),
        Value::Map(entries) => {
            pairs(Value::Map(entries.into_iter().map(|(k, v)| (k, deep_unordered(v))).collect()))
        }
        other => other,
    }
}

/// More elements than any rule names: such a reply lists all of a server's elements, and servers
/// may have different ones.
const EVERYTHING: usize = 60;

/// The canonical form of replies that list all of a server's elements.
fn everything() -> Value {
    Value::Simple(b"all elements of the server".to_vec())
}

/// CONFIG GET: a map, unless it lists all parameters.
pub fn parameters(value: Value) -> Value {
    match value {
        Value::Array(items) if items.len() > EVERYTHING => everything(),
        Value::Map(entries) if entries.len() > EVERYTHING => everything(),
        other => pairs(other),
    }
}

/// Blanks the value after `notes`, at any depth.
fn without_notes(value: Value) -> Value {
    let is_notes = |key: Option<&Value>| key.is_some_and(|key| key.bytes() == Some(b"notes"));
    match value {
        Value::Array(items) => {
            let mut out: Vec<Value> = Vec::with_capacity(items.len());
            for item in items {
                out.push(if is_notes(out.last()) { Value::Null } else { without_notes(item) });
            }
            Value::Array(out)
        }
        Value::Map(entries) => {
            let blank = |(k, v): (Value, Value)| {
                let v = if is_notes(Some(&k)) { Value::Null } else { without_notes(v) };
                (k, v)
            };
            Value::Map(entries.into_iter().map(blank).collect())
        }
        Value::Set(items) => Value::Set(items.into_iter().map(without_notes).collect()),
        other => other,
    }
}

/// One or more entries of COMMAND INFO: flags, categories, tips, key specifications and subcommands
/// are sets; name, arity and key positions keep their places. The notes of key specifications are
/// prose.
pub fn command_info(value: Value) -> Value {
    let entry = |value: Value| match value {
        Value::Array(mut fields) => {
            for i in [2, 6, 7, 8, 9] {
                if let Some(field) = fields.get_mut(i) {
                    *field = deep_unordered(without_notes(field.clone()));
                }
            }
            Value::Array(fields)
        }
        other => other,
    };
    match value {
        Value::Array(entries) if entries.len() > EVERYTHING => everything(),
        Value::Array(entries) => Value::Array(entries.into_iter().map(entry).collect()),
        other => other,
    }
}

/// The reply of HELLO without the server's name, its version and the connection.
pub fn greeting(value: Value) -> Value {
    let own =
        |key: &Value| matches!(key.bytes(), Some(b"server" | b"version" | b"id" | b"modules"));
    let blank = |key: &Value, value: Value| if own(key) { Value::Null } else { value };
    match value {
        Value::Array(items) => {
            let masked = items.chunks(2).flat_map(|pair| match pair {
                [key, value] => vec![key.clone(), blank(key, value.clone())],
                other => other.to_vec(),
            });
            Value::Array(masked.collect())
        }
        Value::Map(entries) => {
            Value::Map(entries.into_iter().map(|(k, v)| (k.clone(), blank(&k, v))).collect())
        }
        other => other,
    }
}

/// The fields of CLIENT INFO and CLIENT LIST that don't depend on the implementation; of the others
/// only the names are compared.
const STABLE_CLIENT_FIELDS: [&str; 14] = [
    "name", "flags", "capa", "db", "sub", "psub", "ssub", "multi", "watch", "cmd", "user", "redir",
    "resp", "lib-name",
];

/// `key=value` lists, one client per line, with the stable values only.
pub fn clients(value: Value) -> Value {
    let field = |field: &str| match field.split_once('=') {
        Some((key, _)) if !STABLE_CLIENT_FIELDS.contains(&key) => format!("{key}=?"),
        _ => field.to_string(),
    };
    let canonical = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let lines =
            text.lines().map(|line| line.split(' ').map(field).collect::<Vec<_>>().join(" "));
        lines.collect::<Vec<_>>().join("\n").into_bytes()
    };
    match value {
        Value::Bulk(bytes) => Value::Bulk(canonical(&bytes)),
        Value::Verbatim(format, bytes) => Value::Verbatim(format, canonical(&bytes)),
        other => other,
    }
}

/// Entries of SLOWLOG GET without id, time, duration and address.
pub fn slowlog(value: Value) -> Value {
    let entry = |value: Value| match value {
        Value::Array(mut fields) => {
            for i in [0, 1, 2, 4] {
                if let Some(field) = fields.get_mut(i) {
                    // The type of the field is kept.
                    *field = deep_shape(field.clone());
                }
            }
            Value::Array(fields)
        }
        other => other,
    };
    match value {
        Value::Array(entries) => Value::Array(entries.into_iter().map(entry).collect()),
        other => other,
    }
}

/// The types of all elements of a reply, without content: `[1, "a"]` is `[0, ""]`.
pub fn deep_shape(value: Value) -> Value {
    match value {
        Value::Integer(_) => Value::Integer(0),
        Value::Bulk(_) => Value::Bulk(Vec::new()),
        Value::Simple(_) => Value::Simple(Vec::new()),
        Value::Double(_) => Value::Double(Vec::new()),
        Value::Verbatim(format, _) => Value::Verbatim(format, Vec::new()),
        Value::Array(items) => Value::Array(items.into_iter().map(deep_shape).collect()),
        Value::Set(items) => Value::Set(items.into_iter().map(deep_shape).collect()),
        Value::Map(entries) => {
            Value::Map(entries.into_iter().map(|(k, v)| (number_shape(k), deep_shape(v))).collect())
        }
        other => other,
    }
}

/// A key of a map is content if it is a number, and a name if it is a string.
fn number_shape(key: Value) -> Value {
    match key {
        Value::Integer(_) => Value::Integer(0),
        name => name,
    }
}

/// SCAN's reply: a cursor in decimal and an array of strings, without their number and content.
pub fn scan(value: Value) -> Value {
    match value {
        Value::Array(items) => match &items[..] {
            [Value::Bulk(cursor), Value::Array(keys)]
                if !cursor.is_empty()
                    && cursor.iter().all(u8::is_ascii_digit)
                    && keys.iter().all(|k| matches!(k, Value::Bulk(_))) =>
            {
                Value::Simple(b"a cursor and keys".to_vec())
            }
            _ => Value::Array(items),
        },
        other => other,
    }
}

/// SSCAN's reply: the elements in ascending order if the cursor says that it is complete, else like
/// [`scan`].
pub fn whole_scan(value: Value) -> Value {
    match value {
        Value::Array(items) => match &items[..] {
            [Value::Bulk(cursor), found @ Value::Array(_)] if cursor == b"0" => {
                unordered(found.clone())
            }
            _ => scan(Value::Array(items)),
        },
        other => other,
    }
}

/// Replies about consumer groups without their times: when consumers were seen and active, and when
/// entries were delivered. The value -1 for "no time" stays.
pub fn group_times(value: Value) -> Value {
    const TIMES: [&[u8]; 4] = [b"idle", b"inactive", b"seen-time", b"active-time"];
    let blank = |time: Value| match time {
        Value::Integer(0..) => Value::Integer(0),
        other => other,
    };
    let is_time =
        |key: Option<&Value>| key.and_then(Value::bytes).is_some_and(|key| TIMES.contains(&key));
    match value {
        Value::Array(mut items) => {
            // A pending entry: id, consumer unless it is given elsewhere, time, deliveries.
            match &mut items[..] {
                [Value::Bulk(_), Value::Bulk(_), time @ Value::Integer(_), Value::Integer(_)]
                | [Value::Bulk(_), time @ Value::Integer(_), Value::Integer(_)] => {
                    *time = blank(time.clone());
                }
                _ => {}
            }
            let mut out: Vec<Value> = Vec::with_capacity(items.len());
            for item in items {
                let item = if is_time(out.last()) { blank(item) } else { group_times(item) };
                out.push(item);
            }
            Value::Array(out)
        }
        Value::Map(entries) => {
            let each = |(key, value): (Value, Value)| {
                let value = if is_time(Some(&key)) { blank(value) } else { group_times(value) };
                (key, value)
            };
            Value::Map(entries.into_iter().map(each).collect())
        }
        other => other,
    }
}

/// The elements in ascending order and without content: the number of each type.
pub fn how_many(value: Value) -> Value {
    unordered(deep_shape(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_testkit::value::parse;

    fn reply(raw: &str) -> Reply {
        let raw = raw.as_bytes().to_vec();
        Reply { value: parse(&raw).unwrap().unwrap().0, raw }
    }

    fn same(compare: Compare, left: &str, right: &str) -> bool {
        compare.same(&reply(left), &reply(right))
    }

    #[test]
    fn errors_are_compared_exactly() {
        for compare in [
            Compare::Exact,
            Compare::Near(9),
            Compare::Shape,
            Compare::As(unordered),
            Compare::Subset,
        ] {
            assert!(!same(compare, "-ERR a\r\n", "-ERR b\r\n"), "{compare:?}");
            assert!(!same(compare, "-ERR a\r\n", ":1\r\n"), "{compare:?}");
            assert!(same(compare, "-ERR a\r\n", "-ERR a\r\n"), "{compare:?}");
        }
    }

    #[test]
    fn near_compares_negative_numbers_exactly() {
        assert!(same(Compare::Near(5), ":100\r\n", ":105\r\n"));
        assert!(!same(Compare::Near(5), ":100\r\n", ":106\r\n"));
        assert!(!same(Compare::Near(5), ":-1\r\n", ":1\r\n"));
        assert!(!same(Compare::Near(5), ":-1\r\n", ":-2\r\n"));
        assert!(same(Compare::Near(5), ":0\r\n", ":1\r\n"));
    }

    #[test]
    fn shape_distinguishes_nulls_from_values() {
        assert!(same(Compare::Shape, "$1\r\na\r\n", "$1\r\nb\r\n"));
        assert!(!same(Compare::Shape, "$1\r\na\r\n", "$-1\r\n"));
    }

    #[test]
    fn order_is_ignored_only_where_asked() {
        let (ab, ba) = ("*2\r\n:1\r\n:2\r\n", "*2\r\n:2\r\n:1\r\n");
        assert!(!same(Compare::Exact, ab, ba) && same(Compare::As(unordered), ab, ba));
        // As pairs the two are different maps.
        assert!(!same(Compare::As(pairs), ab, ba));
        assert!(
            same(Compare::Subset, "*1\r\n:2\r\n", ab) && !same(Compare::Subset, ab, "*1\r\n:2\r\n")
        );
    }

    #[test]
    fn clients_keep_names_and_stable_values() {
        let line = |text: &str| clients(Value::Bulk(text.as_bytes().to_vec()));
        assert_eq!(line("id=1 name=a db=0\n"), line("id=2 name=a db=0\n"));
        assert_ne!(line("id=1 name=a db=0\n"), line("id=2 name=b db=0\n"));
        assert_ne!(line("id=1 name=a\n"), line("name=a\n"));
    }

    #[test]
    fn complete_scan_has_the_same_elements() {
        let whole = |cursor: &str, item: &str| {
            format!("*2\r\n$1\r\n{cursor}\r\n*2\r\n$1\r\n{item}\r\n$1\r\nb\r\n")
        };
        let same = |l: &str, r: &str| same(Compare::As(whole_scan), l, r);
        assert!(same(&whole("0", "a"), "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nb\r\n$1\r\na\r\n"));
        assert!(!same(&whole("0", "a"), &whole("0", "c")));
        assert!(!same(&whole("0", "a"), &whole("1", "a")));
        assert!(same(&whole("1", "a"), &whole("2", "c")));
    }

    #[test]
    fn how_many_ignores_content() {
        let two = "*2\r\n$1\r\na\r\n$1\r\nb\r\n";
        assert!(same(Compare::As(how_many), two, "*2\r\n$1\r\nc\r\n$1\r\nc\r\n"));
        assert!(!same(Compare::As(how_many), two, "*1\r\n$1\r\na\r\n"));
        assert!(!same(Compare::As(how_many), "$1\r\na\r\n", "$-1\r\n"));
    }

    #[test]
    fn only_the_times_of_groups_are_ignored() {
        let same = |l: &str, r: &str| same(Compare::As(group_times), l, r);
        let entry = |id: &str, time: i64, n: i64| {
            format!("*1\r\n*4\r\n$1\r\n{id}\r\n$1\r\nc\r\n:{time}\r\n:{n}\r\n")
        };
        assert!(same(&entry("1", 5, 1), &entry("1", 0, 1)));
        assert!(!same(&entry("1", 5, 1), &entry("2", 5, 1)));
        assert!(!same(&entry("1", 5, 1), &entry("1", 5, 2)));
        let consumer = |pending: i64, inactive: i64| {
            format!("*4\r\n$7\r\npending\r\n:{pending}\r\n$8\r\ninactive\r\n:{inactive}\r\n")
        };
        assert!(same(&consumer(1, 5), &consumer(1, 0)));
        assert!(!same(&consumer(1, 5), &consumer(1, -1)), "-1 is not a time");
        assert!(!same(&consumer(1, 5), &consumer(2, 5)));
    }

    #[test]
    fn scan_reply_must_have_its_form() {
        assert!(same(
            Compare::As(scan),
            "*2\r\n$1\r\n0\r\n*0\r\n",
            "*2\r\n$2\r\n17\r\n*1\r\n$1\r\na\r\n"
        ));
        assert!(!same(Compare::As(scan), "*2\r\n$1\r\nx\r\n*0\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"));
    }
}
