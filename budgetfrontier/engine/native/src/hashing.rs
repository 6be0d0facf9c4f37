//! Fast hash tables: of values that are hashes already, and of text.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The bytes of a fingerprint: `core/uris.py`, `fingerprint`.
pub type Fingerprint = [u8; 16];

/// Takes bytes that are hashes as their own hash, and spreads numbers.
#[derive(Default)]
pub struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = self.0.rotate_left(29) ^ u64::from_le_bytes(word);
        }
    }

    fn write_usize(&mut self, _length: usize) {}

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15); // near the golden ratio: Fibonacci hashing
    }
}

pub type ByHash = BuildHasherDefault<Folded>;

/// Hashes text with a seed that is drawn for each table, so that nobody can choose hosts that share a hash.
pub struct ByText(u64);

impl Default for ByText {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for ByText {
    type Hasher = Text;

    fn build_hasher(&self) -> Text {
        Text(self.0)
    }
}

pub struct Text(u64);

impl Hasher for Text {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn write_usize(&mut self, _length: usize) {}

    fn write_u8(&mut self, _end: u8) {}
}
