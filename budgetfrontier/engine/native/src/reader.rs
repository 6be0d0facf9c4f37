//! The reader of batches. `engine/admission/candidates.py` is the definition of what it reads.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use memchr::memchr;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::type_object::PyTypeInfo;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::batch::{self, Entry, Given, More, PlainBatch, Uri};
use crate::calls::{self, Calls};
use crate::canonical::{PlainBytes, QueryRules};
use crate::hashing::{ByHash, ByText, Fingerprint};

/// The longest scheme and host that are kept.
const LONGEST_AUTHORITY: usize = 512;

/// The bytes of path and query that there is room for at once.
const USUAL_PATH: usize = 64;

/// Scheme and host as they are written in URLs: `Authority` of the Python engine. One allocation, and one for its text.
pub struct Authority {
    /// As it is written, its canonical form, and its short form.
    text: Box<[u8]>,
    canonical_at: usize,
    short_at: usize,
    /// The first bytes of all its fingerprints.
    hash: [u8; 4],
    /// The first byte of the plain values of its URLs; None if its queue's key is not the host.
    pub mark: Option<u8>,
    pub queue: Queue,
}

impl Authority {
    fn new(written: &[u8], canonical: &str, short: &str, hash: [u8; 4], mark: Option<u8>, queue: Queue) -> Self {
        let text = [written, canonical.as_bytes(), short.as_bytes()].concat().into_boxed_slice();
        Self { canonical_at: written.len(), short_at: text.len() - short.len(), text, hash, mark, queue }
    }

    fn canonical(&self) -> &[u8] {
        &self.text[self.canonical_at..self.short_at]
    }

    /// The beginning of its URLs in the records of its queue.
    pub fn short(&self) -> &[u8] {
        &self.text[self.short_at..]
    }
}

/// An authority, found by how it is written.
struct Kept(Arc<Authority>);

impl Borrow<[u8]> for Kept {
    fn borrow(&self) -> &[u8] {
        &self.0.text[..self.0.canonical_at]
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

type ReadAuthority = (String, [u8; 4], Py<PyString>, Option<u8>, String);
type ReadUri = (Fingerprint, Py<PyString>, Py<PyBytes>, Py<PyString>);

/// The class of URIs that may be plain; its fields with their defaults, but for the URL and those of `More`; and the most
/// bytes of these.
type ReadCarriers = (Py<PyAny>, Vec<(Py<PyString>, Py<PyAny>)>, usize);

/// Return the URL of a URI, and what it has beside that; None if it has more, or both a page and a payload.
fn carried<'py>(
    given: &Bound<'py, PyAny>,
    (kind, others, longest): &ReadCarriers,
) -> Option<(Bound<'py, PyAny>, More)> {
    let py = given.py();
    if !given.get_type().is(kind) {
        return None;
    }
    for (name, default) in others {
        given.getattr(name).ok().filter(|value| is_default(value, default.bind(py)))?;
    }
    let hops = given.getattr(intern!(py, "hops")).ok()?.cast_into_exact::<PyString>().ok()?;
    let hops = Some(hops.unbind()).filter(|hops| hops.bind(py).is_truthy().is_ok_and(|is_some| is_some));
    let via = optional::<PyString>(given.getattr(intern!(py, "via")))?;
    let payload = optional::<PyBytes>(given.getattr(intern!(py, "payload")))?;
    let more = More { via, hops, payload };
    let length = |text: &Option<Py<PyString>>| text.as_ref().map_or(Some(0), |text| Some(text.to_str(py).ok()?.len()));
    let (of_via, of_hops) = (length(&more.via)?, length(&more.hops)?);
    if more.via.is_some() && of_via == 0 {
        return None;
    }
    let of_payload = more.payload.as_ref().map_or(0, |payload| payload.as_bytes(py).len());
    let is_one = more.payload.is_none() || of_via + of_hops == 0;
    let fits = is_one && of_via + of_hops + of_payload <= *longest;
    fits.then_some((given.getattr(intern!(py, "url")).ok()?, more))
}

/// Return whether a field has its default: no value that is merely equal to it, but a text that was decoded.
fn is_default(value: &Bound<'_, PyAny>, default: &Bound<'_, PyAny>) -> bool {
    if value.is(default) {
        return true;
    }
    let (Ok(text), Ok(of_default)) = (value.cast_exact::<PyString>(), default.cast_exact::<PyString>()) else {
        return false;
    };
    text.to_str().is_ok_and(|text| of_default.to_str().is_ok_and(|of_default| text == of_default))
}

/// Return a field that may be None; None if it is neither that nor of this very type.
fn optional<T: PyTypeInfo>(value: PyResult<Bound<'_, PyAny>>) -> Option<Option<Py<T>>> {
    let value = value.ok()?;
    if value.is_none() { Some(None) } else { Some(Some(value.cast_into_exact().ok()?.unbind())) }
}

/// Reads batches of URLs. It keeps authorities, and the fingerprints of the URLs that were admitted last.
#[pyclass(module = "budgetfrontier.engine.native")]
pub struct BatchReader {
    plain: PlainBytes,
    query: QueryRules,
    carriers: Option<ReadCarriers>,
    longest: usize,
    most_authorities: usize,
    most_recent: usize,
    authorities: HashSet<Kept, ByText>,
    recent: HashSet<Fingerprint, ByHash>,
    /// The canonical form of the URL that is read.
    form: Vec<u8>,
    gathering: Option<Gathering>,
}

#[pymethods]
impl BatchReader {
    #[new]
    #[pyo3(signature = (plain, rules, *, longest, authorities, recent, carriers = None))]
    fn new(
        plain: &[u8],
        rules: ReadRules,
        longest: usize,
        authorities: usize,
        recent: usize,
        carriers: Option<ReadCarriers>,
    ) -> Self {
        let (dropped, prefixes, ignored, kept, sorts, strips_sessions) = rules;
        let bytes = |names: Vec<String>| names.into_iter().map(String::into_bytes);
        Self {
            plain: PlainBytes::new(plain),
            query: QueryRules {
                dropped: bytes(dropped).collect(),
                prefixes: bytes(prefixes).collect(),
                ignored: bytes(ignored).collect(),
                kept: bytes(kept).collect(),
                sorts,
                strips_sessions,
            },
            carriers,
            longest,
            most_authorities: authorities,
            most_recent: recent,
            authorities: HashSet::default(),
            recent: HashSet::default(),
            form: Vec::new(),
            gathering: None,
        }
    }

    /// Return the URIs of a batch that may be new.
    ///
    /// `authority(url)` returns canonical form, hash, queue, mark and short form of the authority of a URL that is
    /// plain, or None if the URL parser changes the URL. `other(given)` returns fingerprint, queue, value and short form
    /// of what is not plain, or None if it is INVALID. What they raise is raised, and nothing has changed then. Unless
    /// it `carries`, no URI with a payload is plain.
    #[pyo3(signature = (given, authority, other, *, carries = false))]
    fn read(
        &mut self,
        py: Python<'_>,
        given: &Bound<'_, PyList>,
        authority: &Bound<'_, PyAny>,
        other: &Bound<'_, PyAny>,
        carries: bool,
    ) -> PyResult<PlainBatch> {
        let mut batch = PlainBatch::with_capacity(given.len());
        for item in given.iter() {
            let (fingerprint, uri) = match self.read_one(py, &item, authority, carries, &mut batch.text)? {
                Some(found) => found,
                None => match other.call1((&item,))?.extract::<Option<ReadUri>>()? {
                    Some((fingerprint, key, value, short)) => {
                        let queue = Queue::new(py, key)?;
                        (fingerprint, Uri::Other { queue, value, short })
                    }
                    None => {
                        batch.each.push(Given::Invalid);
                        continue;
                    }
                },
            };
            self.add(&mut batch, fingerprint, uri);
        }
        Ok(batch)
    }

    /// Let `gather` take up to `most` URLs, until `gathered` is called.
    ///
    /// `calls` has the fields of `Calls`. `authority` is that of `read`, `put` is `Cursor.put` of py-lmdb; `added` and
    /// `duplicate` are the results.
    fn begin_to_gather(
        &mut self,
        most: usize,
        calls: calls::Given,
        authority: Py<PyAny>,
        put: Py<PyAny>,
        added: Py<PyAny>,
        duplicate: Py<PyAny>,
    ) {
        let (batch, calls) = (PlainBatch::default(), Calls::new(calls));
        self.gathering = Some(Gathering { batch, most, calls, authority, put, added, duplicate });
    }

    /// Read a URL, add its fingerprint to a table, and keep the URL for `gathered` if that is new.
    ///
    /// Return the result; None, and nothing has changed, if it is not plain, or is not to be gathered.
    fn gather(&mut self, py: Python<'_>, given: &Bound<'_, PyAny>, now: f64) -> PyResult<Option<Py<PyAny>>> {
        let Some(url) = given.cast_exact::<PyString>().ok().and_then(|text| text.to_str().ok()) else {
            return Ok(None);
        };
        let Some(mut gathering) = self.gathering.take_if(|gathering| gathering.has_room()) else { return Ok(None) };
        let result = self.gather_in(py, &mut gathering, url, given, now);
        self.gathering = Some(gathering);
        result
    }

    /// Answer a call of `Frontier.schedule` by `gather`: return the result, in a tuple if more is due at its end; None if
    /// it is Python's.
    fn schedule<'py>(slf: &Bound<'py, Self>, given: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = slf.py();
        let Ok(mut this) = slf.try_borrow_mut() else { return Ok(None) };
        let Some(gathering) = &mut this.gathering else { return Ok(None) };
        let Some(now) = gathering.calls.now(py)? else { return Ok(None) };
        let Some(result) = this.gather(py, given, now)? else { return Ok(None) };
        let result = result.into_bound(py);
        let Some(gathering) = &mut this.gathering else { return Ok(Some(result)) };
        if gathering.calls.leave(py, 1, 0)? {
            return Ok(Some(PyTuple::new(py, [result])?.into_any()));
        }
        Ok(Some(result))
    }

    /// Return whether it is the middle of a call.
    fn is_busy(slf: &Bound<'_, Self>) -> bool {
        slf.try_borrow_mut().is_err()
    }

    /// Return the URLs that `gather` has kept (None if it has taken none), the time of the last call of `schedule`, and
    /// the number of these calls, and let it take no more; None if it does not.
    fn gathered(&mut self) -> Option<(Option<PlainBatch>, f64, usize)> {
        let Gathering { batch, calls, .. } = self.gathering.take()?;
        Some((Some(batch).filter(|batch| !batch.each.is_empty()), calls.latest, calls.operations))
    }

    /// Remember the URLs of a batch that was recorded: they are recognized without a look at the table.
    pub fn remember(&mut self, batch: &PlainBatch) {
        self.remember_all(&batch.recorded);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(gathering) = &self.gathering else { return Ok(()) };
        gathering.calls.traverse(&visit)?;
        visit.call(&gathering.authority)?;
        visit.call(&gathering.put)
    }

    fn __clear__(&mut self) {
        self.gathering = None;
    }

    /// Forget all URLs that are remembered.
    fn forget(&mut self) {
        self.recent.clear();
    }
}

type ReadRules = (Vec<String>, Vec<String>, Vec<String>, Vec<String>, bool, bool);

/// URLs that are read one by one, and what is needed for that.
struct Gathering {
    batch: PlainBatch,
    most: usize,
    calls: Calls,
    authority: Py<PyAny>,
    put: Py<PyAny>,
    added: Py<PyAny>,
    duplicate: Py<PyAny>,
}

impl Gathering {
    fn has_room(&self) -> bool {
        self.batch.each.len() < self.most
    }
}

impl BatchReader {
    fn gather_in(
        &mut self,
        py: Python<'_>,
        gathering: &mut Gathering,
        url: &str,
        given: &Bound<'_, PyAny>,
        now: f64,
    ) -> PyResult<Option<Py<PyAny>>> {
        let batch = &mut gathering.batch;
        let found = self.read_plain(py, url, given, More::default(), gathering.authority.bind(py), &mut batch.text)?;
        let Some((fingerprint, uri)) = found else { return Ok(None) };
        let is_known = self.recent.contains(&fingerprint)
            || !batch::add_form(gathering.put.bind(py), &fingerprint, &PyBytes::new(py, b""))?;
        self.remember_all(&[fingerprint]);
        if is_known {
            batch.each.push(Given::Known);
            return Ok(Some(gathering.duplicate.clone_ref(py)));
        }
        batch.each.push(Given::Entry(batch.entries.len()));
        batch.entries.push(Entry { fingerprint, uri });
        batch.times.push(now);
        Ok(Some(gathering.added.clone_ref(py)))
    }

    /// Read the links of a page, as `read` does; None if one of them is not plain.
    pub fn read_all_plain(
        &mut self,
        py: Python<'_>,
        given: &Bound<'_, PyList>,
        authority: &Bound<'_, PyAny>,
    ) -> PyResult<Option<PlainBatch>> {
        let mut batch = PlainBatch::with_capacity(given.len());
        batch.text.reserve(given.len() * USUAL_PATH);
        for item in given.iter() {
            let found = self.read_one(py, &item, authority, false, &mut batch.text)?;
            let Some((fingerprint, uri)) = found else { return Ok(None) };
            self.add(&mut batch, fingerprint, uri);
        }
        Ok(Some(batch))
    }

    fn add(&self, batch: &mut PlainBatch, fingerprint: Fingerprint, uri: Uri) {
        if self.recent.contains(&fingerprint) {
            batch.each.push(Given::Known);
            return;
        }
        batch.each.push(Given::Entry(batch.entries.len()));
        batch.entries.push(Entry { fingerprint, uri });
    }

    /// Read a plain URL, or a URI that has nothing else but `More`; None if it is neither.
    fn read_one(
        &mut self,
        py: Python<'_>,
        item: &Bound<'_, PyAny>,
        authority: &Bound<'_, PyAny>,
        carries: bool,
        text: &mut Vec<u8>,
    ) -> PyResult<Option<(Fingerprint, Uri)>> {
        let carrying = self.carriers.as_ref().and_then(|carriers| carried(item, carriers));
        let carrying = carrying.filter(|(_, more)| carries || more.payload.is_none());
        let (url, more) = carrying.unwrap_or_else(|| (item.clone(), More::default()));
        match url.cast_exact::<PyString>().ok().and_then(|url| url.to_str().ok()) {
            Some(written) => self.read_plain(py, written, &url, more, authority, text),
            None => Ok(None), // no string, or one with a lone surrogate
        }
    }

    fn remember_all(&mut self, fingerprints: &[Fingerprint]) {
        if self.recent.len() > self.most_recent {
            self.recent.clear();
        }
        self.recent.extend(fingerprints);
    }

    /// Read a URL that is plain; None if it is not. The path and query of a plain one are added to `text`.
    fn read_plain(
        &mut self,
        py: Python<'_>,
        url: &str,
        given: &Bound<'_, PyAny>,
        more: More,
        find: &Bound<'_, PyAny>,
        text: &mut Vec<u8>,
    ) -> PyResult<Option<(Fingerprint, Uri)>> {
        let url = url.as_bytes();
        if url.len() > self.longest {
            return Ok(None);
        }
        let Some(slash) = url.get(8..).and_then(|after| memchr(b'/', after)).map(|place| place + 8) else {
            return Ok(None);
        };
        let rest = &url[slash..];
        let Some(mark) = self.plain.query_of(rest) else { return Ok(None) };
        let authority = match self.authorities.get(&url[..slash]) {
            Some(Kept(authority)) => authority.clone(),
            None => match find.call1((given,))?.extract::<Option<ReadAuthority>>()? {
                Some(found) => self.keep(py, &url[..slash], found)?,
                None => return Ok(None),
            },
        };
        self.form.clear();
        self.form.extend_from_slice(authority.canonical());
        self.form.extend_from_slice(&rest[..mark]);
        if let Some(query) = rest.get(mark + 1..) {
            self.query.append(query, &mut self.form);
        }
        let mut fingerprint = [0; 16];
        fingerprint[..4].copy_from_slice(&authority.hash);
        fingerprint[4..].copy_from_slice(&xxh3_128(&self.form).to_be_bytes()[..12]);
        let start = text.len();
        text.extend_from_slice(rest);
        Ok(Some((fingerprint, Uri::Plain { authority, start, end: text.len(), more })))
    }

    fn keep(&mut self, py: Python<'_>, written: &[u8], found: ReadAuthority) -> PyResult<Arc<Authority>> {
        let (canonical, hash, key, mark, short) = found;
        let queue = Queue::new(py, key)?;
        let authority = Arc::new(Authority::new(written, &canonical, &short, hash, mark, queue));
        if self.authorities.len() >= self.most_authorities {
            let mut place = 0;
            self.authorities.retain(|_| {
                place += 1;
                place % 4 != 0 // in no order, for the seed of the hashes is random
            });
        }
        if written.len() < LONGEST_AUTHORITY {
            self.authorities.insert(Kept(authority.clone()));
        }
        Ok(authority)
    }
}
