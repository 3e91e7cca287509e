//! Bodies of the fuzz targets: the input is a log file or a manifest.

use super::{Item, Manifest, ParseFault, Parser};
use std::io::Read;

/// A reader that returns at most this many bytes per call.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.len().min(self.1).min(buf.len());
        buf[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

/// The parser's result: commands, each with the offset after it, the final offset, and whether that
/// is the end.
type Found = (Vec<(Vec<Vec<u8>>, u64)>, u64, bool);

fn read<R: Read>(mut parser: Parser<R>) -> Found {
    let mut commands = Vec::new();
    loop {
        match parser.item() {
            Ok(Item::Command) => {
                let args = parser.args().map(<[u8]>::to_vec).collect();
                commands.push((args, parser.offset()));
            }
            Ok(Item::Time(_) | Item::Position(_) | Item::Note) => {}
            Ok(Item::End) => return (commands, parser.offset(), true),
            Err(ParseFault::Torn(_) | ParseFault::Corrupt(_)) => {
                return (commands, parser.offset(), false);
            }
            Err(ParseFault::Io(e)) => panic!("memory does not fail: {e}"),
        }
    }
}

/// Reads `data` as a file of a log.
///
/// # Panics
/// The result depends on the sizes of the reads, or differs from the bytes of the input.
pub fn run_file(data: &[u8]) {
    let [size, checks, data @ ..] = data else { return };
    let (checks, length) = (checks % 2 == 0, data.len() as u64);
    let whole = read(Parser::new(data, length, checks));
    let pieces = Pieces(data, usize::from(*size) + 1);
    assert_eq!(read(Parser::new(pieces, length, checks)), whole);
    let (commands, end, ended) = whole;
    assert!(end <= length && (!ended || end == length));
    // A second read of the valid part must succeed.
    let right = &data[..end as usize];
    let (again, at, ended) = read(Parser::new(right, end, checks));
    assert!(ended && at == end && again == commands);
    for (args, after) in &commands {
        let mut text = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            text.extend(format!("${}\r\n", arg.len()).bytes());
            text.extend(arg);
            text.extend(b"\r\n");
        }
        let place = &data[..*after as usize];
        // Numbers in the input may have leading zeros.
        assert!(
            place.ends_with(&text)
                || place.windows(2).any(|w| w[1] == b'0' && b"*$0".contains(&w[0]))
        );
    }
}

/// Reads `data` as a manifest.
///
/// # Panics
/// A valid manifest differs after printing and parsing.
pub fn run_manifest(data: &[u8]) {
    let Ok(manifest) = Manifest::parse(data) else { return };
    if manifest.is_empty() && manifest.history.is_empty() {
        return;
    }
    let printed = manifest.print();
    let long = printed.split(|b| *b == b'\n').any(|line| line.len() >= 1024);
    match Manifest::parse(&printed) {
        Ok(again) => assert_eq!(again.print(), printed),
        // Quoting may make a line too long.
        Err(fault) => assert!(long, "{fault}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aof::{Annotations, Encoder};
    use weft_testkit::rng::Rng;

    fn file() -> Vec<u8> {
        let mut out = vec![7, 0];
        let mut encoder = Encoder::new(Annotations { timestamps: true, checksums: true });
        for second in 1..4 {
            let set = (0, &b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n"[..]);
            encoder.unit(second * 1000, &[set, set], &mut out);
        }
        encoder.seal(&mut out);
        out
    }

    /// Changes some bytes, truncates, or repeats a part.
    fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
        for _ in 0..1 + rng.below(4) {
            if bytes.is_empty() {
                return;
            }
            let (at, other) = (rng.below(bytes.len()), rng.below(bytes.len()));
            match rng.below(5) {
                0 => bytes.truncate(at),
                1 => bytes[at] = *rng.pick(b"\0*$#0129\r\n-x"),
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
    fn mutated_files_and_manifests_are_parsed() {
        let mut rng = Rng::new(1);
        let manifest = b"file a.2.base.rdb seq 2 type b\n# x\nfile \"b c\" seq 3 type i\n";
        let unchecked = |mut bytes: Vec<u8>| {
            bytes[1] = 1;
            bytes
        };
        for seed in [file(), unchecked(file())] {
            for _ in 0..2000 {
                let mut bytes = seed.clone();
                mutate(&mut bytes, &mut rng);
                run_file(&bytes);
            }
        }
        for _ in 0..5000 {
            let mut bytes = manifest.to_vec();
            mutate(&mut bytes, &mut rng);
            run_manifest(&bytes);
        }
    }
}
