//! What has changed in the totals since Python has brought them up to date, and what calls look at meanwhile.

use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use super::limits::Limits;
use super::links;
use crate::calls::Calls;

/// What holds from a `begin` to its `settle`, and how the totals have changed since.
pub struct Work {
    pub limits: Limits,
    pub ring_back: i64,
    /// A lower bound of the wake times of the snoozed.
    pub next_wake: f64,
    pub next_id: i64,
    /// The first id and the time of each call that has leased something.
    pub calls_made: Vec<(i64, f64)>,
    pub totals: Totals,
    /// Whether LMDB has as many changed pages in memory as may be.
    pub is_full: bool,
    /// What holds for links: None before the first page that has some, None in it where Python admits them.
    pub links: Option<Option<Arc<links::Terms>>>,
    /// The calls that need nothing else; None: Python answers all.
    pub calls: Option<Calls>,
    pub terms: Terms,
    /// Queues that were woken by a call which is not answered yet.
    pub woken: usize,
}

impl Work {
    pub fn new(limits: Limits, ring_back: i64, next_wake: f64, next_id: i64) -> Self {
        Self {
            limits,
            ring_back,
            next_wake,
            next_id,
            calls_made: Vec::new(),
            totals: Totals::default(),
            is_full: false,
            links: None,
            calls: None,
            terms: Terms::default(),
            woken: 0,
        }
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.limits.effective)?;
        visit.call(&self.terms.events)?;
        if let Some(Some(links)) = &self.links {
            links.traverse(visit)?;
        }
        self.calls.as_ref().map_or(Ok(()), |calls| calls.traverse(visit))
    }
}

/// What calls look at beside the time: URIs in queues when they began, the seconds of a lease, the longest rest of a
/// queue, how many queues a lease wakes at the most, and the events that hooks are told of at the end of a call.
#[derive(Default)]
pub struct Terms {
    pub queued: i64,
    pub ttl: f64,
    pub longest_delay: f64,
    pub most_due: usize,
    pub events: Option<Py<PyAny>>,
}

impl Terms {
    /// Return whether hooks are to be told of something.
    pub fn have_events(&self, py: Python<'_>) -> PyResult<bool> {
        self.events.as_ref().map_or(Ok(false), |events| events.bind(py).is_empty().map(|empty| !empty))
    }
}

/// The fields of `Terms`, in order.
pub type Given = (i64, f64, f64, usize, Py<PyAny>);

/// Changes of the totals.
pub struct Totals {
    pub in_process: i64,
    pub snoozed: i64,
    pub succeeded: i64,
    pub queued: i64,
    pub spent: i64,
    pub bytes: i64,
    /// URIs that were placed on their queues; links that were new, and those that were known.
    pub scheduled: i64,
    pub found: i64,
    pub duplicates: i64,
    /// Answers by class.
    pub answers: [i64; 5],
    /// The earliest deadline of the leases.
    pub first_expiry: f64,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            in_process: 0,
            snoozed: 0,
            succeeded: 0,
            queued: 0,
            spent: 0,
            bytes: 0,
            scheduled: 0,
            found: 0,
            duplicates: 0,
            answers: [0; 5],
            first_expiry: f64::INFINITY,
        }
    }
}

pub type Settled = ([i64; 9], [i64; 5], f64, f64, i64, i64, Vec<(i64, f64)>, Option<(f64, usize)>, usize);

/// How a call went: it is Python's, or was answered, or that and something is due at its end.
pub const NOT_ANSWERED: u8 = 0;
const ANSWERED: u8 = 1;
const DUE: u8 = 2;
/// It has left some queues for the next call, too.
pub const CUT_SHORT: u8 = 3;

pub fn answered(is_due: bool) -> u8 {
    if is_due { DUE } else { ANSWERED }
}

pub fn begun(work: &mut Option<Work>) -> PyResult<&mut Work> {
    work.as_mut().ok_or_else(|| PyRuntimeError::new_err("a call of the kernel without `begin`"))
}
