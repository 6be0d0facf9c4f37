//! The keys of the pending URIs that may not go out. `engine/taken_keys.py` is the definition.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::deletions::Deletions;
use crate::hashing::ByHash;

/// The bytes of a key, and one for their number: `storage/keys.py`, `pending`. A URI with a precedence has the most.
const MOST: usize = 25;
const ROOM: usize = 32;

/// The key of a pending record, as numbers that sort as its bytes do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PendingKey([u64; ROOM / 8]);

impl PendingKey {
    /// Return a key; None if it is too long for one.
    pub fn new(key: &[u8]) -> Option<Self> {
        let mut bytes = [0; ROOM];
        bytes[..MOST].get_mut(..key.len())?.copy_from_slice(key);
        bytes[ROOM - 1] = key.len() as u8;
        let mut numbers = [0; ROOM / 8];
        for (number, word) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
            *number = u64::from_be_bytes(word.try_into().expect("eight bytes"));
        }
        Some(Self(numbers))
    }

    /// Return the directive of its URI: `storage/keys.py`, `DIRECTIVE`.
    pub fn directive(self) -> u8 {
        (self.0[0] >> 24) as u8
    }

    fn bytes(self) -> ([u8; ROOM], usize) {
        let mut bytes = [0; ROOM];
        for (word, number) in bytes.chunks_exact_mut(8).zip(self.0) {
            word.copy_from_slice(&number.to_be_bytes());
        }
        (bytes, usize::from(bytes[ROOM - 1]))
    }
}

impl Hash for PendingKey {
    /// Its queue and its arrival tell it apart from nearly all others.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [queue, _, arrival, end] = self.0;
        let mixed = u128::from(queue ^ end ^ 0x9e37_79b9_7f4a_7c15) * u128::from(arrival ^ 0xd1b5_4a32_d192_ed03);
        state.write_u64((mixed >> 64) as u64 ^ mixed as u64);
    }
}

impl<'py> FromPyObject<'_, 'py> for PendingKey {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let key = given.cast::<PyBytes>()?;
        Self::new(key.as_bytes()).ok_or_else(|| PyValueError::new_err("a pending record has a longer key"))
    }
}

/// A set of keys, some of which are removed: they stay until their records are deleted. O(1) for each.
#[pyclass(module = "budgetfrontier.engine.native")]
#[derive(Default)]
pub struct TakenKeys {
    taken: HashSet<PendingKey, ByHash>,
    removed: Vec<PendingKey>,
}

impl TakenKeys {
    pub fn has(&self, key: &[u8]) -> bool {
        PendingKey::new(key).is_some_and(|key| self.taken.contains(&key))
    }

    pub fn take(&mut self, key: PendingKey) {
        self.taken.insert(key);
    }

    pub fn put_away(&mut self, key: PendingKey) {
        self.removed.push(key);
    }
}

type Record<'py> = (Bound<'py, PyBytes>, Bound<'py, PyAny>);

#[pymethods]
impl TakenKeys {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self) -> usize {
        self.taken.len()
    }

    fn __contains__(&self, key: &[u8]) -> bool {
        self.has(key)
    }

    /// The number of the records that are to be deleted.
    #[getter]
    pub fn removed(&self) -> usize {
        self.removed.len()
    }

    /// Take a key.
    fn add(&mut self, key: PendingKey) {
        self.take(key);
    }

    /// Let the URI of a key go out again.
    fn discard(&mut self, key: PendingKey) {
        self.taken.remove(&key);
    }

    /// Note that the record of a key which is taken is to be deleted.
    fn remove(&mut self, key: PendingKey) {
        self.put_away(key);
    }

    /// Return whether none of some keys is taken.
    fn isdisjoint(&self, keys: Vec<PendingKey>) -> bool {
        !keys.iter().any(|key| self.taken.contains(key))
    }

    /// Delete the removed records with a cursor of their table, and forget their keys; return them if it `keeps`.
    ///
    /// It goes in the order of keys, for the next key often follows the one deleted.
    #[pyo3(signature = (cursor, *, keeps))]
    fn delete_removed<'py>(
        &mut self,
        py: Python<'py>,
        cursor: &Bound<'py, PyAny>,
        keeps: bool,
    ) -> PyResult<Vec<Record<'py>>> {
        let at = Deletions::at(cursor)?;
        let mut left = Vec::new();
        self.removed.sort_unstable();
        for key in &self.removed {
            let (bytes, length) = key.bytes();
            let key = &bytes[..length];
            if at.find(key)? {
                if keeps {
                    left.push((PyBytes::new(py, key), cursor.call_method0(intern!(py, "value"))?));
                }
                at.delete()?;
            }
        }
        for key in self.removed.drain(..) {
            self.taken.remove(&key);
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_sort_as_their_bytes() {
        let keys: [&[u8]; 7] = [b"", b"\0", b"\0\0", b"\0\x01", b"\x01", &[1; 21], &[1; 25]];
        for (one, next) in keys.iter().zip(&keys[1..]) {
            assert!(PendingKey::new(one) < PendingKey::new(next));
        }
        for key in keys {
            let (bytes, length) = PendingKey::new(key).expect("it is short").bytes();
            assert_eq!(&bytes[..length], key);
        }
        assert!(PendingKey::new(&[0; 26]).is_none());
    }
}
