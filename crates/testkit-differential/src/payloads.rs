//! Arguments of RESTORE: values of every type code in the RDB format, valid and invalid.
//!
//! Values are made from the format's description, not with the server's code. Corrupted values have
//! the right checksum, so the server must judge the value itself. Two things are never corrupted.
//! Scores: the reference takes any text for a score. Times of expiry: the replies about a key that
//! expires soon depend on the time of the request. Zeros follow a corrupted value, since the
//! reference reads the checksum as part of a value that is too short.

use weft_testkit::rng::Rng;

/// The version that the reference writes.
const VERSION: u16 = 80;

/// A valid payload, or one with a wrong checksum or version.
pub fn payload(rng: &mut Rng, now: i64) -> Vec<u8> {
    let bytes = value(rng, now);
    let version = match rng.below(20) {
        0 => *rng.pick(&[0, 13, 79, 81, 100, 65535]),
        1..6 => *rng.pick(&[1, 6, 9, 10, 11]),
        _ => VERSION,
    };
    let mut bytes = sealed(bytes, version);
    match rng.below(60) {
        0 => bytes.truncate(rng.below(bytes.len() + 1)),
        1 => {
            let at = rng.below(bytes.len());
            bytes[at] ^= 1 << rng.below(8);
        }
        _ => {}
    }
    bytes
}

/// A payload with the right checksum and a corrupted value.
pub fn corrupted(rng: &mut Rng, now: i64) -> Vec<u8> {
    let mut bytes = loop {
        let bytes = value(rng, now);
        if !matches!(bytes[0], 3 | 5 | 12 | 17 | 22) {
            break bytes;
        }
    };
    let whole = bytes.len();
    for _ in 0..1 + rng.below(2) {
        let at = 1 + rng.below(whole - 1);
        let byte = match rng.below(3) {
            0 => bytes[at] ^ 1 << rng.below(8),
            1 => *rng.pick(&[0, 1, 2, 0x7f, 0x80, 0xc0, 0xc2, 0xfe, 0xff]),
            _ => rng.next_u64() as u8,
        };
        // After the mark of a compressed string, the reference takes other marks for lengths.
        let compressed = byte == 0xc3 || bytes[at.saturating_sub(6)..at].contains(&0xc3);
        bytes[at] = if compressed { byte & 0x3f } else { byte };
    }
    // The reference allocates a table of the announced number of buckets.
    bytes[1] &= 0x7f;
    bytes.resize(whole + 64 + rng.below(200), 0);
    sealed(bytes, VERSION)
}

fn sealed(mut bytes: Vec<u8>, version: u16) -> Vec<u8> {
    bytes.extend(version.to_le_bytes());
    with_sum(bytes)
}

/// A payload without its checksum, and the checksum.
pub fn with_sum(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = crc64(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Bit by bit, as an independent implementation.
fn crc64(bytes: &[u8]) -> u64 {
    const REFLECTED: u64 = 0xad93_d235_94c9_35a9_u64.reverse_bits();
    let mut sum = 0u64;
    for byte in bytes {
        sum ^= u64::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ REFLECTED } else { sum >> 1 };
        }
    }
    sum
}

fn value(rng: &mut Rng, now: i64) -> Vec<u8> {
    let code = *rng.pick(&[
        0, 0, 1, 2, 2, 3, 4, 4, 5, 5, 9, 10, 11, 12, 13, 14, 16, 16, 17, 17, 18, 18, 18, 20, 20, 22,
    ]);
    let mut out = vec![code];
    match code {
        0 => any_string(rng, &mut out),
        1 => elements(rng, 1, &mut out),
        2 => {
            let members = if rng.percent(30) { ints(rng) } else { different(rng) };
            counted(rng, &members, &mut out);
        }
        3 | 5 => {
            let members = different(rng);
            len(members.len(), &mut out);
            for member in &members {
                string(rng, member, &mut out);
                score(rng, code, &mut out);
            }
        }
        4 | 22 => {
            let fields = different(rng);
            len(fields.len(), &mut out);
            for field in &fields {
                string(rng, field, &mut out);
                any_string(rng, &mut out);
                if code == 22 {
                    let at = if rng.percent(50) {
                        -1
                    } else {
                        (now + 10_000_000) * 1000 + rng.between(0, 1 << 40)
                    };
                    out.extend(at.to_le_bytes());
                }
            }
        }
        9 => zipmap(rng, &mut out),
        10 => plain(&ziplist(&some(rng)), &mut out),
        11 => plain(&intset(rng), &mut out),
        12 | 17 => {
            let pairs = scored(rng);
            plain(&if code == 12 { ziplist(&pairs) } else { listpack(&pairs) }, &mut out);
        }
        13 | 16 => {
            let pairs: Vec<Vec<u8>> =
                different(rng).into_iter().flat_map(|f| [f, text(rng)]).collect();
            plain(&if code == 13 { ziplist(&pairs) } else { listpack(&pairs) }, &mut out);
        }
        14 => {
            let nodes = 1 + rng.below(3);
            len(nodes, &mut out);
            (0..nodes).for_each(|_| plain(&ziplist(&some(rng)), &mut out));
        }
        18 => {
            let nodes = if rng.percent(50) { 1 } else { 1 + rng.below(4) };
            len(nodes, &mut out);
            for _ in 0..nodes {
                if rng.percent(15) {
                    out.push(1);
                    any_string(rng, &mut out);
                } else {
                    out.push(2);
                    let node = if rng.percent(2) { Vec::new() } else { some(rng) };
                    plain(&listpack(&node), &mut out);
                }
            }
        }
        20 => plain(&listpack(&different(rng)), &mut out),
        _ => unreachable!("no such code is picked"),
    }
    out
}

/// Texts with the lengths at which encodings change.
fn text(rng: &mut Rng) -> Vec<u8> {
    match rng.below(24) {
        0..6 => rng.between(-3, 200).to_string().into_bytes(),
        6 | 7 => rng
            .pick(&[4095, 4096, -4096, -4097, 32767, 32768, -8388609, 1 << 31, i64::MAX, i64::MIN])
            .to_string()
            .into_bytes(),
        8..16 => rng
            .pick(&["a", "v1", "hello", "007", "-0", "1.5", "x\r\n", "\u{e9}"])
            .as_bytes()
            .to_vec(),
        16..20 => vec![*rng.pick(b"lz"); *rng.pick(&[19, 20, 21, 44, 62, 63, 64, 65, 66])],
        20 => vec![b'm'; 100 + rng.below(400)],
        21 => rng.bytes(30),
        22 => vec![b'n'; *rng.pick(&[4094, 4095, 4096, 4097, 8180, 8192, 9000])],
        _ => Vec::new(),
    }
}

fn some(rng: &mut Rng) -> Vec<Vec<u8>> {
    let most = *rng.pick(&[1, 3, 3, 10, 30]);
    (0..1 + rng.below(most)).map(|_| text(rng)).collect()
}

/// Mostly different texts; few, or around the numbers at which encodings change.
fn different(rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = match rng.below(30) {
        0 => (0..rng.between(126, 131)).map(|n| format!("m{n}").into_bytes()).collect(),
        1 => (0..rng.between(510, 515)).map(|n| format!("m{n}").into_bytes()).collect(),
        2..22 => (0..1 + rng.below(6)).map(|n| format!("m{n}").into_bytes()).collect(),
        _ => {
            let mut all = some(rng);
            all.sort();
            all.dedup();
            all
        }
    };
    rng.shuffle(&mut all);
    if rng.percent(3) {
        all.push(all[0].clone());
    }
    all
}

fn ints(rng: &mut Rng) -> Vec<Vec<u8>> {
    let count = *rng.pick(&[1, 3, 5, 10, 512, 513]);
    let mut all: Vec<Vec<u8>> = (0..count).map(|n| (n * 7 - 20).to_string().into_bytes()).collect();
    if rng.percent(30) {
        all.push(text(rng));
    }
    if rng.percent(20) {
        all.push(i64::MAX.to_string().into_bytes());
    }
    rng.shuffle(&mut all);
    all
}

/// Members with scores, in stored order.
fn scored(rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut members = different(rng);
    members.sort();
    let mut all = Vec::new();
    for (n, member) in members.into_iter().enumerate() {
        let whole = n as i64 / 3 - 1;
        let score = if rng.percent(80) { whole.to_string() } else { format!("{whole}") };
        all.extend([member, score.into_bytes()]);
    }
    all
}

fn score(rng: &mut Rng, code: u8, out: &mut Vec<u8>) {
    let score = rng.between(-8, 40) as f64 / 4.0;
    match (code, rng.below(40)) {
        (3, 0) => out.push(254),
        (3, 1) => out.push(255),
        (3, 2) if rng.percent(10) => out.push(253),
        (3, _) => {
            let text = score.to_string();
            out.push(text.len() as u8);
            out.extend(text.into_bytes());
        }
        (_, 0) => out.extend(f64::INFINITY.to_le_bytes()),
        (_, 1) => out.extend(1e300f64.to_le_bytes()),
        (_, 2) if rng.percent(10) => out.extend(f64::NAN.to_le_bytes()),
        _ => out.extend(score.to_le_bytes()),
    }
}

fn elements(rng: &mut Rng, times: usize, out: &mut Vec<u8>) {
    let all: Vec<Vec<u8>> = (0..times).flat_map(|_| some(rng)).collect();
    counted(rng, &all, out);
}

fn counted(rng: &mut Rng, all: &[Vec<u8>], out: &mut Vec<u8>) {
    len(all.len(), out);
    all.iter().for_each(|text| string(rng, text, out));
}

fn len(n: usize, out: &mut Vec<u8>) {
    match n {
        0..=0x3f => out.push(n as u8),
        0x40..=0x3fff => out.extend([0x40 | (n >> 8) as u8, n as u8]),
        _ => {
            out.push(0x80);
            out.extend((n as u32).to_be_bytes());
        }
    }
}

fn plain(text: &[u8], out: &mut Vec<u8>) {
    len(text.len(), out);
    out.extend_from_slice(text);
}

fn any_string(rng: &mut Rng, out: &mut Vec<u8>) {
    let text = text(rng);
    string(rng, &text, out);
}

/// A string in one of its possible forms.
fn string(rng: &mut Rng, text: &[u8], out: &mut Vec<u8>) {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i32>().ok());
    let number = number.filter(|n| n.to_string().as_bytes() == text && rng.percent(80));
    let run = text.len().checked_sub(10).filter(|n| *n < 256 && text.iter().all(|b| *b == text[0]));
    if let Some(n) = number {
        match n {
            -128..=127 => out.extend([0xc0, n as u8]),
            -32768..=32767 => {
                out.push(0xc1);
                out.extend((n as i16).to_le_bytes());
            }
            _ => {
                out.push(0xc2);
                out.extend(n.to_le_bytes());
            }
        }
    } else if let Some(more) = run.filter(|_| rng.percent(60)) {
        // One byte, and a repetition of it.
        out.push(0xc3);
        len(5, out);
        len(text.len(), out);
        out.extend([0, text[0], 0xe0, more as u8, 0]);
    } else if (1..=32).contains(&text.len()) && rng.percent(10) {
        // A compressed string that is longer than the original.
        out.push(0xc3);
        len(text.len() + 1, out);
        len(text.len(), out);
        out.push(text.len() as u8 - 1);
        out.extend_from_slice(text);
    } else {
        plain(text, out);
    }
}

/// The integer that this text represents.
fn int(text: &[u8]) -> Option<i64> {
    let n: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (n.to_string().as_bytes() == text).then_some(n)
}

fn listpack(texts: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Vec::new();
    for text in texts {
        let from = body.len();
        match int(text) {
            Some(n @ 0..=127) => body.push(n as u8),
            Some(n @ -4096..=4095) => body.extend([0xc0 | (n >> 8 & 0x1f) as u8, n as u8]),
            Some(n @ -32768..=32767) => {
                body.push(0xf1);
                body.extend((n as i16).to_le_bytes());
            }
            Some(n @ -8388608..=8388607) => {
                body.push(0xf2);
                body.extend(&n.to_le_bytes()[..3]);
            }
            Some(n) if i32::try_from(n).is_ok() => {
                body.push(0xf3);
                body.extend((n as i32).to_le_bytes());
            }
            Some(n) => {
                body.push(0xf4);
                body.extend(n.to_le_bytes());
            }
            None => {
                match text.len() {
                    n @ 0..64 => body.push(0x80 | n as u8),
                    n @ 64..4096 => body.extend([0xe0 | (n >> 8) as u8, n as u8]),
                    n => {
                        body.push(0xf0);
                        body.extend((n as u32).to_le_bytes());
                    }
                }
                body.extend_from_slice(text);
            }
        }
        match body.len() - from {
            n @ 0..128 => body.push(n as u8),
            n => body.extend([(n >> 7) as u8, n as u8 & 0x7f | 0x80]),
        }
    }
    let mut out = (body.len() as u32 + 7).to_le_bytes().to_vec();
    out.extend((texts.len() as u16).to_le_bytes());
    out.extend(body);
    out.push(0xff);
    out
}

fn ziplist(texts: &[Vec<u8>]) -> Vec<u8> {
    let (mut body, mut before, mut tail) = (Vec::new(), 0usize, 10usize);
    for text in texts {
        let from = body.len();
        tail = 10 + from;
        match u8::try_from(before) {
            Ok(n @ 0..254) => body.push(n),
            _ => {
                body.push(0xfe);
                body.extend((before as u32).to_le_bytes());
            }
        }
        match int(text) {
            Some(n @ 0..=12) => body.push(0xf1 + n as u8),
            Some(n @ -128..=127) => body.extend([0xfe, n as u8]),
            Some(n @ -32768..=32767) => {
                body.push(0xc0);
                body.extend((n as i16).to_le_bytes());
            }
            Some(n @ -8388608..=8388607) => {
                body.push(0xf0);
                body.extend(&n.to_le_bytes()[..3]);
            }
            Some(n) if i32::try_from(n).is_ok() => {
                body.push(0xd0);
                body.extend((n as i32).to_le_bytes());
            }
            Some(n) => {
                body.push(0xe0);
                body.extend(n.to_le_bytes());
            }
            None => {
                match text.len() {
                    n @ 0..64 => body.push(n as u8),
                    n => body.extend([0x40 | (n >> 8) as u8, n as u8]),
                }
                body.extend_from_slice(text);
            }
        }
        before = body.len() - from;
    }
    let mut out = (body.len() as u32 + 11).to_le_bytes().to_vec();
    out.extend((tail as u32).to_le_bytes());
    out.extend((texts.len() as u16).to_le_bytes());
    out.extend(body);
    out.push(0xff);
    out
}

fn zipmap(rng: &mut Rng, out: &mut Vec<u8>) {
    let fields: Vec<Vec<u8>> = different(rng).into_iter().take(200).collect();
    let mut map = vec![fields.len() as u8];
    for field in &fields {
        let (value, free) = (text(rng), rng.below(3));
        zipmap_len(field.len(), &mut map);
        map.extend_from_slice(field);
        zipmap_len(value.len(), &mut map);
        map.push(free as u8);
        map.extend_from_slice(&value);
        map.resize(map.len() + free, b'.');
    }
    map.push(0xff);
    plain(&map, out);
}

fn zipmap_len(n: usize, out: &mut Vec<u8>) {
    match n {
        0..254 => out.push(n as u8),
        _ => {
            out.push(254);
            out.extend((n as u32).to_le_bytes());
        }
    }
}

fn intset(rng: &mut Rng) -> Vec<u8> {
    let width = *rng.pick(&[2, 4, 8]);
    let count = *rng.pick(&[1, 2, 5, 20, 512, 513]);
    let mut out = (width as u32).to_le_bytes().to_vec();
    out.extend((count as u32).to_le_bytes());
    for n in 0..count {
        let int = (n as i64 - 3) * if width == 8 && n % 2 == 1 { 1 << 33 } else { 3 };
        // Only the two narrow ones are in order; the others are refused.
        out.extend(&int.to_le_bytes()[..width]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_has_the_published_value() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn most_payloads_are_valid() {
        let mut rng = Rng::new(3);
        let whole = (0..1000).filter(|_| {
            let bytes = payload(&mut rng, 1_700_000_000);
            let Some(at) = bytes.len().checked_sub(8) else { return false };
            crc64(&bytes[..at]).to_le_bytes() == bytes[at..]
        });
        assert!(whole.count() > 950);
        for _ in 0..1000 {
            assert!(corrupted(&mut rng, 1_700_000_000).len() > 64);
        }
    }
}
