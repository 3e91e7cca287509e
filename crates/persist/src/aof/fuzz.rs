//! What the fuzz targets run: bytes that may be a file of a log, or a manifest.

use super::{Item, Manifest, ParseFault, Parser};
use std::io::Read;

/// Gives bytes in pieces of this size.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.len().min(self.1).min(buf.len());
        buf[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

/// What a parser finds: commands with the place behind each, where it stops, and whether at the end.
type Found = (Vec<(Vec<Vec<u8>>, u64)>, u64, bool);

fn read<R: Read>(mut parser: Parser<R>) -> Found {
    let mut commands = Vec::new();
    loop {
        match parser.next() {
            Ok(Item::Command) => {
                let args = parser.args().map(<[u8]>::to_vec).collect();
                commands.push((args, parser.offset()));
            }
            Ok(Item::Time(_) | Item::Note) => {}
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
/// If what is found depends on the pieces in which the bytes come, or what was found is not what
/// stands there.
pub fn run_file(data: &[u8]) {
    let [size, checks, data @ ..] = data else { return };
    let (checks, length) = (checks % 2 == 0, data.len() as u64);
    let whole = read(Parser::new(data, length, checks));
    let pieces = Pieces(data, usize::from(*size) + 1);
    assert_eq!(read(Parser::new(pieces, length, checks)), whole);
    let (commands, end, ended) = whole;
    assert!(end <= length && (!ended || end == length));
    // Up to where it is whole it is read again without complaint.
    let right = &data[..end as usize];
    let (again, at, ended) = read(Parser::new(right, end, checks));
    assert!(ended && at == end && again == commands);
    for (args, behind) in &commands {
        let mut text = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            text.extend(format!("${}\r\n", arg.len()).bytes());
            text.extend(arg);
            text.extend(b"\r\n");
        }
        let place = &data[..*behind as usize];
        // Numbers may have been written with zeros in front of them.
        assert!(
            place.ends_with(&text)
                || place.windows(2).any(|w| w[1] == b'0' && b"*$0".contains(&w[0]))
        );
    }
}

/// Reads `data` as a manifest.
///
/// # Panics
/// If it is one, and does not come back as it is when it is printed and read again.
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
