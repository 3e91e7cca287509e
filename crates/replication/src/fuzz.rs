//! Bodies of the fuzz targets: the input is a stream, or a primary's replies.

use crate::action::{Action, LinkId, Load};
use crate::apply::{Kind, Splitter};
use crate::id::ReplicationId;
use crate::node::{Node, Start};
use crate::settings::{DisklessLoad, Settings};
use crate::stream::Position;
use weft_resp::{FirstSelect, UnitEncoder, append_request};

/// A unit: its kind, its bytes, its commands with their databases.
type Seen = (Kind, Vec<u8>, Vec<(u32, Vec<Vec<u8>>)>);

fn split(stream: &[u8], piece: usize) -> (Vec<Seen>, bool, u32) {
    let (mut splitter, mut seen) = (Splitter::new(0), Vec::new());
    for bytes in stream.chunks(piece) {
        splitter.push(bytes);
        loop {
            match splitter.next_unit() {
                Ok(Some(unit)) => {
                    let commands =
                        unit.commands().map(|(db, args)| (db, args.map(<[u8]>::to_vec).collect()));
                    seen.push((unit.kind(), unit.bytes().to_vec(), commands.collect()));
                }
                Ok(None) => break,
                Err(_) => return (seen, true, splitter.db()),
            }
        }
    }
    (seen, false, splitter.db())
}

/// Splits `data` as a stream.
///
/// # Panics
/// The units depend on the sizes of the pushes, drop bytes, or differ after encoding and splitting.
pub fn run_stream(data: &[u8]) {
    let [size, stream @ ..] = data else { return };
    let whole = split(stream, stream.len().max(1));
    assert_eq!(split(stream, usize::from(*size) + 1), whole);
    let (units, _, _) = whole;
    let bytes: Vec<u8> = units.iter().flat_map(|(_, bytes, _)| bytes.clone()).collect();
    assert!(stream.starts_with(&bytes), "units are the stream");
    let (mut encoder, mut again) = (UnitEncoder::new(FirstSelect::BeforeMulti), Vec::new());
    let written = |args: &Vec<Vec<u8>>| {
        let (args, mut out): (Vec<&[u8]>, _) =
            (args.iter().map(Vec::as_slice).collect(), Vec::new());
        append_request(&args, &mut out);
        out
    };
    // PING and REPLCONF have another meaning alone than inside a transaction.
    let is_own = |unit: &Vec<(u32, Vec<Vec<u8>>)>| {
        let name = unit.first().map(|(_, args)| args[0].to_ascii_uppercase());
        unit.len() == 1 && matches!(name.as_deref(), Some(b"PING" | b"REPLCONF"))
    };
    let units = units.into_iter().map(|unit| unit.2);
    let writes: Vec<_> = units.filter(|unit| !unit.is_empty() && !is_own(unit)).collect();
    for commands in &writes {
        let texts: Vec<(usize, Vec<u8>)> =
            commands.iter().map(|(db, args)| (*db as usize, written(args))).collect();
        let commands: Vec<(usize, &[u8])> =
            texts.iter().map(|(db, text)| (*db, &text[..])).collect();
        encoder.unit(&commands, &mut again);
    }
    // Compares units, not bytes, because a transaction of one command needs no MULTI.
    let read: Vec<_> = split(&again, 64)
        .0
        .into_iter()
        .map(|unit| unit.2)
        .filter(|unit| !unit.is_empty())
        .collect();
    assert_eq!(read, writes);
}

/// A replica's actions without log lines; ranges are replaced by their bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Did {
    actions: Vec<Action>,
    payload: Vec<u8>,
    stream: Vec<u8>,
}

fn answer(answers: &[u8], piece: usize, load: DisklessLoad, resumes: bool) -> Did {
    let (mut did, mut out) = (Did::default(), Vec::new());
    let id = ReplicationId::from_random([0xaa; 20]);
    let position = resumes.then_some(Position { id, offset: 100, db: 3 });
    let settings =
        Settings { diskless_load: load, password: "p".to_string(), ..Settings::default() };
    let start = Start { position, primary: Some(("primary".to_string(), 1)) };
    let mut node = Node::new(0, settings, Box::new(move || id), start, &mut out);
    node.tick(0, &mut out);
    let link = LinkId(1);
    node.connected(0, link, &mut out);
    let mut held: Vec<u8> = Vec::new();
    for bytes in answers.chunks(piece) {
        held.extend(bytes);
        loop {
            let taken = node.received(0, link, &held, &|| true, &mut out);
            let mut read_on = false;
            for action in out.drain(..) {
                match action {
                    Action::Payload { bytes, .. } => did.payload.extend(bytes),
                    Action::Stream { bytes, .. } => did.stream.extend(&held[bytes]),
                    Action::EndLoad { .. } => {
                        read_on = true;
                        did.actions.push(action);
                    }
                    Action::Log { .. } => {}
                    other => did.actions.push(other),
                }
            }
            held.drain(..taken);
            if !read_on {
                break;
            }
            node.loaded(0, link, 0, &mut out);
        }
    }
    did
}

/// Passes `data` to a replica as its primary's replies.
///
/// # Panics
/// The replica's actions depend on the sizes of the pieces, or it follows a stream that the primary
/// didn't send.
pub fn run_answers(data: &[u8]) {
    let [size, how, answers @ ..] = data else { return };
    let load = [
        DisklessLoad::Disabled,
        DisklessLoad::OnEmptyDb,
        DisklessLoad::SwapDb,
        DisklessLoad::FlushBeforeLoad,
    ][usize::from(how % 4)];
    let resumes = how & 4 != 0;
    let whole = answer(answers, answers.len().max(1), load, resumes);
    // If a mark ends inside a piece, the bytes after it belong to the copy, because the stream
    // hasn't begun yet.
    if !answers.windows(5).any(|window| window == b"$EOF:") {
        assert_eq!(answer(answers, usize::from(*size) + 1, load, resumes), whole);
    }
    let began = whole.actions.iter().any(|action| matches!(action, Action::BeginStream { .. }));
    assert!(began || whole.stream.is_empty(), "no stream before its beginning");
    let loads = |action: &&Action| matches!(action, Action::BeginLoad { .. });
    let files = |action: &&Action| matches!(action, Action::BeginLoad { load: Load::File, .. });
    let count = whole.actions.iter().filter(loads).count();
    assert!(count <= 1, "one copy on a link");
    assert!(load != DisklessLoad::Disabled || whole.actions.iter().filter(files).count() == count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{GET_ACK, PING};
    use weft_base::rng::Rng;

    fn stream() -> Vec<u8> {
        let (mut out, mut encoder) = (vec![7], UnitEncoder::new(FirstSelect::BeforeMulti));
        encoder.unit(&[(0, PING), (2, PING)], &mut out);
        out.extend(GET_ACK);
        encoder.unit(&[(2, &b"*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"[..])], &mut out);
        out
    }

    fn answers() -> Vec<Vec<u8>> {
        let id = "5a".repeat(20);
        let head = "+PONG\r\n+OK\r\n+OK\r\n+OK\r\n-ERR no\r\n";
        let mark = "m".repeat(40);
        [
            format!("{head}\n\n+FULLRESYNC {id} 7\r\n\n$5\r\nhello*1\r\n$4\r\nPING\r\n"),
            format!("{head}+FULLRESYNC {id} 7\r\n$EOF:{mark}\r\nhello{mark}"),
            format!("{head}+CONTINUE {id}\r\n*1\r\n$4\r\nPING\r\n"),
            format!("{head}-LOADING x\r\n"),
            format!("{head}-ERR unknown\r\n$0\r\n*1\r\n$4\r\nPING\r\n"),
        ]
        .iter()
        .map(|text| [&[3, 4], text.as_bytes()].concat())
        .collect()
    }

    /// Changes some bytes, truncates, or repeats a part.
    fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
        for _ in 0..1 + rng.below(4) {
            if bytes.is_empty() {
                return;
            }
            let length = bytes.len() as u64;
            let (at, other) = (rng.below(length) as usize, rng.below(length) as usize);
            match rng.below(5) {
                0 => bytes.truncate(at),
                1 => bytes[at] = b"\0*$#0129\r\n-x+"[rng.below(13) as usize],
                2 => bytes[at] = rng.next_u64() as u8,
                3 => drop(bytes.remove(at)),
                _ => {
                    let part = bytes[at.min(other)..at.max(other)].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
    }

    #[test]
    fn mutated_streams_and_replies_are_handled() {
        let mut rng = Rng::new(1);
        let answers = answers();
        for seed in &answers {
            for how in 0..8 {
                let mut bytes = seed.clone();
                bytes[1] = how;
                run_answers(&bytes);
            }
        }
        run_stream(&stream());
        for round in 0..8000 {
            let mut bytes = stream();
            mutate(&mut bytes, &mut rng);
            run_stream(&bytes);
            let mut bytes = answers[round % answers.len()].clone();
            mutate(&mut bytes, &mut rng);
            run_answers(&bytes);
        }
    }
}
