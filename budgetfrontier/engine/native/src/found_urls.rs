//! URLs that were found, as clients of URLFrontier send them. `server/urlfrontier/put_items.py` (read) and
//! `server/urlfrontier/engine_calls.py` (uri_of) are the definition, and read messages of any other form.

use std::str::from_utf8;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// The tags of fields with a length, by their numbers.
const ONE: u8 = 0x0a;
const TWO: u8 = 0x12;
const THREE: u8 = 0x1a;
const FOUR: u8 = 0x22;

/// Entries of metadata up to which they are compared with each other.
const MOST_ENTRIES: usize = 16;
/// What metadata with a meaning of ours have in them.
const OURS: &[u8] = b"bf.";

type Text<'py> = Bound<'py, PyString>;
/// URL, key, and metadata as they are stored: `FoundUrl` of `server/urlfrontier/put_items.py`.
type FoundUrl<'py> = (Text<'py>, Text<'py>, Option<Bound<'py, PyBytes>>);

/// Return the crawlID and the ID of a URLItem, and the URL that was found; None if Python has to read it.
#[pyfunction]
pub fn read_found<'py>(py: Python<'py>, item: &[u8]) -> Option<(Text<'py>, Text<'py>, FoundUrl<'py>)> {
    let (mut found, mut id) = (None, "");
    for field in Fields(item) {
        match field? {
            (ONE, value) if found.is_none() => found = Some(value),
            (THREE, value) if id.is_empty() => id = from_utf8(value).ok()?,
            _ => return None,
        }
    }
    let mut fields = Fields(found?);
    let (ONE, info) = fields.next()?? else { return None };
    fields.0.is_empty().then_some(())?;
    let (mut url, mut key, mut crawl) = ("", "", "");
    let (mut names, mut metadata) = (Vec::new(), Vec::new());
    for field in Fields(info) {
        match field? {
            (ONE, value) if url.is_empty() => url = from_utf8(value).ok()?,
            (TWO, value) if key.is_empty() => key = from_utf8(value).ok()?,
            (FOUR, value) if crawl.is_empty() => crawl = from_utf8(value).ok()?,
            (THREE, value) => {
                let name = name_of(value)?;
                if names.len() == MOST_ENTRIES || names.contains(&name) {
                    return None;
                }
                names.push(name);
                append(value, &mut metadata);
            }
            _ => return None,
        }
    }
    if metadata.windows(OURS.len()).any(|part| part == OURS) {
        return None;
    }
    let text = |text| PyString::new(py, text);
    let payload = (!names.is_empty()).then(|| PyBytes::new(py, &metadata));
    Some((text(crawl), text(if id.is_empty() { url } else { id }), (text(url), text(key), payload)))
}

/// Return the name of an entry of metadata, which has a list of texts.
fn name_of(entry: &[u8]) -> Option<&str> {
    let mut fields = Fields(entry);
    let ((ONE, name), (TWO, values)) = (fields.next()??, fields.next()??) else { return None };
    fields.0.is_empty().then_some(())?;
    for value in Fields(values) {
        let (ONE, text) = value? else { return None };
        from_utf8(text).ok()?;
    }
    from_utf8(name).ok()
}

/// Append an entry of metadata with its tag and length.
fn append(entry: &[u8], metadata: &mut Vec<u8>) {
    metadata.push(THREE);
    let mut length = entry.len();
    while length >= 0x80 {
        metadata.push(length as u8 | 0x80);
        length >>= 7;
    }
    metadata.push(length as u8);
    metadata.extend_from_slice(entry);
}

/// The fields of a message that have a length: tags and values; None for a field that has none, or is cut off.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u8, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let (tag, rest) = self.0.split_first()?;
        self.0 = &[];
        Some(Self::value(rest).map(|(value, rest)| {
            self.0 = rest;
            (*tag, value)
        }))
    }
}

impl<'a> Fields<'a> {
    /// Return a value, given with its length, and what follows it.
    fn value(mut rest: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let (mut length, mut shift) = (0, 0);
        loop {
            let (byte, after) = rest.split_first()?;
            rest = after;
            length |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return rest.split_at_checked(length);
            }
            shift += 7;
            (shift < 28).then_some(())?; // no message has 256 MiB
        }
    }
}
