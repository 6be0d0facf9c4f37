//! Hosts that need no policy: what `Candidates.authority` of `engine/admission/candidates.py` returns for them.

use pyo3::prelude::*;
use pyo3::types::PyString;
use xxhash_rust::xxh3::xxh3_64;

use crate::authorities::{Authority, Queue};

/// The longest host of the DNS: `core/uris.py`, `MAX_HOST`.
const LONGEST: usize = 253;

/// The hosts that the URL parser leaves as they are, where the key of a queue is the host.
#[derive(FromPyObject)]
pub struct PlainHosts {
    /// Whether canonical forms are without "www.".
    #[pyo3(item(0))]
    strips_www: bool,
    /// The beginning of a URL before the host, the first byte of its plain value, and its short form without the path.
    #[pyo3(item(1))]
    schemes: Vec<(String, u8, String)>,
}

impl PlainHosts {
    /// Return the authority that is written like this; None if Python has to look at it.
    pub fn authority(&self, py: Python<'_>, written: &[u8]) -> Option<Authority> {
        let text = std::str::from_utf8(written).ok()?;
        let (scheme, mark, short) = self.schemes.iter().find(|(scheme, ..)| text.starts_with(scheme))?;
        let host = &text[scheme.len()..];
        is_plain(host).then_some(())?;
        let canonical = [scheme.as_str(), if self.strips_www { without_www(host) } else { host }].concat();
        let hash = *xxh3_64(canonical.as_bytes()).to_be_bytes().first_chunk()?; // `uris.authority_hash`
        let queue = Queue::new(py, PyString::new(py, host).unbind()).ok()?;
        Some(Authority::new(written, &canonical, short, hash, Some(*mark), queue))
    }
}

/// Return whether the URL parser leaves a host as it is: labels of small letters, digits, "-" and "_", none of them
/// encoded by IDNA, and the last one begins with a letter, so that it is no address.
fn is_plain(host: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    let is_label = |label: &str| !label.is_empty() && !label.starts_with("xn--") && label.bytes().all(is_plain);
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= LONGEST && host.split('.').all(is_label) && last.as_bytes()[0].is_ascii_lowercase()
}

/// Return a plain host without a first label of "www" and digits if two labels are left: `_WWW` of
/// `settings/policies/canonicalization.py`.
fn without_www(host: &str) -> &str {
    let rest = host.strip_prefix("www").map(|rest| rest.trim_start_matches(|letter: char| letter.is_ascii_digit()));
    rest.and_then(|rest| rest.strip_prefix('.')).filter(|rest| rest.contains('.')).unwrap_or(host)
}
