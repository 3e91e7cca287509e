//! The property that fuzzing checks: however the input is split, the parser sees the same.

use crate::parser::{Limits, Parser, Span, Step};

/// Everything that a run of the parser observed.
#[derive(Debug, PartialEq, Eq, Default)]
struct Seen {
    requests: Vec<Vec<Vec<u8>>>,
    error: Option<String>,
}

/// Feeds `data` whole and in pieces (their sizes taken from the data) and panics when the two
/// runs differ. Never panics otherwise, whatever the bytes.
pub fn fuzz_parse(data: &[u8]) {
    let (Some(&seed), body) = (data.first(), data.get(1..).unwrap_or(&[])) else { return };
    let whole = feed(body, |_| body.len().max(1));
    let pieces = feed(body, |at| 1 + (usize::from(seed) + at * 7) % 13);
    assert_eq!(whole, pieces);
}

/// Runs the parser over `body`, growing the visible prefix by `piece(at)` bytes at a time.
fn feed(body: &[u8], piece: impl Fn(usize) -> usize) -> Seen {
    let limits = Limits { max_bulk: 1 << 20, ..Limits::default() };
    let (mut seen, mut parser, mut args) = (Seen::default(), Parser::default(), Vec::new());
    let mut end = 0;
    let mut base = 0;
    let mut owned: Vec<Vec<u8>> = Vec::new();
    loop {
        match parser.next(&body[base..end], &mut args, &limits) {
            Step::Complete => seen.requests.push(collect(&mut owned, &mut args, &body[base..])),
            Step::Inline(a) => seen.requests.push(a),
            Step::Error(e) => {
                seen.error = Some(e.to_string());
                return seen;
            }
            Step::Big { len } if body.len() >= base + parser.pos + len + 2 => {
                owned.extend(args.drain(..).map(|s: Span| s.of(&body[base..]).to_vec()));
                let start = base + parser.pos;
                if body[start + len..start + len + 2] != *b"\r\n" {
                    seen.error = Some(crate::ProtocolError::InvalidCrlf.to_string());
                    return seen;
                }
                owned.push(body[start..start + len].to_vec());
                base = start + len + 2;
                end = end.max(base);
                if parser.big_done() {
                    seen.requests.push(std::mem::take(&mut owned));
                }
            }
            Step::Big { .. } | Step::More if end == body.len() => return seen,
            Step::Big { .. } | Step::More => end = (end + piece(end)).min(body.len()),
        }
    }
}

fn collect(owned: &mut Vec<Vec<u8>>, args: &mut Vec<Span>, buf: &[u8]) -> Vec<Vec<u8>> {
    let mut request = std::mem::take(owned);
    request.extend(args.drain(..).map(|s| s.of(buf).to_vec()));
    request
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn splits_do_not_matter(
            parts in prop::collection::vec(prop_oneof![
                Just("*2\r\n".to_string()), Just("$3\r\nabc\r\n".to_string()), Just("PING\r\n".to_string()),
                Just("*1\r\n$33000\r\n".to_string() + &"z".repeat(33000) + "\r\n"),
                Just("*0\r\n".to_string()), "[ -~\r\n]{0,12}",
            ], 0..12), seed in any::<u8>())
        {
            let mut data = vec![seed];
            parts.iter().for_each(|p| data.extend_from_slice(p.as_bytes()));
            super::fuzz_parse(&data);
        }
    }
}
