//! The rows of kept URLs that are completed. `engine/url_table.py` (class UrlTable) is the definition.

use std::collections::HashMap;

use pyo3::exceptions::PyException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::hashing::{ByText, Fingerprint};
use crate::live_queue::LiveQueue;
use crate::msgpack::{self, Reader};
use crate::queue_records::{QueueIds, QueueRecords};
use crate::reader::BatchReader;
use crate::records;

/// Authorities whose canonical form is kept at the most: about 100 bytes each.
const MOST: usize = 1 << 14;

/// The canonical form of an authority, and the first bytes of all its fingerprints.
type Form = (Box<[u8]>, [u8; 4]);
type Record<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Finds and completes the URLs of records that have left the table `pending`.
#[pyclass(module = "budgetfrontier.engine.native")]
pub struct KeptUrls {
    reader: Py<BatchReader>,
    /// `Canonicalization.authority`.
    canonical: Py<PyAny>,
    cache: Py<QueueRecords>,
    dirty: Py<QueueIds>,
    get: Py<PyAny>,
    /// Authorities that the reader does not know, by how they are written.
    forms: HashMap<Box<[u8]>, Form, ByText>,
}

#[pymethods]
impl KeptUrls {
    #[new]
    fn new(
        reader: Py<BatchReader>,
        canonical: Py<PyAny>,
        cache: Py<QueueRecords>,
        dirty: Py<QueueIds>,
        get: Py<PyAny>,
    ) -> Self {
        Self { reader, canonical, cache, dirty, get, forms: HashMap::default() }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.canonical)?;
        visit.call(&self.get)
    }

    /// Complete the URLs of records, given by place and value, in their rows, with a cursor of the table. Return the
    /// records that need more, the URLs completed, the queues with none left that waits, and the bytes written.
    fn complete<'py>(
        &mut self,
        py: Python<'py>,
        records: Vec<Record<'py>>,
        cursor: &Bound<'py, PyAny>,
    ) -> PyResult<(Vec<Record<'py>>, i64, i64, usize)> {
        let (mut left, mut found) = (Vec::new(), Vec::with_capacity(records.len()));
        for record in records {
            match self.fingerprint(py, record.0.as_bytes(), record.1.as_bytes())? {
                Some(fingerprint) => found.push((fingerprint, record)),
                None => left.push(record),
            }
        }
        found.sort_unstable_by_key(|(fingerprint, _)| *fingerprint);
        let (get, put) = (cursor.getattr(intern!(py, "get"))?, cursor.getattr(intern!(py, "put"))?);
        let (mut completed, mut inactive, mut size, mut value) = (0, 0, 0, Vec::new());
        for (fingerprint, record) in found {
            let key = PyBytes::new(py, &fingerprint);
            let row = get.call1((&key,))?.extract::<Option<Bound<'py, PyBytes>>>()?;
            let row = row.as_ref().and_then(|row| Row::read(row.as_bytes()));
            let Some(row) = row.filter(|row| row.place == record.0.as_bytes()) else {
                left.push(record);
                continue;
            };
            value.clear();
            row.append_completed(&mut value);
            put.call1((key, PyBytes::new(py, &value)))?;
            let mut queue = self.queue(py, row.queue)?.borrow_mut();
            queue.completed += 1;
            completed += 1;
            inactive += i64::from(queue.urls == queue.completed);
            size += value.len();
        }
        Ok((left, completed, inactive, size))
    }
}

impl KeptUrls {
    /// Return the fingerprint of the URL of a record; None if it needs Python.
    fn fingerprint(&mut self, py: Python<'_>, place: &[u8], value: &[u8]) -> PyResult<Option<Fingerprint>> {
        let Some(queue_id) = place.first_chunk::<4>() else { return Ok(None) };
        let queue = self.queue(py, u32::from_be_bytes(*queue_id))?.borrow().queue.clone_ref(py);
        let Some(url) = records::identifying_url(value, queue.to_str(py)?) else { return Ok(None) };
        let mut reader = self.reader.borrow_mut(py);
        let Some((written, rest, query)) = reader.parts(url.as_bytes()) else { return Ok(None) };
        if let Some(known) = reader.known(written) {
            return Ok(Some(reader.fingerprint(known.canonical(), known.hash, rest, query)));
        }
        if !self.forms.contains_key(written) {
            let form = match self.canonical.bind(py).call1((&url[..written.len()],)).and_then(|form| form.extract()) {
                Ok(form) => String::into_boxed_str(form).into_boxed_bytes(),
                Err(error) if !error.is_instance_of::<PyException>(py) => return Err(error),
                Err(_) => return Ok(None), // Python raises it again
            };
            if self.forms.len() >= MOST {
                self.forms.clear();
            }
            let [a, b, c, d, ..] = xxh3_64(&form).to_be_bytes(); // copies `authority_hash` of `core/uris.py`
            self.forms.insert(written.into(), (form, [a, b, c, d]));
        }
        Ok(self.forms.get(written).map(|(form, hash)| reader.fingerprint(form, *hash, rest, query)))
    }

    /// Return the record of a queue, to be changed.
    fn queue<'py>(&self, py: Python<'py>, id: u32) -> PyResult<Bound<'py, LiveQueue>> {
        if let Some(queue) = self.cache.borrow(py).find(py, id) {
            self.dirty.borrow_mut(py).insert(id);
            return Ok(queue);
        }
        Ok(self.get.bind(py).call1((id,))?.cast_into()?)
    }
}

/// The row of a URL that waits in one place: `UrlRow` of `storage/records.py`.
struct Row<'a> {
    queue: u32,
    url: &'a str,
    place: &'a [u8],
    created: i64,
}

impl<'a> Row<'a> {
    /// Read a row; None if other records of the URL wait, too, or it is not as rows are written.
    fn read(value: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(value);
        (reader.array()? == 5).then_some(())?;
        let queue = u32::try_from(reader.int()?).ok()?;
        let row = Self { queue, url: reader.text()?, place: reader.bytes()?, created: reader.int()? };
        reader.int()?; // when it is due
        reader.0.is_empty().then_some(row)
    }

    /// Append the row of the URL once it waits no more.
    fn append_completed(&self, value: &mut Vec<u8>) {
        msgpack::append_array(5, value);
        msgpack::append_int(i64::from(self.queue), value);
        msgpack::append_text(&[self.url.as_bytes()], value);
        msgpack::append_bytes(b"", value);
        msgpack::append_int(self.created, value);
        msgpack::append_int(0, value);
    }
}
