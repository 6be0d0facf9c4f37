//! Scheme and host of URLs: `Authority` of `engine/admission/candidates.py`.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyString;
use xxhash_rust::xxh3::xxh3_64;

/// Scheme and host as they are written in URLs: `Authority` of the Python engine. One allocation, and one for its text.
pub struct Authority {
    /// As it is written, its canonical form, and its short form.
    text: Box<[u8]>,
    canonical_at: usize,
    short_at: usize,
    /// The first bytes of all its fingerprints.
    pub hash: [u8; 4],
    /// The first byte of the plain values of its URLs; None if its queue's key is not the host.
    pub mark: Option<u8>,
    pub queue: Queue,
}

impl Authority {
    pub fn new(written: &[u8], canonical: &str, short: &str, hash: [u8; 4], mark: Option<u8>, queue: Queue) -> Self {
        let text = [written, canonical.as_bytes(), short.as_bytes()].concat().into_boxed_slice();
        Self { canonical_at: written.len(), short_at: text.len() - short.len(), text, hash, mark, queue }
    }

    /// As it is written.
    pub fn written(&self) -> &[u8] {
        &self.text[..self.canonical_at]
    }

    pub fn canonical(&self) -> &[u8] {
        &self.text[self.canonical_at..self.short_at]
    }

    /// The beginning of its URLs in the records of its queue.
    pub fn short(&self) -> &[u8] {
        &self.text[self.short_at..]
    }
}

/// An authority, found by how it is written.
pub struct Kept(pub Arc<Authority>);

impl Borrow<[u8]> for Kept {
    fn borrow(&self) -> &[u8] {
        self.0.written()
    }
}

impl Hash for Kept {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Borrow::<[u8]>::borrow(self).hash(state);
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        Borrow::<[u8]>::borrow(self) == Borrow::<[u8]>::borrow(other)
    }
}

impl Eq for Kept {}

/// A queue, as far as its key goes.
pub struct Queue {
    pub key: Py<PyString>,
    /// A hash of the key.
    pub hash: u64,
}

impl Queue {
    pub fn new(py: Python<'_>, key: Py<PyString>) -> PyResult<Self> {
        let hash = xxh3_64(key.bind(py).to_str()?.as_bytes());
        Ok(Self { key, hash })
    }
}
