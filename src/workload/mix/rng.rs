//! Randomness by counter: what command number `index` draws depends on the seed and the index alone.

use std::convert::Infallible;

use rand::TryRng;

/// 2^64 divided by the golden ratio, odd: the step of SplitMix64.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, with
/// Stafford's 13th variant of the multipliers): every bit of the result depends on every bit of `x`.
#[inline]
pub(super) const fn scramble(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A hash of two numbers, the same on every machine.
#[inline]
pub(super) const fn hash(a: u64, b: u64) -> u64 {
    scramble(scramble(a.wrapping_add(GOLDEN)).wrapping_add(b.wrapping_mul(GOLDEN)))
}

/// FNV-1a (64 bit) of a text, for the hash of a key's literal parts.
pub(super) fn hash_text(text: &[u8]) -> u64 {
    text.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// A SplitMix64 generator that starts at a place given by seed and index.
#[derive(Clone, Debug)]
pub(crate) struct CounterRng(u64);

impl CounterRng {
    /// The draws of number `index` under `seed`.
    #[inline]
    pub(crate) const fn at(seed: u64, index: u64) -> Self {
        Self(hash(seed, index))
    }

    /// The next 64 bits.
    #[inline]
    pub(crate) const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        scramble(self.0)
    }

    /// A number below `end` (multiply and shift; its bias is below `end / 2^64`).
    #[inline]
    pub(super) const fn below(&mut self, end: u64) -> u64 {
        scale(self.draw(), end)
    }
}

/// Maps 64 random bits to `0..end`.
#[inline]
pub(super) const fn scale(bits: u64, end: u64) -> u64 {
    ((bits as u128 * end as u128) >> 64) as u64
}

impl TryRng for CounterRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.draw() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.draw())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.draw().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_the_published_sequence_of_splitmix64() {
        // Output of the reference implementation (Vigna, splitmix64.c) for the state 1234567.
        let mut rng = CounterRng(1_234_567);
        let drawn = [rng.draw(), rng.draw(), rng.draw()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn neighbouring_indices_and_seeds_share_no_draw() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..4 {
            for index in 0..5_000 {
                let mut rng = CounterRng::at(seed, index);
                assert!((0..4).all(|_| seen.insert(rng.draw())), "seed {seed}, index {index}");
            }
        }
    }
}
