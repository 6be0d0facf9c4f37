//! A batch that was read. `engine/admission/placing.py` (class Placer) is the definition of what becomes of it.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::authorities::{Authority, Queue};
use crate::hashing::{ByHash, Fingerprint};
use crate::records::{self, Found, PRIORITY_ZERO, Rank};

/// A URI that may be new; one of the same form may come before it.
pub struct Entry {
    pub fingerprint: Fingerprint,
    pub uri: Uri,
    /// Its priority, inverted.
    pub priority: u32,
}

pub enum Uri {
    /// A plain URL: its path and query are this part of the batch's text.
    Plain {
        authority: Arc<Authority>,
        start: usize,
        end: usize,
        more: More,
    },
    Other {
        queue: Queue,
        value: Py<PyBytes>,
        short: Py<PyString>,
    },
}

/// What a plain URL may have beside it: where it was found, or a payload.
#[derive(Default)]
pub struct More {
    pub via: Option<Py<PyString>>,
    pub hops: Option<Py<PyString>>,
    pub payload: Option<Py<PyBytes>>,
}

impl More {
    fn text<'a>(py: Python<'a>, text: &'a Option<Py<PyString>>) -> PyResult<Option<&'a str>> {
        text.as_ref().map(|text| text.to_str(py)).transpose()
    }
}

/// A page on which all URIs were found, but for those that say otherwise: its URL, and the hops of its links.
pub type Page = (String, String);

impl Uri {
    /// Return the bytes of its payload.
    pub fn carried(&self, py: Python<'_>) -> usize {
        match self {
            Uri::Plain { more: More { payload: Some(payload), .. }, .. } => payload.as_bytes(py).len(),
            _ => 0,
        }
    }

    fn queue(&self) -> &Queue {
        match self {
            Uri::Plain { authority, .. } => &authority.queue,
            Uri::Other { queue, .. } => queue,
        }
    }
}

/// A queue on which URIs are placed.
pub struct Row {
    pub key: Py<PyString>,
    pub count: i64,
    /// The short form of the last one's URL, and the place of the first one.
    pub short: Py<PyString>,
    pub first: usize,
}

/// What one URI of a batch is.
pub enum Given {
    /// One that may be new: its place among the entries.
    Entry(usize),
    Known,
    Invalid,
}

/// The URIs of a batch that may be new, in order: after `record`, those that are.
#[derive(Default)]
#[pyclass(module = "budgetfrontier.engine.native")]
pub struct PlainBatch {
    pub entries: Vec<Entry>,
    pub text: Vec<u8>,
    pub each: Vec<Given>,
    /// The fingerprints of all that `record` has looked up, also of those that were known.
    pub recorded: Vec<Fingerprint>,
    /// When each URI arrived, if they did not arrive together.
    pub times: Vec<f64>,
    /// By URI, the place of its queue among those of `queues`.
    groups: Vec<usize>,
}

impl PlainBatch {
    /// Return an empty batch with room for a number of URIs with usual paths: a MemoryError if there is none.
    pub fn with_capacity(count: usize, text: usize) -> PyResult<Self> {
        let mut batch = Self::default();
        let room = batch.entries.try_reserve_exact(count).and_then(|()| batch.each.try_reserve_exact(count));
        match room.and_then(|()| batch.text.try_reserve_exact(text)) {
            Ok(()) => Ok(batch),
            Err(_) => Err(PyMemoryError::new_err(())),
        }
    }

    fn short<'py>(&self, py: Python<'py>, uri: &Uri) -> PyResult<Bound<'py, PyString>> {
        match uri {
            Uri::Plain { authority, start, end, .. } => {
                let short = [authority.short(), &self.text[*start..*end]].concat();
                Ok(PyString::new(py, &String::from_utf8(short)?))
            }
            Uri::Other { short, .. } => Ok(short.bind(py).clone()),
        }
    }
}

#[pymethods]
impl PlainBatch {
    fn __len__(&self) -> usize {
        self.entries.len()
    }

    /// The number of URIs that were read, also known and INVALID ones.
    #[getter]
    fn given(&self) -> usize {
        self.each.len()
    }

    /// Add the fingerprints to a table, in their order, and drop the URIs for which `put` returns false: it is
    /// `Cursor.put` of py-lmdb.
    pub fn record(&mut self, py: Python<'_>, put: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut order: Vec<(&Fingerprint, usize)> =
            self.entries.iter().enumerate().map(|(place, entry)| (&entry.fingerprint, place)).collect();
        order.sort_unstable();
        let nothing = PyBytes::new(py, b"");
        let mut is_new = vec![false; self.entries.len()];
        let mut before = None;
        for (fingerprint, place) in order {
            is_new[place] = before != Some(fingerprint) && add_form(put, fingerprint, &nothing)?;
            before = Some(fingerprint);
        }
        for given in &mut self.each {
            if matches!(given, Given::Entry(place) if !is_new[*place]) {
                *given = Given::Known;
            }
        }
        self.recorded = self.entries.iter().map(|entry| entry.fingerprint).collect();
        let mut is_new = is_new.into_iter();
        self.entries.retain(|_| is_new.next().unwrap_or(true));
        Ok(())
    }

    /// Return for each URI of the batch which of three results it has.
    fn results<'py>(
        &self,
        py: Python<'py>,
        added: &Bound<'py, PyAny>,
        duplicate: &Bound<'py, PyAny>,
        invalid: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        PyList::new(
            py,
            self.each.iter().map(|given| match given {
                Given::Entry(_) => added,
                Given::Known => duplicate,
                Given::Invalid => invalid,
            }),
        )
    }

    /// Return of each queue its key and the number of URIs, in the order of the first ones.
    fn queues(&mut self, py: Python<'_>) -> PyResult<Vec<(Py<PyString>, i64)>> {
        Ok(self.rows(py)?.into_iter().map(|row| (row.key, row.count)).collect())
    }

    /// Return of each URI its fingerprint, the place of its queue among those that `queues` has returned, its value, its
    /// short form, and its inverted priority.
    fn candidates<'py>(&self, py: Python<'py>, page: Option<Page>) -> PyResult<Bound<'py, PyList>> {
        self.most_queues()?;
        let (found, mut room) = (PyList::empty(py), Vec::new());
        for (entry, &place) in self.entries.iter().zip(&self.groups) {
            let value = self.value(py, &entry.uri, page.as_ref(), &mut room)?;
            let (fingerprint, short) = (PyBytes::new(py, &entry.fingerprint), self.short(py, &entry.uri)?);
            found.append((fingerprint, place, value, short, entry.priority))?;
        }
        Ok(found)
    }
}

impl PlainBatch {
    /// Return keys and values of the pending records in the order of keys, and on request for each of them what the
    /// table of URLs needs: fingerprint, queue's id, short form and key.
    ///
    /// `ids` are those of the queues that `queues` has returned; the first URI arrives after `ordinal`, and `flip`
    /// turns an ordinal into an arrival.
    #[allow(clippy::too_many_arguments)]
    pub fn records<'py>(
        &self,
        py: Python<'py>,
        ids: Vec<u32>,
        rank: Rank,
        ordinal: u64,
        flip: u64,
        page: Option<Page>,
        listed: bool,
    ) -> PyResult<(Bound<'py, PyList>, Option<Bound<'py, PyList>>)> {
        let most = self.most_queues()?;
        if ids.len() < most {
            return Err(PyValueError::new_err("records need the id of each queue"));
        }
        let (found, urls) = (PyList::empty(py), listed.then(|| PyList::empty(py)));
        let mut value = Vec::new();
        for number in self.in_order_of_keys(&ids, most, flip != 0) {
            let (entry, place) = (&self.entries[number], self.groups[number]);
            let key = records::key(ids[place], rank, entry.priority, (ordinal + 1 + number as u64) ^ flip);
            let key = PyBytes::new(py, &key);
            let value = self.value(py, &entry.uri, page.as_ref(), &mut value)?;
            found.append(PyTuple::new(py, [&key, &value])?)?;
            if let Some(urls) = &urls {
                let fingerprint = PyBytes::new(py, &entry.fingerprint);
                urls.append((fingerprint, ids[place], self.short(py, &entry.uri)?, key))?;
            }
        }
        Ok((found, urls))
    }

    /// Return the queues of the URIs, in the order of the first ones.
    pub fn rows(&mut self, py: Python<'_>) -> PyResult<Vec<Row>> {
        let mut rows: Vec<(&Queue, i64, &Uri, usize)> = Vec::new();
        let mut places: HashMap<u64, usize, ByHash> = HashMap::default();
        self.groups.clear();
        for (number, entry) in self.entries.iter().enumerate() {
            let queue = entry.uri.queue();
            let mut hash = queue.hash;
            let place = loop {
                let place = *places.entry(hash).or_insert(rows.len());
                if place == rows.len() || is_same(py, rows[place].0, queue)? {
                    break place;
                }
                hash = hash.wrapping_add(1); // two keys with the same hash
            };
            if place == rows.len() {
                rows.push((queue, 0, &entry.uri, number));
            }
            rows[place].1 += 1;
            rows[place].2 = &entry.uri;
            self.groups.push(place);
        }
        let row = |(queue, count, last, first): (&Queue, i64, &Uri, usize)| {
            Ok(Row { key: queue.key.clone_ref(py), count, short: self.short(py, last)?.unbind(), first })
        };
        rows.into_iter().map(row).collect()
    }

    /// Return the number of queues after a call of `queues`.
    fn most_queues(&self) -> PyResult<usize> {
        if self.groups.len() != self.entries.len() {
            return Err(PyValueError::new_err("this needs the result of queues"));
        }
        Ok(self.groups.iter().max().map_or(0, |place| place + 1))
    }

    fn value<'py>(
        &self,
        py: Python<'py>,
        uri: &Uri,
        page: Option<&Page>,
        room: &mut Vec<u8>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (authority, start, end, more) = match uri {
            Uri::Plain { authority, start, end, more } => (authority, *start, *end, more),
            Uri::Other { value, .. } => return Ok(value.bind(py).clone()),
        };
        room.clear();
        let short = [authority.short(), &self.text[start..end]];
        if let Some(payload) = &more.payload {
            records::append_carrying(short, payload.as_bytes(py), room);
        } else {
            let via = More::text(py, &more.via)?.or(page.map(|(url, _)| url.as_str()));
            let hops = More::text(py, &more.hops)?.or(page.map(|(_, hops)| hops.as_str())).unwrap_or("");
            let queue = authority.queue.key.bind(py).to_str()?;
            records::append_value(authority.mark, short, Found { via, hops }, queue, room);
        }
        Ok(PyBytes::new(py, room))
    }

    /// Return the URIs by queue, with the ids of these, by priority, and by arrival, the last one first on request.
    fn in_order_of_keys(&self, ids: &[u32], queues: usize, last_first: bool) -> Vec<usize> {
        let mut ends = vec![0; queues];
        for &place in &self.groups {
            ends[place] += 1;
        }
        let mut places: Vec<usize> = (0..queues).collect();
        places.sort_unstable_by_key(|&place| ids[place]);
        let mut end = 0;
        for place in places {
            end += ends[place];
            ends[place] = end;
        }
        let mut order = vec![0; self.groups.len()];
        let mut put = |number: usize| {
            let end = &mut ends[self.groups[number]];
            *end -= 1;
            order[*end] = number;
        };
        if last_first {
            (0..self.groups.len()).for_each(&mut put)
        } else {
            (0..self.groups.len()).rev().for_each(&mut put)
        }
        if self.entries.iter().any(|entry| entry.priority != PRIORITY_ZERO) {
            order.sort_by_key(|&number| (ids[self.groups[number]], self.entries[number].priority)); // it is stable
        }
        order
    }
}

fn is_same(py: Python<'_>, one: &Queue, other: &Queue) -> PyResult<bool> {
    Ok(one.key.is(&other.key) || one.key.bind(py).to_str()? == other.key.bind(py).to_str()?)
}

/// Add a fingerprint to a table, and return whether it is new. `put` is `Cursor.put` of py-lmdb.
pub fn add_form(put: &Bound<'_, PyAny>, fingerprint: &Fingerprint, nothing: &Bound<'_, PyBytes>) -> PyResult<bool> {
    put.call1((PyBytes::new(put.py(), fingerprint), nothing, true, false))?.is_truthy()
}
