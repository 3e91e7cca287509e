//! Sets of CPUs, and their text format in Linux.
//!
//! `server-cpulist 0-7:2`, `bio-cpulist 1,3`, `aof-rewrite-cpulist 8-11`: items
//! separated by commas, each one CPU, a range, or a range with a stride.
//! `/sys/devices/system/cpu/online` and `taskset -c` use the same form.
//!
//! ```text
//! list  = item *("," item)
//! item  = number [ "-" number [ ":" stride ] ]
//! ```
//!
//! A [`CpuSet`] is a bitmap that grows with its largest member. The C library's `cpu_set_t` stops
//! at 1024 CPUs, which some machines exceed; the kernel takes a mask of any length, and so does
//! this type. Numbers beyond [`MAX_CPUS`] are refused, so that a typing error cannot allocate
//! gigabytes of bitmap.

use std::fmt;

/// One past the largest CPU number in a list.
pub const MAX_CPUS: usize = 1 << 16;

const WORD_BITS: usize = u64::BITS as usize;

/// A set of CPU numbers.
#[derive(Clone, Default)]
pub struct CpuSet {
    /// Bit `n % 64` of word `n / 64` says whether CPU `n` is a member. The last
    /// word is never zero, so equal sets have equal words.
    words: Vec<u64>,
}

impl CpuSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The set whose bitmap is `words`, least significant bit of the first word first.
    pub fn from_words(mut words: Vec<u64>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        Self { words }
    }

    /// The bitmap, without trailing zero words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds a CPU.
    ///
    /// # Panics
    /// If `cpu >= MAX_CPUS`: callers must check numbers from outside.
    pub fn insert(&mut self, cpu: usize) {
        assert!(cpu < MAX_CPUS, "CPU number {cpu} out of range");
        let word = cpu / WORD_BITS;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % WORD_BITS);
    }

    /// Whether `cpu` is a member.
    pub fn contains(&self, cpu: usize) -> bool {
        self.words.get(cpu / WORD_BITS).is_some_and(|word| word >> (cpu % WORD_BITS) & 1 == 1)
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                (rest != 0).then(|| {
                    rest &= rest - 1;
                    index * WORD_BITS + bit
                })
            })
        })
    }

    /// The members that both sets have.
    pub fn intersection(&self, other: &Self) -> Self {
        let both = self.words.iter().zip(&other.words).map(|(a, b)| a & b);
        Self::from_words(both.collect())
    }
}

impl PartialEq for CpuSet {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for CpuSet {}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut set = Self::new();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

/// The shortest list without strides: `0-3,8,10-11`. The empty set is the empty string.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

/// Why a text is not a CPU list. Holds the offending item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuListError {
    /// Not a number, a range, or a range with a stride.
    Syntax(String),
    /// A CPU number of [`MAX_CPUS`] or more.
    TooLarge(String),
    /// A range that ends before it begins.
    Reversed(String),
    /// A stride of zero.
    ZeroStride(String),
}

impl fmt::Display for CpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(item) => write!(f, "'{item}' is not a CPU, a range a-b, or a-b:stride"),
            Self::TooLarge(item) => write!(f, "'{item}' names a CPU beyond {}", MAX_CPUS - 1),
            Self::Reversed(item) => write!(f, "the range '{item}' ends before it begins"),
            Self::ZeroStride(item) => write!(f, "the stride of '{item}' must not be 0"),
        }
    }
}

impl std::error::Error for CpuListError {}

/// Parses a CPU list. White space around items is ignored. The empty text is the empty set, which
/// callers take to mean "leave the affinity alone".
///
/// # Errors
/// [`CpuListError`] with the first invalid item.
pub fn parse(text: &str) -> Result<CpuSet, CpuListError> {
    let mut set = CpuSet::new();
    if text.trim().is_empty() {
        return Ok(set);
    }
    for item in text.split(',') {
        let (first, last, stride) = parse_item(item.trim())?;
        (first..=last).step_by(stride).for_each(|cpu| set.insert(cpu));
    }
    Ok(set)
}

/// First CPU, last CPU, stride (at least 1) of one item.
fn parse_item(item: &str) -> Result<(usize, usize, usize), CpuListError> {
    let Some((first, rest)) = item.split_once('-') else {
        let cpu = parse_number(item, item)?;
        return Ok((cpu, cpu, 1));
    };
    let (last, stride) = match rest.split_once(':') {
        Some((last, stride)) => (last, parse_number(stride, item)?),
        None => (rest, 1),
    };
    let (first, last) = (parse_number(first, item)?, parse_number(last, item)?);
    if last < first {
        return Err(CpuListError::Reversed(item.to_owned()));
    }
    if stride == 0 {
        return Err(CpuListError::ZeroStride(item.to_owned()));
    }
    Ok((first, last, stride))
}

fn parse_number(digits: &str, item: &str) -> Result<usize, CpuListError> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(CpuListError::Syntax(item.to_owned()));
    }
    // Only digits are left, so parsing can only fail because there are too many.
    match digits.parse::<usize>() {
        Ok(number) if number < MAX_CPUS => Ok(number),
        Ok(_) | Err(_) => Err(CpuListError::TooLarge(item.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(text: &str) -> Vec<usize> {
        parse(text).unwrap().iter().collect()
    }

    #[test]
    fn reads_singles_ranges_and_strides() {
        assert_eq!(cpus("0-7:2"), [0, 2, 4, 6]);
        assert_eq!(cpus("1,3"), [1, 3]);
        assert_eq!(cpus("1,10-11"), [1, 10, 11]);
        assert_eq!(cpus(" 3 , 1-2 "), [1, 2, 3]);
        assert_eq!(cpus("5-5"), [5]);
        assert_eq!(cpus("0-10:100"), [0]);
        assert_eq!(cpus("2000"), [2000]);
        assert!(cpus("").is_empty());
    }

    #[test]
    fn refuses_invalid_lists() {
        for text in ["x", "1,", ",1", "1-", "-1", "1-2:", "1-2:x", "1:2", "1-2-3", "+1", "1 2"] {
            assert!(matches!(parse(text), Err(CpuListError::Syntax(_))), "{text}");
        }
        let big = "99999999999999999999999";
        assert_eq!(parse(big), Err(CpuListError::TooLarge(big.into())));
        assert_eq!(parse("0,65536"), Err(CpuListError::TooLarge("65536".into())));
        assert_eq!(parse("4-2"), Err(CpuListError::Reversed("4-2".into())));
        assert_eq!(parse("0-4:0"), Err(CpuListError::ZeroStride("0-4:0".into())));
    }

    #[test]
    fn writes_the_shortest_list() {
        for (text, shortest) in
            [("0,1,2,3,8,10,11", "0-3,8,10-11"), ("", ""), ("7", "7"), ("63,64", "63-64")]
        {
            assert_eq!(parse(text).unwrap().to_string(), shortest);
        }
    }

    #[test]
    fn sets_with_equal_members_are_equal() {
        let set = CpuSet::from_words(vec![0b110, 0, 0]);
        assert_eq!(set, parse("1-2").unwrap());
        assert_eq!(set.words(), [0b110]);
        assert_eq!(
            (set.len(), set.contains(2), set.contains(3), set.contains(9_999)),
            (2, true, false, false)
        );
        let high = parse("1,4095").unwrap();
        assert_eq!(set.intersection(&high), [1].into_iter().collect());
        assert!(parse("0").unwrap().intersection(&high).is_empty());
    }
}
