//! Requests as templates: encoded once, patched at their differences, never formatted again.
//!
//! A generator that formats each request measures its own formatting. Here a request is encoded
//! when the test is set up; each request costs a copy and, for each placeholder, twelve digits
//! written in place:
//!
//! ```text
//! *2\r\n$3\r\nGET\r\n$16\r\nkey:__rand_int__\r\n
//!                             ^ patch: 12 digits, group 0
//! ```
//!
//! Group 0 is `__rand_int__`, where each occurrence draws its own number; groups 1 to 9 are
//! `__rand_1st__` to `__rand_9th__`, where all occurrences in one request are the same number.
//! `{tag}`, in cluster mode, is a tag of three characters that hashes to a slot of the connection's
//! node.

use memchr::memmem;

/// Number of placeholder groups: `__rand_int__` and `__rand_1st__` to `__rand_9th__`.
pub const GROUPS: usize = 10;

/// Digits of a number, which is the length of each placeholder.
pub const DIGITS: usize = 12;

const NAMES: [&[u8; DIGITS]; GROUPS] = [
    b"__rand_int__",
    b"__rand_1st__",
    b"__rand_2nd__",
    b"__rand_3rd__",
    b"__rand_4th__",
    b"__rand_5th__",
    b"__rand_6th__",
    b"__rand_7th__",
    b"__rand_8th__",
    b"__rand_9th__",
];

const TAG: &[u8] = b"{tag}";

/// A request, or a sequence of requests that are always sent together.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
    /// Offsets of each `__rand_int__`.
    single: Vec<usize>,
    /// Offsets of the same number, by group from 1; unused groups are left out.
    shared: Vec<(usize, Vec<usize>)>,
    /// Offsets of the three characters within `{tag}`.
    tags: Vec<usize>,
    replies: u32,
}

impl Template {
    /// From encoded requests with `replies` replies in total. Placeholders are replaced only if
    /// `random`, tags only if `cluster`; otherwise these words are sent unchanged.
    pub fn new(bytes: Vec<u8>, replies: u32, random: bool, cluster: bool) -> Template {
        let find = |what: &[u8]| memmem::find_iter(&bytes, what).collect::<Vec<usize>>();
        let (mut single, mut shared) = (Vec::new(), Vec::new());
        if random {
            single = find(NAMES[0]);
            let groups = (1..GROUPS).map(|group| (group, find(NAMES[group])));
            shared = groups.filter(|(_, at)| !at.is_empty()).collect();
        }
        let tags =
            if cluster { find(TAG).into_iter().map(|at| at + 1).collect() } else { Vec::new() };
        Template { bytes, single, shared, tags, replies }
    }

    /// The unpatched request.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of its replies.
    pub fn replies(&self) -> u32 {
        self.replies
    }

    /// The number of `__rand_int__`.
    pub fn singles(&self) -> usize {
        self.single.len()
    }

    /// Whether requests differ from each other.
    pub fn varies(&self) -> bool {
        !(self.single.is_empty() && self.shared.is_empty() && self.tags.is_empty())
    }

    /// Whether it has a tag that hashes to a node.
    pub fn is_tagged(&self) -> bool {
        !self.tags.is_empty()
    }

    /// Patches `copy`, which holds this template's bytes, with numbers from `draw(group)`.
    ///
    /// # Panics
    /// If `copy` is shorter than the template.
    #[inline]
    pub fn patch(&self, copy: &mut [u8], mut draw: impl FnMut(usize) -> u64) {
        for &at in &self.single {
            write_digits(&mut copy[at..at + DIGITS], draw(0));
        }
        for (group, offsets) in &self.shared {
            let number = draw(*group);
            for &at in offsets {
                write_digits(&mut copy[at..at + DIGITS], number);
            }
        }
    }

    /// Patches the tags of `copy`.
    pub fn patch_tags(&self, copy: &mut [u8], tag: [u8; 3]) {
        for &at in &self.tags {
            copy[at..at + 3].copy_from_slice(&tag);
        }
    }
}

const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut i = 0;
    while i < 100 {
        pairs[2 * i] = b'0' + (i / 10) as u8;
        pairs[2 * i + 1] = b'0' + (i % 10) as u8;
        i += 1;
    }
    pairs
};

/// Writes the last twelve digits of `number`, with leading zeros.
#[inline]
pub fn write_digits(at: &mut [u8], number: u64) {
    let (mut high, mut low) =
        ((number / 1_000_000 % 1_000_000) as u32, (number % 1_000_000) as u32);
    // Two independent chains of divisions.
    for i in (0..3).rev() {
        let (h, l) = (2 * (high % 100) as usize, 2 * (low % 100) as usize);
        (high, low) = (high / 100, low / 100);
        at[2 * i..2 * i + 2].copy_from_slice(&PAIRS[h..h + 2]);
        at[6 + 2 * i..8 + 2 * i].copy_from_slice(&PAIRS[l..l + 2]);
    }
}

/// Appends a request as an array of bulk strings.
pub fn encode<A: AsRef<[u8]>>(args: &[A], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        out.extend_from_slice(arg.as_ref());
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn patched(text: &str, numbers: &[u64]) -> String {
        let template = Template::new(text.as_bytes().to_vec(), 1, true, true);
        let mut copy = template.bytes().to_vec();
        let mut next = numbers.iter();
        template.patch(&mut copy, |_| *next.next().unwrap());
        template.patch_tags(&mut copy, *b"xyz");
        assert_eq!(next.next(), None, "not all numbers were drawn");
        String::from_utf8(copy).unwrap()
    }

    #[test]
    fn single_placeholders_differ_and_shared_ones_do_not() {
        assert_eq!(
            patched("a__rand_int__b__rand_1st__c__rand_int__d__rand_1st__", &[1, 2, 3]),
            "a000000000001b000000000003c000000000002d000000000003"
        );
        assert_eq!(patched("__rand_2nd____rand_9th__", &[7, 8]), "000000000007000000000008");
        assert_eq!(patched("k:{tag}:1", &[]), "k:{xyz}:1");
    }

    #[test]
    fn placeholders_stay_when_nothing_is_random() {
        let template = Template::new(b"GET __rand_int__ {tag}".to_vec(), 1, false, false);
        assert!(!template.varies() && !template.is_tagged());
    }

    #[test]
    fn requests_are_arrays_of_bulk_strings() {
        let mut out = Vec::new();
        encode(&["SET", "", "x\r\n"], &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$3\r\nx\r\n\r\n");
    }

    proptest! {
        #[test]
        fn digits_are_those_of_the_number(number: u64) {
            let mut at = [0; DIGITS];
            write_digits(&mut at, number);
            let want = format!("{:012}", number % 1_000_000_000_000);
            prop_assert_eq!(std::str::from_utf8(&at).unwrap(), want);
        }
    }
}
