//! Compares lists with Valkey, node by node.
//!
//! Each line of `nodes.txt` is a random change of a list and, after `=`, the number of nodes and
//! elements that Valkey 9.1.2 has afterwards (`ql_nodes` of DEBUG OBJECT, 0 for a listpack, and
//! LLEN). OBJECT ENCODING only shows whether there is one node, and only sometimes. A difference in
//! nodes becomes visible later.
//!
//! ```text
//!  new SIZE DEPTH             a new list with these directives      cfg SIZE DEPTH   as CONFIG SET
//!  push END TEXT...           pop END N                             rot END END      as LMOVE
//!  set INDEX TEXT             ins PIVOT TEXT (B|A)                  as LINSERT BEFORE or AFTER
//!  rem END N TEXT             trim START COUNT                      TEXT: a letter, how often
//! ```

use super::*;

const SCRIPT: &str = include_str!("nodes.txt");

fn text(word: &str) -> Vec<u8> {
    let (letter, times) = word.split_at(1);
    letter.repeat(number(times)).into_bytes()
}

fn number(word: &str) -> usize {
    word.parse().expect("a number")
}

fn side(word: &str) -> End {
    end(word == "L")
}

/// The list after a change; `record` is `None` before its first one.
fn change(record: Option<Record>, words: &[&str], limits: &Limits) -> Record {
    let waste = &mut Waste::default();
    let texts: Vec<Vec<u8>>;
    match (record, words) {
        (record, ["push", at, words @ ..]) => {
            texts = words.iter().map(|word| text(word)).collect();
            let values: Vec<&[u8]> = texts.iter().map(|t| &t[..]).collect();
            match record {
                Some(record) => push(record, side(at), &values, limits),
                None => create(b"key", 0, side(at), &values, limits),
            }
        }
        (Some(record), ["pop", at, n]) => pop(record, side(at), number(n), limits, waste, |_| {}),
        (Some(record), ["rot", from, to]) => rotate(record, side(from), side(to), limits).0,
        (Some(record), ["set", index, new]) => {
            set(record, number(index), &text(new), limits, waste)
        }
        (Some(record), ["ins", pivot, new, at]) => {
            insert(record, &text(pivot), &text(new), *at == "A", limits).0
        }
        (Some(record), ["rem", at, n, gone]) => {
            remove(record, side(at), &text(gone), number(n), limits, waste).0
        }
        (Some(record), ["trim", start, count]) => {
            trim(record, number(start), number(count), limits, waste)
        }
        (_, other) => panic!("{other:?}"),
    }
}

#[test]
fn nodes_match_valkey() {
    let mut limits = Limits::default();
    let mut record = None;
    let mut long = 0;
    for (n, line) in SCRIPT.lines().enumerate() {
        let (line, wanted) = line.split_once(" = ").unwrap_or((line, ""));
        let words: Vec<&str> = line.split(' ').collect();
        if let [what @ ("new" | "cfg"), size, depth] = words[..] {
            limits.list_size = size.parse().expect("a number");
            limits.list_compress = number(depth);
            record = record.filter(|_| what == "cfg");
            continue;
        }
        let changed = change(record.take(), &words, &limits);
        if wanted.is_empty() {
            // The list is empty.
            assert_eq!(len(&changed), 0, "line {}", n + 1);
            continue;
        }
        let list = List::of(&changed).expect("a list");
        let nodes = match list {
            List::Chunks(chunks) => {
                check_chunks(chunks);
                chunks.row.iter().filter(|chunk| !chunk.follows).count()
            }
            List::Packed { .. } | List::TwoWay { .. } => 0,
        };
        let nodes = if list.encoding_name() == "listpack" { 0 } else { nodes };
        assert_eq!(format!("{nodes} {}", list.len()), wanted, "line {}: {line}", n + 1);
        long += usize::from(nodes > 1);
        record = Some(changed);
    }
    assert!(long > 500, "{long} lists of several nodes");
}
