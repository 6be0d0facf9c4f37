//! The reader of batches. `engine/admission/candidates.py` is the definition of what it reads.

use std::collections::HashSet;
use std::sync::Arc;

use memchr::memchr;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use xxhash_rust::xxh3::xxh3_128;

use crate::authorities::{Authority, Kept, Queue};
use crate::batch::{self, Entry, Given, More, PlainBatch, Uri};
use crate::calls::{self, Calls};
use crate::canonical::{PlainBytes, QueryRules};
use crate::carriers::{ReadCarriers, carried};
use crate::hashing::{ByHash, ByText, Fingerprint};
use crate::plain_hosts::PlainHosts;
use crate::records::PRIORITY_ZERO;

/// The longest scheme and host that are kept.
const LONGEST_AUTHORITY: usize = 512;

/// The bytes of the payloads of URIs that are gathered: `PART` of `engine/batches.py`.
const MOST_CARRIED: usize = 8 << 20;

/// The bytes of path and query that there is room for at once.
const USUAL_PATH: usize = 64;

type ReadAuthority = (String, [u8; 4], Py<PyString>, Option<u8>, String);
type ReadUri = (Fingerprint, Py<PyString>, Py<PyBytes>, Py<PyString>, u32);

/// Reads batches of URLs. It keeps authorities, and the fingerprints of the URLs that were admitted last.
#[pyclass(module = "budgetfrontier.engine.native")]
pub struct BatchReader {
    plain: PlainBytes,
    query: QueryRules,
    hosts: Option<PlainHosts>,
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
    #[pyo3(signature = (plain, rules, *, longest, authorities, recent, hosts = None, carriers = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        plain: &[u8],
        rules: ReadRules,
        longest: usize,
        authorities: usize,
        recent: usize,
        hosts: Option<PlainHosts>,
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
            hosts,
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
    /// plain, or None if the URL parser changes the URL. `other(given)` returns fingerprint, queue, value, short form
    /// and inverted priority of what is not plain, or None if it is INVALID. What they raise is raised, and nothing has
    /// changed then. Unless it `carries`, no URI with a payload is plain.
    #[pyo3(signature = (given, authority, other, *, carries = false))]
    fn read(
        &mut self,
        py: Python<'_>,
        given: &Bound<'_, PyList>,
        authority: &Bound<'_, PyAny>,
        other: &Bound<'_, PyAny>,
        carries: bool,
    ) -> PyResult<PlainBatch> {
        let mut batch = PlainBatch::with_capacity(given.len(), 0)?;
        for item in given.iter() {
            let entry = match self.read_one(py, &item, authority, carries, &mut batch.text)? {
                Some(found) => found,
                None => match other.call1((&item,))?.extract::<Option<ReadUri>>()? {
                    Some((fingerprint, key, value, short, priority)) => {
                        let queue = Queue::new(py, key)?;
                        Entry { fingerprint, uri: Uri::Other { queue, value, short }, priority }
                    }
                    None => {
                        batch.each.push(Given::Invalid);
                        continue;
                    }
                },
            };
            self.add(&mut batch, entry);
        }
        Ok(batch)
    }

    /// Let `gather` take up to `most` URIs, until `gathered` is called.
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
        self.gathering = Some(Gathering { batch, most, carried: 0, calls, authority, put, added, duplicate });
    }

    /// Read a URI, add its fingerprint to a table, and keep the URI for `gathered` if that is new.
    ///
    /// Return the result; None, and nothing has changed, if it is not plain, or is not to be gathered.
    fn gather(&mut self, py: Python<'_>, given: &Bound<'_, PyAny>, now: f64) -> PyResult<Option<Py<PyAny>>> {
        let Some(mut gathering) = self.gathering.take_if(|gathering| gathering.has_room()) else { return Ok(None) };
        let result = self.gather_in(py, &mut gathering, given, now);
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
    /// The bytes of the payloads, of which there may be `MOST_CARRIED`, and those of the URI that comes last.
    carried: usize,
    calls: Calls,
    authority: Py<PyAny>,
    put: Py<PyAny>,
    added: Py<PyAny>,
    duplicate: Py<PyAny>,
}

impl Gathering {
    fn has_room(&self) -> bool {
        self.batch.each.len() < self.most && self.carried < MOST_CARRIED
    }
}

impl BatchReader {
    fn gather_in(
        &mut self,
        py: Python<'_>,
        gathering: &mut Gathering,
        given: &Bound<'_, PyAny>,
        now: f64,
    ) -> PyResult<Option<Py<PyAny>>> {
        let batch = &mut gathering.batch;
        let found = self.read_one(py, given, gathering.authority.bind(py), true, &mut batch.text)?;
        let Some(entry) = found else { return Ok(None) };
        let fingerprint = entry.fingerprint;
        let is_known = self.recent.contains(&fingerprint)
            || !batch::add_form(gathering.put.bind(py), &fingerprint, &PyBytes::new(py, b""))?;
        self.remember_all(&[fingerprint]);
        if is_known {
            batch.each.push(Given::Known);
            return Ok(Some(gathering.duplicate.clone_ref(py)));
        }
        gathering.carried += entry.uri.carried(py);
        batch.each.push(Given::Entry(batch.entries.len()));
        batch.entries.push(entry);
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
        let mut batch = PlainBatch::with_capacity(given.len(), given.len() * USUAL_PATH)?;
        for item in given.iter() {
            let found = self.read_one(py, &item, authority, false, &mut batch.text)?;
            let Some(entry) = found else { return Ok(None) };
            self.add(&mut batch, entry);
        }
        Ok(Some(batch))
    }

    fn add(&self, batch: &mut PlainBatch, entry: Entry) {
        if self.recent.contains(&entry.fingerprint) {
            batch.each.push(Given::Known);
            return;
        }
        batch.each.push(Given::Entry(batch.entries.len()));
        batch.entries.push(entry);
    }

    /// Read a plain URL, or a URI that has nothing else but a priority and `More`; None if it is neither.
    fn read_one(
        &mut self,
        py: Python<'_>,
        item: &Bound<'_, PyAny>,
        authority: &Bound<'_, PyAny>,
        carries: bool,
        text: &mut Vec<u8>,
    ) -> PyResult<Option<Entry>> {
        let carrying = self.carriers.as_ref().and_then(|carriers| carried(item, carriers));
        let carrying = carrying.filter(|(_, more, _)| carries || more.payload.is_none());
        let (url, more, priority) = carrying.unwrap_or_else(|| (item.clone(), More::default(), PRIORITY_ZERO));
        let Some(written) = url.cast_exact::<PyString>().ok().and_then(|url| url.to_str().ok()) else {
            return Ok(None); // no string, or one with a lone surrogate
        };
        let found = self.read_plain(py, written, &url, more, authority, text)?;
        Ok(found.map(|(fingerprint, uri)| Entry { fingerprint, uri, priority }))
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
        let Some((written, rest, query)) = self.parts(url.as_bytes()) else { return Ok(None) };
        let authority = match self.known(written) {
            Some(authority) => authority,
            None => match self.hosts.as_ref().and_then(|hosts| hosts.authority(py, written)) {
                Some(found) => self.keep(found),
                None => match find.call1((given,))?.extract::<Option<ReadAuthority>>()? {
                    Some((canonical, hash, key, mark, short)) => {
                        let queue = Queue::new(py, key)?;
                        self.keep(Authority::new(written, &canonical, &short, hash, mark, queue))
                    }
                    None => return Ok(None),
                },
            },
        };
        let fingerprint = self.fingerprint(authority.canonical(), authority.hash, rest, query);
        let start = text.len();
        text.extend_from_slice(rest);
        Ok(Some((fingerprint, Uri::Plain { authority, start, end: text.len(), more })))
    }

    /// Return scheme and host of a URL, its path and query, and where in these the query begins; None if it is not plain.
    pub fn parts<'a>(&self, url: &'a [u8]) -> Option<(&'a [u8], &'a [u8], usize)> {
        (url.len() <= self.longest).then_some(())?;
        let (authority, rest) = url.split_at(8 + memchr(b'/', url.get(8..)?)?);
        Some((authority, rest, self.plain.query_of(rest)?))
    }

    /// Return the authority that is written like this, if it is in memory.
    pub fn known(&self, written: &[u8]) -> Option<Arc<Authority>> {
        self.authorities.get(written).map(|Kept(authority)| authority.clone())
    }

    /// Return the fingerprint of the parts of a plain URL, of which the authority is in its canonical form.
    pub fn fingerprint(&mut self, canonical: &[u8], hash: [u8; 4], rest: &[u8], query: usize) -> Fingerprint {
        self.form.clear();
        self.form.extend_from_slice(canonical);
        self.form.extend_from_slice(&rest[..query]);
        if let Some(query) = rest.get(query + 1..) {
            self.query.append(query, &mut self.form);
        }
        let mut fingerprint = [0; 16];
        fingerprint[..4].copy_from_slice(&hash);
        fingerprint[4..].copy_from_slice(&xxh3_128(&self.form).to_be_bytes()[..12]);
        fingerprint
    }

    fn keep(&mut self, found: Authority) -> Arc<Authority> {
        let authority = Arc::new(found);
        if self.authorities.len() >= self.most_authorities {
            let mut place = 0;
            self.authorities.retain(|_| {
                place += 1;
                place % 4 != 0 // in no order, for the seed of the hashes is random
            });
        }
        if authority.written().len() < LONGEST_AUTHORITY {
            self.authorities.insert(Kept(authority.clone()));
        }
        authority
    }
}
