//! The reader of batches. `engine/admission/candidates.py` is the definition of what it reads.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use memchr::memchr;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::batch::{self, Entry, Given, PlainBatch, Uri};
use crate::canonical::{PlainBytes, QueryRules};
use crate::hashing::{ByHash, ByText, Fingerprint};

/// The longest scheme and host that are kept.
const LONGEST_AUTHORITY: usize = 512;

/// Scheme and host as they are written in URLs: `Authority` of the Python engine.
pub struct Authority {
    canonical: Vec<u8>,
    /// The first bytes of all its fingerprints.
    hash: [u8; 4],
    pub queue: Arc<Queue>,
    /// The first byte of the plain values of its URLs; None if its queue's key is not the host.
    pub mark: Option<u8>,
    /// The beginning of its URLs in the records of its queue.
    pub short: Vec<u8>,
}

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

/// Reads batches of URLs. It keeps authorities, and the fingerprints of the URLs that were admitted last.
#[pyclass(module = "budgetfrontier.engine.native")]
pub struct BatchReader {
    plain: PlainBytes,
    query: QueryRules,
    longest: usize,
    most_authorities: usize,
    most_recent: usize,
    authorities: HashMap<Box<[u8]>, Arc<Authority>, ByText>,
    queues: HashMap<String, Arc<Queue>, ByText>,
    recent: HashSet<Fingerprint, ByHash>,
    /// The canonical form of the URL that is read.
    form: Vec<u8>,
    gathering: Option<Gathering>,
}

#[pymethods]
impl BatchReader {
    #[new]
    #[pyo3(signature = (plain, rules, *, longest, authorities, recent))]
    fn new(plain: &[u8], rules: ReadRules, longest: usize, authorities: usize, recent: usize) -> Self {
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
            longest,
            most_authorities: authorities,
            most_recent: recent,
            authorities: HashMap::default(),
            queues: HashMap::default(),
            recent: HashSet::default(),
            form: Vec::new(),
            gathering: None,
        }
    }

    /// Return the URIs of a batch that may be new.
    ///
    /// `authority(url)` returns canonical form, hash, queue, mark and short form of the authority of a URL that is
    /// plain, or None if the URL parser changes the URL. `other(given)` returns fingerprint, queue, value and short form
    /// of what is not plain, or None if it is INVALID. What they raise is raised, and nothing has changed then.
    fn read(
        &mut self,
        py: Python<'_>,
        given: &Bound<'_, PyList>,
        authority: &Bound<'_, PyAny>,
        other: &Bound<'_, PyAny>,
    ) -> PyResult<PlainBatch> {
        let mut batch = PlainBatch::with_capacity(given.len());
        for item in given.iter() {
            let text = item.cast_exact::<PyString>().ok();
            let plain = match text.and_then(|text| text.to_str().ok()) {
                Some(url) => self.read_plain(py, url, &item, authority, &mut batch.text)?,
                None => None, // no string, or one with a lone surrogate
            };
            let (fingerprint, uri) = match plain {
                Some(found) => found,
                None => match other.call1((&item,))?.extract::<Option<ReadUri>>()? {
                    Some((fingerprint, key, value, short)) => {
                        let queue = self.queue(py, key)?;
                        (fingerprint, Uri::Other { queue, value, short })
                    }
                    None => {
                        batch.each.push(Given::Invalid);
                        continue;
                    }
                },
            };
            if self.recent.contains(&fingerprint) {
                batch.each.push(Given::Known);
                continue;
            }
            batch.each.push(Given::Entry(batch.entries.len()));
            batch.entries.push(Entry { fingerprint, uri });
        }
        Ok(batch)
    }

    /// Let `gather` take up to `most` URLs, until `gathered` is called.
    ///
    /// `authority` is that of `read`, `put` is `Cursor.put` of py-lmdb; `added` and `duplicate` are the results.
    fn begin_to_gather(
        &mut self,
        most: usize,
        authority: Py<PyAny>,
        put: Py<PyAny>,
        added: Py<PyAny>,
        duplicate: Py<PyAny>,
    ) {
        self.gathering = Some(Gathering { batch: PlainBatch::default(), most, authority, put, added, duplicate });
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

    /// Return the URLs that `gather` has kept, and let it take no more; None if it has taken none.
    fn gathered(&mut self) -> Option<PlainBatch> {
        self.gathering.take().map(|found| found.batch).filter(|batch| !batch.each.is_empty())
    }

    /// Remember the URLs of a batch that was recorded: they are recognized without a look at the table.
    fn remember(&mut self, batch: &PlainBatch) {
        self.remember_all(&batch.recorded);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(gathering) = &self.gathering else { return Ok(()) };
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
        let found = self.read_plain(py, url, given, gathering.authority.bind(py), &mut batch.text)?;
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
            Some(authority) => authority.clone(),
            None => match find.call1((given,))?.extract::<Option<ReadAuthority>>()? {
                Some(found) => self.keep(py, &url[..slash], found)?,
                None => return Ok(None),
            },
        };
        self.form.clear();
        self.form.extend_from_slice(&authority.canonical);
        self.form.extend_from_slice(&rest[..mark]);
        if let Some(query) = rest.get(mark + 1..) {
            self.query.append(query, &mut self.form);
        }
        let mut fingerprint = [0; 16];
        fingerprint[..4].copy_from_slice(&authority.hash);
        fingerprint[4..].copy_from_slice(&xxh3_128(&self.form).to_be_bytes()[..12]);
        let start = text.len();
        text.extend_from_slice(rest);
        Ok(Some((fingerprint, Uri::Plain { authority, start, end: text.len() })))
    }

    fn keep(&mut self, py: Python<'_>, prefix: &[u8], found: ReadAuthority) -> PyResult<Arc<Authority>> {
        let (canonical, hash, key, mark, short) = found;
        if self.authorities.len() >= self.most_authorities {
            self.authorities.clear();
            self.queues.clear();
        }
        let queue = self.queue(py, key)?;
        let (canonical, short) = (canonical.into_bytes(), short.into_bytes());
        let authority = Arc::new(Authority { canonical, hash, queue, mark, short });
        if prefix.len() < LONGEST_AUTHORITY {
            self.authorities.insert(prefix.into(), authority.clone());
        }
        Ok(authority)
    }

    /// Return the queue of a key, the same for the same key as long as there is room.
    fn queue(&mut self, py: Python<'_>, key: Py<PyString>) -> PyResult<Arc<Queue>> {
        if let Some(queue) = self.queues.get(key.bind(py).to_str()?) {
            return Ok(queue.clone());
        }
        let name = key.bind(py).to_str()?.to_owned();
        let queue = Arc::new(Queue::new(py, key)?);
        if self.queues.len() < self.most_authorities {
            self.queues.insert(name, queue.clone());
        }
        Ok(queue)
    }
}
