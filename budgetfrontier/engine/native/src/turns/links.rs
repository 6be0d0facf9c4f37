//! The placing of plain URIs on their queues, and the links of a page, which are admitted before its lease ends.
//!
//! `engine/finish.py` (Finisher.finish), `engine/admission/admit.py` (Admitter) and `engine/admission/placing.py`
//! (Placer) are the definition.

use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use super::Turns;
use super::work::Work;
use crate::batch::{Page, PlainBatch};
use crate::fields::State;
use crate::live_queue::LiveQueue;
use crate::reader::BatchReader;
use crate::records::Rank;

/// The characters of hops, and of the last URL that has arrived in a queue, that are kept (`storage/uri_values.py`).
const MAX_HOPS: usize = 1024;
const LONGEST_SHOWN: usize = 1024;

/// What admission needs beside the tables of turns: `AdmissionParts` of `engine/plain_turns.py`.
#[derive(FromPyObject)]
pub(super) struct Admission {
    reader: Py<BatchReader>,
    /// The function of `BatchReader.read`.
    authority: Py<PyAny>,
    /// Returns the fields of `Kind`.
    kind: Py<PyAny>,
    /// The ids of queues in memory by key, and the function that returns the record of any other.
    pub(super) ids: Py<PyDict>,
    pub(super) find_or_create: Py<PyAny>,
    /// Adds pending records with their URLs: `PendingTable.insert`.
    insert: Py<PyAny>,
}

/// What all URIs have in common: their rank, what turns an ordinal into an arrival, how many URIs of a queue may be out,
/// and whether their URLs are kept.
type Kind = (Rank, u64, i64, bool);

/// What holds for all URIs from a `begin` to its `settle`.
pub struct Terms {
    admission: Admission,
    kind: Kind,
    /// `Cursor.put` of py-lmdb for the table `seen`, and `Cursor.putmulti` for `pending`.
    see: Py<PyAny>,
    put: Py<PyAny>,
}

impl Terms {
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Admission { authority, kind, find_or_create, insert, .. } = &self.admission;
        [authority, kind, find_or_create, insert, &self.see, &self.put].into_iter().try_for_each(|one| visit.call(one))
    }

    pub fn now(py: Python<'_>, env: &Py<PyAny>, moves: &Bound<'_, PyAny>) -> PyResult<Self> {
        let admission: Admission = moves.getattr(intern!(py, "admission"))?.extract()?;
        let kind = admission.kind.bind(py).call0()?.extract()?;
        let env = env.bind(py);
        let see = env.getattr(intern!(py, "seen"))?.getattr(intern!(py, "put"))?.unbind();
        let put = env.getattr(intern!(py, "pending"))?.getattr(intern!(py, "putmulti"))?.unbind();
        Ok(Self { admission, kind, see, put })
    }

    /// Return them if the kernel may admit links: None if Python has to.
    fn of_links(py: Python<'_>, env: &Py<PyAny>, moves: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Self>>> {
        let admission = moves.getattr(intern!(py, "admission"))?;
        if admission.is_none() || !admission.call_method0(intern!(py, "admits_links"))?.is_truthy()? {
            return Ok(None);
        }
        Self::now(py, env, moves).map(|terms| Some(Arc::new(terms)))
    }
}

/// The id of no queue.
pub const NO_QUEUE: u32 = 0;

/// Links that were read, and the page that has them.
pub struct Links {
    terms: Arc<Terms>,
    batch: PlainBatch,
    page: Page,
}

/// How many links a page has, how many of them were new, and how many of these are on the page's own queue.
#[derive(Clone, Copy, Default)]
pub struct Counted {
    pub links: i64,
    pub new: i64,
    pub own: i64,
}

impl Turns {
    /// Read the links of a page; None if they need Python, or the page does. Nothing has changed then.
    pub(super) fn read_links(
        &self,
        py: Python<'_>,
        work: &mut Work,
        lease: &Bound<'_, PyAny>,
        given: &Bound<'_, PyList>,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Links>> {
        if work.links.is_none() {
            work.links = Some(Terms::of_links(py, &self.parts.env, moves)?);
        }
        let Some(Some(terms)) = work.links.clone() else { return Ok(None) };
        let admission = &terms.admission;
        let uri = lease.getattr(intern!(py, "uri"))?;
        if !uri.getattr(intern!(py, "source"))?.is_none() {
            return Ok(None); // they inherit its label
        }
        let read = admission.reader.bind(py).borrow_mut().read_all_plain(py, given, admission.authority.bind(py));
        let batch = match read {
            Ok(Some(batch)) => batch,
            Err(error) if !error.is_instance_of::<PyException>(py) => return Err(error),
            _ => return Ok(None), // Python raises the error of a policy again
        };
        let hops = uri.getattr(intern!(py, "hops"))?.extract::<String>()? + "L"; // copies `link_hops`
        let start = hops.char_indices().rev().nth(MAX_HOPS - 1).map_or(0, |(start, _)| start);
        let page = (uri.getattr(intern!(py, "url"))?.extract()?, hops[start..].to_owned());
        Ok(Some(Links { terms, batch, page }))
    }

    /// Admit links that are new: copies `PlainBatches.admit`. `queue` is the id of the page's queue.
    pub(super) fn admit(
        &self,
        py: Python<'_>,
        work: &mut Work,
        links: Links,
        queue: u32,
        now: f64,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<Counted> {
        let Links { terms, mut batch, page } = links;
        batch.record(py, terms.see.bind(py))?;
        terms.admission.reader.bind(py).borrow_mut().remember(&batch);
        let (links, new) = (batch.each.len() as i64, batch.entries.len() as i64);
        work.totals.found += new;
        work.totals.duplicates += links - new;
        let own = self.place_on_queues(py, work, &terms, &mut batch, Some(page), queue, now, moves)?;
        Ok(Counted { links, new, own })
    }

    /// Put the URIs of a batch that are new on their queues: copies `Placer.place`. `now` is the time of URIs that
    /// arrived together. Returns how many are on the queue with an id.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn place_on_queues(
        &self,
        py: Python<'_>,
        work: &mut Work,
        terms: &Terms,
        batch: &mut PlainBatch,
        page: Option<Page>,
        queue: u32,
        now: f64,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<i64> {
        let (admission, (rank, flip, concurrency, kept)) = (&terms.admission, terms.kind);
        let new = batch.entries.len();
        if new == 0 {
            return Ok(0);
        }
        let rows = batch.rows(py)?;
        let mut queues = Vec::with_capacity(rows.len());
        let mut ids = Vec::with_capacity(rows.len());
        for row in &rows {
            let found = self.queue_of(py, admission, row.key.bind(py))?;
            let id = found.borrow().id as u32;
            queues.push(found);
            ids.push(id);
        }
        let counters = self.parts.counters.bind(py);
        let ordinal: u64 = counters.getattr(intern!(py, "ordinal"))?.extract()?;
        counters.setattr(intern!(py, "ordinal"), ordinal + new as u64)?;
        work.totals.scheduled += new as i64;
        let (records, urls) = batch.records(py, ids.clone(), rank, ordinal, flip, page, kept)?;
        if kept {
            admission.insert.bind(py).call1((records, urls))?;
        } else {
            self.insert(py, terms, &records)?;
        }
        work.is_full |= self.parts.env.bind(py).getattr(intern!(py, "due"))?.is_truthy()?;
        let mut own = 0;
        for ((found, id), row) in queues.iter().zip(ids).zip(rows) {
            if id == queue {
                own = row.count;
            }
            let first = batch.times.get(row.first).copied().unwrap_or(now);
            self.arrived(py, work, found, concurrency, (row.count, row.short.bind(py)), first, moves)?;
        }
        Ok(own)
    }

    /// Add pending records that were never there before, in the order of their keys: copies `PendingTable.insert`.
    fn insert(&self, py: Python<'_>, terms: &Terms, records: &Bound<'_, PyList>) -> PyResult<()> {
        let mut ahead = self.parts.ahead.borrow_mut(py);
        let mut size = 0;
        for record in records.iter() {
            let (key, value) = record.extract::<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>()?;
            ahead.put(py, key.as_bytes());
            size += value.as_bytes().len();
        }
        drop(ahead);
        terms.put.bind(py).call1((records,))?;
        self.parts.env.bind(py).call_method1(intern!(py, "wrote"), (size, records.len()))?;
        Ok(())
    }

    /// Count URIs that were placed on a queue: copies `Turns.arrived`, which does the rest if they may change its state.
    #[allow(clippy::too_many_arguments)]
    fn arrived(
        &self,
        py: Python<'_>,
        work: &mut Work,
        found: &Bound<'_, LiveQueue>,
        concurrency: i64,
        (count, short): (i64, &Bound<'_, PyString>),
        now: f64,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut queue = found.borrow_mut();
        let stays = match queue.state {
            State::Exhausted => false,
            State::InProcess => queue.out > 0 && queue.out - queue.landed >= concurrency, // not `may_lease`
            _ => true,
        };
        if !stays || queue.revision != work.limits.revision || short.len()? > LONGEST_SHOWN {
            drop(queue);
            return self.in_python(py, work, moves, || {
                moves.call_method1(intern!(py, "arrived"), (found, count, short, now)).map(drop)
            });
        }
        queue.last_enqueued = short.clone().unbind();
        queue.queued += count;
        queue.enqueued += count;
        work.totals.queued += if queue.state.is_queued() { count } else { 0 };
        Ok(())
    }

    /// Let Python change the places of queues, with the totals that it needs for that.
    pub(super) fn in_python(
        &self,
        py: Python<'_>,
        work: &mut Work,
        moves: &Bound<'_, PyAny>,
        change: impl FnOnce() -> PyResult<()>,
    ) -> PyResult<()> {
        let counters = self.parts.counters.bind(py);
        counters.setattr(intern!(py, "ring_back"), work.ring_back)?;
        change()?;
        work.ring_back = counters.getattr(intern!(py, "ring_back"))?.extract()?;
        work.terms.queued = counters.getattr(intern!(py, "queued"))?.extract()?;
        work.limits.best_waiting = moves.getattr(intern!(py, "best_waiting"))?.extract()?;
        work.next_wake = work.next_wake.min(moves.getattr(intern!(py, "next_wake"))?.extract()?);
        Ok(())
    }
}
