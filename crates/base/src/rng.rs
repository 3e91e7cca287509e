//! Random numbers: a fast seeded generator, and unpredictable bytes.
//!
//! The two must not be confused. [`Rng`] picks victims for eviction, members for `SPOP`, levels and
//! samples. It is reproducible from its seed, so that a failing simulation can be run again, and it
//! is not secret. [`os_random`] is for run ids, hash seeds and generated passwords.
//!
//! [`Rng`] is xoshiro256++ (Blackman and Vigna, "Scrambled Linear Pseudorandom
//! Number Generators", 2019): 32 bytes of state, about 1 ns a number, passes the
//! usual statistical batteries. Its state is filled from one word with SplitMix64,
//! as its authors advise, so that similar seeds give unrelated streams.

use std::hash::{BuildHasher, RandomState};
use std::io;

/// A small, fast, seeded, non-cryptographic generator. One per thread; not shared.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator of `seed`; the same on every machine.
    pub fn new(seed: u64) -> Self {
        let mut mix = seed;
        Self { state: std::array::from_fn(|_| split_mix(&mut mix)) }
    }

    /// A generator with a seed from the operating system.
    pub fn from_os() -> Self {
        Self::new(seed_from_os())
    }

    /// The next 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let out = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        out
    }

    /// A uniform number in `0..bound`, without bias; 0 when `bound` is 0.
    ///
    /// Lemire's multiply-and-reject: one multiplication nearly always.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        // Without this rejection, small results would be slightly more frequent.
        let unfair = bound.wrapping_neg() % bound;
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(bound);
            if wide as u64 >= unfair {
                return (wide >> 64) as u64;
            }
        }
    }

    /// A uniform number in `[0, 1)` with 53 random bits.
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A seed from the operating system's entropy; cannot fail and never blocks.
///
/// The standard library keys its hash maps from the system's entropy call. Hashing
/// nothing under a fresh key yields 64 of those bits without a file descriptor and
/// without `unsafe`. Good for seeds; for secrets use [`os_random`].
pub fn seed_from_os() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// Fills `out` with unpredictable bytes from the operating system.
///
/// # Errors
/// Those of opening and reading `/dev/urandom`, for example in a chroot without devices.
pub fn os_random(out: &mut [u8]) -> io::Result<()> {
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference numbers, computed from the published recurrences by another program.
    #[test]
    fn stream_matches_the_published_generator() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let got: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(got, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
        let mut mix = 1_234_567;
        assert_eq!(split_mix(&mut mix), 6_457_827_717_110_365_317);
    }

    #[test]
    fn equal_seeds_agree_and_others_do_not() {
        let stream = |seed| {
            let mut rng = Rng::new(seed);
            [rng.next_u64(), rng.next_u64()]
        };
        assert_eq!(stream(7), stream(7));
        assert_ne!(stream(7), stream(8));
    }

    #[test]
    fn below_is_uniform_within_its_range() {
        let mut rng = Rng::new(42);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[rng.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1_150).contains(&n)), "{seen:?}");
        let bound = (1 << 63) + 1;
        assert!((0..1_000).all(|_| rng.below(bound) < bound));
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&rng.next_f64())));
    }

    #[test]
    fn os_random_differs_between_calls() {
        assert_ne!(seed_from_os(), seed_from_os());
        let (mut a, mut b) = ([0u8; 20], [0u8; 20]);
        os_random(&mut a).unwrap();
        os_random(&mut b).unwrap();
        assert_ne!(a, b);
    }
}
