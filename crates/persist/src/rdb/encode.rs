//! Encodes a record's value incrementally: the elements of a large collection, or the chunks of a
//! list, go to the writer one by one.
//!
//! Other threads may change the record meanwhile, if it is [shared](weft_types::Shared): a shared
//! value has all data that this module reads.

use super::write::Writer;
use super::{Code, encode_stream};
use std::io::{self, Write};
use std::ops::ControlFlow;
use weft_types::hash::{self, Hash, Pair};
use weft_types::list::{List, Node};
use weft_types::packed::{Entries, OneWay, TwoWay, Value};
use weft_types::set::{Ints, Set};
use weft_types::string::{Digits, Str, Text};
use weft_types::zset::{Span, View};
use weft_types::{Kind, Record, Shared, value};

/// The format of a value.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The version of the format that the reader supports. For a version below 10, collections are
    /// written element by element, which every version reads. A value that no supported form can
    /// express is written in the first form that can.
    pub version: u16,
    /// Whether strings of more than 20 bytes are compressed.
    pub compress: bool,
}

/// The type code for `record` and a reader of this version. O(1).
#[must_use]
pub fn code_of(record: &Record, version: u16) -> Code {
    let or = |code: Code, old: Code| if version >= code.version() { code } else { old };
    match Kind::of(record.kind()) {
        Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => Code::String,
        Kind::StrBlob | Kind::StrPieces => Code::String,
        Kind::ListPacked | Kind::ListTwoWay | Kind::ListChunks => or(Code::Quicklist2, Code::List),
        Kind::SetInts => Code::SetInts,
        Kind::SetPacked => or(Code::SetListpack, Code::Set),
        Kind::SetTable => Code::Set,
        Kind::ZsetPacked => or(Code::ZsetListpack, Code::Zset),
        Kind::ZsetTree => Code::Zset,
        Kind::HashPacked => or(Code::HashListpack, Code::Hash),
        Kind::HashTable if hash::has_expiring_fields(record) => Code::HashExpiring,
        Kind::HashTable => Code::Hash,
        Kind::Stream => encode_stream::code_of(record, version),
    }
}

/// Writes type code and body; returns the code. Expired fields of hashes that still exist are
/// written, too. O(bytes). Memory: the largest chunk of a list, small collection or compressed
/// string.
///
/// # Errors
///
/// Write errors.
pub fn encode<W: Write>(record: &Record, form: Form, out: &mut W) -> io::Result<Code> {
    let code = code_of(record, form.version);
    out.write_all(&[code as u8])?;
    encode_body(record, code, form, out)?;
    Ok(code)
}

/// Writes a body after the type code, which is the result of [`code_of`]. Otherwise like
/// [`encode()`].
///
/// # Errors
///
/// Write errors.
pub fn encode_body<W: Write>(
    record: &Record,
    code: Code,
    form: Form,
    out: &mut W,
) -> io::Result<()> {
    let mut out = Writer::new(out, form.compress);
    match Kind::of(record.kind()) {
        Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => string(record, &mut out),
        Kind::StrBlob | Kind::StrPieces => string(record, &mut out),
        Kind::ListPacked | Kind::ListTwoWay | Kind::ListChunks => list(record, code, &mut out),
        Kind::SetInts | Kind::SetPacked | Kind::SetTable => set(record, code, &mut out),
        Kind::ZsetPacked | Kind::ZsetTree => zset(record, code, &mut out),
        Kind::HashPacked | Kind::HashTable => hash(record, code, &mut out),
        Kind::Stream => encode_stream::stream(record, code, &mut out),
    }
}

/// Converts a result for a traversal that stops at an error.
fn step(done: io::Result<()>) -> ControlFlow<io::Error> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(e) => ControlFlow::Break(e),
    }
}

fn ended(walk: ControlFlow<io::Error>) -> io::Result<()> {
    match walk {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(e) => Err(e),
    }
}

fn value<W: Write>(value: Value<'_>, out: &mut Writer<'_, W>) -> io::Result<()> {
    match value {
        Value::Bytes(text) => out.string(text),
        Value::Int(n) => out.int(n),
    }
}

/// Writes a listpack: its size and number of entries first, an end mark last.
pub(super) fn listpack<W: Write>(
    entries: &[u8],
    count: usize,
    out: &mut Writer<'_, W>,
) -> io::Result<()> {
    const OVERHEAD: usize = 7;
    let len = entries.len() + OVERHEAD;
    let claimed = u32::try_from(len).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(len);
    bytes.extend(claimed.to_le_bytes());
    // Beyond 16 bits the count is unknown to the reader.
    bytes.extend(u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend_from_slice(entries);
    bytes.push(0xff);
    out.string(&bytes)
}

fn listpack_of<W: Write>(entries: Entries<'_, OneWay>, out: &mut Writer<'_, W>) -> io::Result<()> {
    listpack(&entries.in_form::<TwoWay>(), entries.offsets().count(), out)
}

fn string<W: Write>(record: &Record, out: &mut Writer<'_, W>) -> io::Result<()> {
    match Str::of(record) {
        Some(Str::Int(n)) => out.int(n),
        Some(Str::Bytes(text) | Str::Blob(text)) => out.string(text),
        Some(Str::Pieces(pieces)) => out.text(Text::Pieces(pieces)),
        None => unreachable!("the kind is one of a string"),
    }
}

fn list<W: Write>(record: &Record, code: Code, out: &mut Writer<'_, W>) -> io::Result<()> {
    let list = List::of(record).expect("the kind is one of a list");
    if code == Code::List {
        out.len(list.len())?;
        let mut done = Ok(());
        list.each_from(0, |element| {
            done = value(element, out);
            done.is_ok()
        });
        return done;
    }
    out.len(list.nodes())?;
    ended(list.try_each_node(|n| step(node(n, out))))
}

fn node<W: Write>(node: Node<'_>, out: &mut Writer<'_, W>) -> io::Result<()> {
    match node {
        Node::Alone(element) => {
            out.len(1)?;
            out.string(element.bytes(&mut Digits::new()))
        }
        Node::Packed { entries, count } => {
            out.len(2)?;
            listpack(entries.bytes(), count, out)
        }
    }
}

fn set<W: Write>(record: &Record, code: Code, out: &mut Writer<'_, W>) -> io::Result<()> {
    let set = Set::of(record).expect("the kind is one of a set");
    match set {
        Set::Ints(ints) => intset(ints, out),
        Set::Packed { entries, .. } if code == Code::SetListpack => listpack_of(entries, out),
        Set::Packed { .. } | Set::Table(_) => {
            out.len(set.len())?;
            ended(set.try_each(|member| step(value(member, out))))
        }
    }
}

/// Writes an intset: width and count in 32 bits each, then the integers.
fn intset<W: Write>(ints: Ints<'_>, out: &mut Writer<'_, W>) -> io::Result<()> {
    let count = u32::try_from(ints.len()).map_err(io::Error::other)?;
    let bytes =
        [&(ints.width() as u32).to_le_bytes()[..], &count.to_le_bytes(), ints.bytes()].concat();
    out.string(&bytes)
}

/// Writes the last element first, like the reference: the reader inserts each element before the
/// others.
fn zset<W: Write>(record: &Record, code: Code, out: &mut Writer<'_, W>) -> io::Result<()> {
    let view = View::of(record).expect("the kind is one of a sorted set");
    if let (View::Packed(pairs, _), Code::ZsetListpack) = (view, code) {
        return listpack_of(pairs.entries(), out);
    }
    out.len(view.len())?;
    let mut done = Ok(());
    view.walk(Span { skip: 0, count: view.len() }, true, |member, score| {
        if done.is_ok() {
            done = value(member, out).and_then(|()| out.raw(&score.to_le_bytes()));
        }
    });
    done
}

fn hash<W: Write>(record: &Record, code: Code, out: &mut Writer<'_, W>) -> io::Result<()> {
    // Earlier than any expiry of a field, so all fields are written.
    let hash = Hash::of(record, i64::MIN).expect("the kind is one of a hash");
    if let (Some(entries), Code::HashListpack) = (hash.packed(), code) {
        return listpack_of(entries, out);
    }
    out.len(hash.len())?;
    let mut done = Ok(());
    hash.each(|pair| {
        if done.is_ok() {
            done = field(pair, code, out);
        }
    });
    done
}

fn field<W: Write>(pair: Pair<'_>, code: Code, out: &mut Writer<'_, W>) -> io::Result<()> {
    value(pair.field, out)?;
    value(pair.value, out)?;
    match code == Code::HashExpiring {
        true => out.raw(&pair.expiry.unwrap_or(-1).to_le_bytes()),
        false => Ok(()),
    }
}

/// Writes the number of elements.
fn begin<W: Write>(count: usize, form: Form, out: &mut W) -> io::Result<Writer<'_, W>> {
    let mut out = Writer::new(out, form.compress);
    out.len(count)?;
    Ok(out)
}

/// [`encode()`] for a shared value that is not needed afterwards. Releases large hashes, sets and
/// lists page by page once written, so that writers don't have to copy those pages.
///
/// # Errors
///
/// Write errors.
pub fn encode_shared<W: Write>(shared: Shared, form: Form, out: &mut W) -> io::Result<Code> {
    let code = code_of(&shared, form.version);
    out.write_all(&[code as u8])?;
    encode_shared_body(shared, code, form, out)?;
    Ok(code)
}

/// Like [`encode_shared`], after the type code.
///
/// # Errors
///
/// Write errors.
pub fn encode_shared_body<W: Write>(
    shared: Shared,
    code: Code,
    form: Form,
    out: &mut W,
) -> io::Result<()> {
    let elements = value::elements(&shared);
    match (Kind::of(shared.kind()), List::of(&shared)) {
        (Kind::SetTable, _) => {
            let mut out = begin(elements, form, out)?;
            ended(shared.drain_members(|member| step(self::value(member, &mut out))))
        }
        (Kind::HashTable, _) => {
            let mut out = begin(elements, form, out)?;
            ended(shared.drain_fields(|pair| step(field(pair, code, &mut out))))
        }
        (Kind::ListChunks, Some(list)) if code == Code::Quicklist2 => {
            let mut out = begin(list.nodes(), form, out)?;
            ended(shared.drain_nodes(|n| step(node(n, &mut out))))
        }
        (Kind::StrPieces, _) => {
            let len = Str::of(&shared).map_or(0, Str::len);
            let mut out = Writer::new(out, form.compress);
            if out.compresses(len) {
                // Releases the pieces before the compression, which takes longer.
                let mut whole = Vec::with_capacity(len);
                let _ = shared.drain_text(|slice| {
                    whole.extend_from_slice(slice);
                    ControlFlow::<()>::Continue(())
                });
                return out.string(&whole);
            }
            out.len(len)?;
            ended(shared.drain_text(|slice| step(out.raw(slice))))
        }
        (Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt | Kind::StrBlob, _)
        | (Kind::ListPacked | Kind::ListTwoWay | Kind::ListChunks, _)
        | (Kind::SetInts | Kind::SetPacked | Kind::ZsetPacked | Kind::ZsetTree, _)
        | (Kind::HashPacked | Kind::Stream, _) => encode_body(&shared, code, form, out),
    }
}
