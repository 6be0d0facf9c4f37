//! The turns of queues and the ends of leases, where nothing but budgets and waits has a say.
//!
//! `engine/turns.py` (Turns.lease) and `engine/finish.py` (Finisher.finish) are the definition: they do what is left
//! here, and all of it where the kernel is not there.

mod ends;
mod groups;
mod hand_out;
mod limits;
mod links;
mod queues;
mod work;

use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyList, PyTuple};

use self::ends::Ended;
use self::limits::Limits;
use self::work::{CUT_SHORT, NOT_ANSWERED, Settled, Terms, Totals, Work, answered, begun};
use crate::batch::{Page, PlainBatch};
use crate::calls::{self, Calls};
use crate::charged_attempts::ChargedAttempts;
use crate::ended_attempts::EndedAttempts;
use crate::endings::Ending;
use crate::fields::State;
use crate::leases_out::LeasesOut;
use crate::live_queue::LiveQueue;
use crate::queue_records::{QueueIds, QueueRecords};
use crate::read_ahead::ReadAhead;
use crate::ring::Ring;
use crate::snoozed_rows::{self, SnoozedRows};
use crate::taken_keys::TakenKeys;

/// The leases and links of one operation at the most: `finish_many.BATCH`.
const MOST_OPERATIONS: usize = 1000;

struct Cost {
    cost: Py<PyAny>,
    /// Copies a CrawlUri with it, for two thirds of what it costs to make one.
    uri: Py<PyAny>,
}

/// The tables that turns and ends of leases change: the parts of the engine own them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Parts {
    cache: Py<QueueRecords>,
    dirty: Py<QueueIds>,
    get: Py<PyAny>,
    env: Py<PyAny>,
    /// The tables of records and ids of queues.
    queues: Py<PyAny>,
    queue_ids: Py<PyAny>,
    ahead: Py<ReadAhead>,
    reading: Py<PyAny>,
    restore: Py<PyAny>,
    taken: Py<TakenKeys>,
    out: Py<LeasesOut>,
    ring: Py<Ring>,
    snoozed: Py<SnoozedRows>,
    charged: Py<ChargedAttempts>,
    counters: Py<PyAny>,
    attempts: Py<EndedAttempts>,
    links: Py<PyDict>,
    /// The classes Lease, CrawlUri and Finish, what sets a field of a URI, and the outcome SUCCESS.
    lease: Py<PyAny>,
    uri: Py<PyAny>,
    set: Py<PyAny>,
    finish: Py<PyAny>,
    success: Py<PyAny>,
    /// Records and limits of groups by id, and a function for those that are not in memory.
    groups: Py<PyDict>,
    limited: Py<PyAny>,
    /// Returns whether a quota of a URI is used up, and counts a success: `Tallies`.
    quota_reached: Py<PyAny>,
    count_success: Py<PyAny>,
    /// Draws a share of the jitter.
    random: Py<PyAny>,
}

/// Takes turns of queues, and ends leases, between a `begin` and a `settle`.
#[pyclass(module = "budgetfrontier.engine.native")]
pub struct Turns {
    parts: Parts,
    /// The part of a key before its cost, and costs from 0 on.
    normal: [u8; 5],
    costs: Vec<Cost>,
    one: Py<PyAny>,
    /// Attempts that are counted at once, and records of queues in memory, at the most.
    most: (usize, usize),
    /// None outside of `begin` and `settle`. It is locked in the middle of a call, which signal handlers may interrupt.
    work: Mutex<Option<Work>>,
}

#[pymethods]
impl Turns {
    #[new]
    #[pyo3(signature = (parts, *, normal, costs, most))]
    fn new(py: Python<'_>, parts: Parts, normal: [u8; 5], costs: usize, most: (usize, usize)) -> PyResult<Self> {
        let of_cost = |cost: usize| -> PyResult<Cost> {
            let named = [("cost", cost)].into_py_dict(py)?;
            let uri = parts.uri.bind(py).call(("",), Some(&named))?.getattr("__copy__")?.unbind();
            Ok(Cost { cost: cost.into_pyobject(py)?.into_any().unbind(), uri })
        };
        let costs = (0..costs).map(of_cost).collect::<PyResult<_>>()?;
        let one = 1i64.into_pyobject(py)?.into_any().unbind();
        Ok(Self { parts, normal, costs, one, most, work: Mutex::default() })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Parts { get, env, reading, counters, limited, quota_reached, count_success, random, .. } = &self.parts;
        [get, env, reading, counters, limited, quota_reached, count_success, random]
            .into_iter()
            .try_for_each(|part| visit.call(part))?;
        let Ok(work) = self.work.try_lock() else { return Ok(()) };
        work.as_ref().map_or(Ok(()), |work| work.traverse(&visit))
    }

    /// Begin with the limits in force, the ring's last position, the next wake time, and the next lease's id.
    ///
    /// Python answers all calls until a `settle`, unless `calls` has what they look at: the fields of `Calls` and of
    /// `Terms`.
    #[pyo3(signature = (limits, ring_back, next_wake, next_id, calls = None))]
    fn begin(
        &self,
        limits: Limits,
        ring_back: i64,
        next_wake: f64,
        next_id: i64,
        calls: Option<(calls::Given, work::Given)>,
    ) -> PyResult<()> {
        let mut work = Work::new(limits, ring_back, next_wake, next_id);
        if let Some((calls, (queued, ttl, longest_delay, most_due, events))) = calls {
            work.calls = Some(Calls::new(calls));
            work.terms = Terms { queued, ttl, longest_delay, most_due, events: Some(events) };
        }
        *self.lock()? = Some(work);
        Ok(())
    }

    /// Answer no more calls; return the changes of the totals (the fields of `Totals`), the next wake time, the earliest
    /// deadline of the leases since, the ring's last position, the next lease's id, the ids and times of calls that have
    /// leased something, with `calls` the time of the last one, and the operations, and how many queues were woken by a call
    /// of `lease` that was not answered.
    ///
    /// None if there was no `begin`.
    fn settle(&self) -> PyResult<Option<Settled>> {
        let Some(work) = self.lock()?.take() else { return Ok(None) };
        let Work { ring_back, next_wake, next_id, calls_made, totals, calls, woken, .. } = work;
        let Totals {
            in_process,
            snoozed,
            succeeded,
            queued,
            spent,
            bytes,
            scheduled,
            found,
            duplicates,
            answers,
            first_expiry,
        } = totals;
        let of_calls = calls.map(|calls| (calls.latest, calls.operations));
        let changes = [in_process, snoozed, succeeded, queued, spent, bytes, scheduled, found, duplicates];
        Ok(Some((changes, answers, next_wake, first_expiry, ring_back, next_id, calls_made, of_calls, woken)))
    }

    /// Return whether it is the middle of a call.
    fn is_busy(&self) -> bool {
        matches!(self.work.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Hand out up to `count` URIs into a list, each queue in its turn, as long as a turn needs nothing else; return
    /// whether the ring is used up.
    fn hand_out(
        &self,
        py: Python<'_>,
        leased: &Bound<'_, PyList>,
        count: usize,
        deadline: f64,
        now: f64,
    ) -> PyResult<bool> {
        let mut lock = self.lock()?;
        self.turns(py, begun(&mut lock)?, leased, count, deadline, now)
    }

    /// Move up to `limit` snoozed queues that are due to the ring's back, and return how many were moved.
    fn wake_due(&self, py: Python<'_>, now: f64, limit: usize, moves: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut lock = self.lock()?;
        self.wake(py, begun(&mut lock)?, now, limit, moves)
    }

    /// Put the URIs of a batch that are new on their queues, and return their number; `now` is the time of those that
    /// arrived together, and `page` the one on which they were found.
    fn place(
        &self,
        py: Python<'_>,
        batch: &Bound<'_, PlainBatch>,
        page: Option<Page>,
        now: f64,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let mut lock = self.lock()?;
        let (work, terms) = (begun(&mut lock)?, links::Terms::now(py, &self.parts.env, moves)?);
        let batch = &mut batch.borrow_mut();
        self.place_on_queues(py, work, &terms, batch, page, links::NO_QUEUE, now, moves)?;
        Ok(batch.entries.len())
    }

    /// Answer a call of `Frontier.next_ready_in` if a queue is READY; return the time.
    fn ready_at(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let Ok(mut lock) = self.work.try_lock() else { return Ok(None) };
        let Some(calls) = lock.as_mut().and_then(|work| work.calls.as_mut()) else { return Ok(None) };
        let is_ready = self.parts.ring.bind(py).borrow_mut().first().is_some();
        if is_ready { calls.now(py) } else { Ok(None) }
    }

    /// Answer a call of `Frontier.lease`; a `ttl` was checked. If it is not answered, Python hands out the rest.
    #[pyo3(signature = (leased, count, moves, ttl = None))]
    fn lease(
        &self,
        py: Python<'_>,
        leased: &Bound<'_, PyList>,
        count: usize,
        moves: &Bound<'_, PyAny>,
        ttl: Option<f64>,
    ) -> PyResult<u8> {
        let Ok(mut lock) = self.work.try_lock() else { return Ok(NOT_ANSWERED) };
        let Some(work) = lock.as_mut() else { return Ok(NOT_ANSWERED) };
        let Some(calls) = &mut work.calls else { return Ok(NOT_ANSWERED) };
        let Some(now) = calls.now(py)? else { return Ok(NOT_ANSWERED) };
        let deadline = now + ttl.unwrap_or(work.terms.ttl);
        calls.until = calls.until.min(deadline);
        if now >= work.next_wake {
            let of_groups: f64 = moves.getattr(intern!(py, "next_wake_of_groups"))?.extract()?;
            if of_groups <= now {
                return Ok(NOT_ANSWERED);
            }
            let most = work.terms.most_due;
            work.woken = self.wake(py, work, now, most, moves)?;
            work.next_wake = work.next_wake.min(of_groups);
        }
        if self.turns(py, work, leased, count, deadline, now)? {
            let waits = |name| self.parts.counters.bind(py).getattr(name)?.is_truthy();
            if leased.is_empty() || waits(intern!(py, "inactive"))? || waits(intern!(py, "parked"))? {
                return Ok(NOT_ANSWERED);
            }
        } else if leased.len() < count {
            return Ok(NOT_ANSWERED);
        }
        let cut_short = work.woken == work.terms.most_due;
        let answer = self.leave(py, work, leased.len())?;
        Ok(if cut_short { CUT_SHORT } else { answer })
    }

    /// Answer a call of `Frontier.finish` of a success: a lease, and the arguments after it.
    fn finish(
        &self,
        py: Python<'_>,
        lease: &Bound<'_, PyAny>,
        moves: &Bound<'_, PyAny>,
        outcome: &Bound<'_, PyTuple>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<u8> {
        let Ok(mut lock) = self.work.try_lock() else { return Ok(NOT_ANSWERED) };
        let Some(work) = lock.as_mut() else { return Ok(NOT_ANSWERED) };
        let Some(calls) = &mut work.calls else { return Ok(NOT_ANSWERED) };
        if !lease.get_type().is(&self.parts.lease) || work.terms.queued + work.totals.queued <= 1 {
            return Ok(NOT_ANSWERED);
        }
        let Some(ending) = Ending::given(outcome, options, &self.parts.success)? else { return Ok(NOT_ANSWERED) };
        let Some(now) = calls.now(py)? else { return Ok(NOT_ANSWERED) };
        let latest = now + work.terms.longest_delay;
        let Some(lease_id) = ends::id_of(lease)? else { return Ok(NOT_ANSWERED) };
        if self.end_one(py, work, lease_id, now, &ending, latest, moves)? != Ended::Now {
            return Ok(NOT_ANSWERED);
        }
        self.leave(py, work, ending.operations(py))
    }

    /// Answer a call of `Frontier.finish_many`; return the place of the first item that is left, and how the call went:
    /// if it was not answered, Python ends those that are left. Leases that have ended before go into `late`.
    fn finish_many(
        &self,
        py: Python<'_>,
        items: &Bound<'_, PyList>,
        late: &Bound<'_, PyList>,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<(usize, u8)> {
        let Ok(mut lock) = self.work.try_lock() else { return Ok((0, NOT_ANSWERED)) };
        let Some(work) = lock.as_mut() else { return Ok((0, NOT_ANSWERED)) };
        let Some(calls) = &mut work.calls else { return Ok((0, NOT_ANSWERED)) };
        if work.terms.queued + work.totals.queued <= items.len() as i64 {
            return Ok((0, NOT_ANSWERED));
        }
        let mut endings = Vec::with_capacity(items.len());
        let mut operations = 0;
        for item in items.iter() {
            let Some(ending) = self.ending(item)? else { return Ok((0, NOT_ANSWERED)) };
            operations += ending.2.operations(py);
            endings.push(ending);
        }
        if operations > MOST_OPERATIONS {
            return Ok((0, NOT_ANSWERED));
        }
        let Some(now) = calls.now(py)? else { return Ok((0, NOT_ANSWERED)) };
        let latest = now + work.terms.longest_delay;
        for (place, (lease, id, ending)) in endings.iter().enumerate() {
            match self.end_one(py, work, *id, now, ending, latest, moves)? {
                Ended::Now => {}
                Ended::Late => late.append(lease)?,
                Ended::Left => {
                    if let Some(calls) = &mut work.calls {
                        calls.operations += endings[..place].iter().map(|item| item.2.operations(py)).sum::<usize>();
                    }
                    return Ok((place, NOT_ANSWERED));
                }
            }
        }
        Ok((endings.len(), self.leave(py, work, operations)?))
    }

    /// End leases, or as each Finish says, from a place in the list on; return the place of the first that needs more.
    /// Leases that have ended before go into `late`.
    ///
    /// No queue rests beyond `latest`. `moves` is the PlainTurns of Python: it makes the moves that are no plain ones.
    #[allow(clippy::too_many_arguments)]
    fn end(
        &self,
        py: Python<'_>,
        items: &Bound<'_, PyList>,
        start: usize,
        late: &Bound<'_, PyList>,
        now: f64,
        latest: f64,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let mut lock = self.lock()?;
        let work = begun(&mut lock)?;
        for place in start..items.len() {
            let Some((lease, id, ending)) = self.ending(items.get_item(place)?)? else { return Ok(place) };
            match self.end_one(py, work, id, now, &ending, latest, moves)? {
                Ended::Now => {}
                Ended::Late => late.append(lease)?,
                Ended::Left => return Ok(place),
            }
        }
        Ok(items.len())
    }
}

impl Turns {
    fn lock(&self) -> PyResult<MutexGuard<'_, Option<Work>>> {
        match self.work.try_lock() {
            Ok(work) => Ok(work),
            Err(TryLockError::Poisoned(panicked)) => Ok(panicked.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(PyRuntimeError::new_err("a call of the kernel in the middle of another"))
            }
        }
    }

    /// Count the operations of a call, and return how it went.
    fn leave(&self, py: Python<'_>, work: &mut Work, operations: usize) -> PyResult<u8> {
        work.woken = 0;
        let dirty = self.parts.dirty.bind(py).borrow().len();
        let ended = self.parts.attempts.bind(py).borrow().len();
        let in_memory = self.parts.cache.bind(py).borrow().len();
        let is_due = match &mut work.calls {
            Some(calls) => calls.leave(py, operations, dirty)?,
            None => true,
        };
        let is_over = work.terms.queued + work.totals.queued <= 0;
        let is_full = work.is_full || ended >= self.most.0 || in_memory > self.most.1;
        let tells = work.terms.have_events(py)?;
        Ok(answered(is_due || is_over || is_full || tells))
    }

    /// Let a queue be SNOOZED that is in no place: its row is all of `Rotation.move` that is left.
    fn snooze(&self, py: Python<'_>, work: &mut Work, queue: &mut LiveQueue) {
        let wake_time = queue.wake_time.value();
        self.parts.snoozed.bind(py).borrow_mut().add(snoozed_rows::row(wake_time, queue.id as u32));
        queue.state = State::Snoozed;
        work.totals.snoozed += 1;
        work.next_wake = work.next_wake.min(wake_time);
    }
}
