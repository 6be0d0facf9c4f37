//! The turns of queues and the ends of leases, where nothing but budgets and waits has a say.
//!
//! `engine/turns.py` (Turns.lease) and `engine/finish.py` (Finisher.finish) are the definition: they do what is left
//! here, and all of it where the kernel is not there.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList, PySet, PyString};

use crate::calls::{self, Calls};
use crate::ended_attempts::{Attempt, EndedAttempts, SUCCESS};
use crate::endings::{Details, Ending, Politeness};
use crate::live_queue::{LiveQueue, Seconds, State};
use crate::read_ahead::{ReadAhead, Record};
use crate::ring::Ring;

/// The length of the key of a URI without a precedence of its own: `storage/keys.py`, `pending`.
const KEY: usize = 21;
/// The place of the directive in it, and the directive of URIs that are neither seeds nor prerequisites.
const DIRECTIVE: usize = 4;
const NORMAL: u8 = 3;
/// The parts of a key with directive and priority, and with the cost.
const KIND: std::ops::Range<usize> = 4..9;
const COST: std::ops::Range<usize> = 9..13;

/// `storage/keys.py`: not greater than any key but the first.
const FIRST: &[u8] = b"\0\0";

/// What a queue may do depends on these settings, which are the same for all URIs.
#[derive(Default)]
struct Limits {
    concurrency: i64,
    reached: bool,
    revision: i64,
    best_waiting: i64,
    politeness: Politeness,
}

impl<'py> FromPyObject<'_, 'py> for Limits {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (concurrency, reached, revision, best_waiting, politeness) = given.extract()?;
        Ok(Self { concurrency, reached, revision, best_waiting, politeness })
    }
}

/// `budgets.is_over_total`.
fn is_over_total(spent: i64, total: i64, reached: bool) -> bool {
    total >= 0 && (if reached { spent >= total } else { spent > total })
}

/// `queue_states.may_lease`.
fn may_lease(queue: &LiveQueue, limits: &Limits) -> bool {
    if queue.out == 0 {
        return queue.queued > 0;
    }
    queue.out - queue.landed < limits.concurrency
        && queue.queued > queue.out
        && queue.balance > queue.reserved
        && !is_over_total(queue.expenditure + queue.reserved, queue.total_budget, limits.reached)
}

/// `queue_states.after_finish`, and for a queue that yields to a better precedence, its balance of 0.
fn after_finish(queue: &mut LiveQueue, limits: &Limits, now: f64) -> State {
    let state = queue.state;
    if state == State::Retired || is_over_total(queue.expenditure, queue.total_budget, limits.reached) {
        return State::Retired;
    }
    if queue.queued == 0 {
        return State::Exhausted;
    }
    if state == State::Inactive || state == State::Ineligible {
        return state;
    }
    if queue.balance <= 0 {
        return if queue.out > 0 { State::InProcess } else { State::Inactive };
    }
    if limits.best_waiting < queue.precedence {
        queue.balance = 0;
        return State::Inactive;
    }
    if queue.wake_time.value() > now {
        return State::Snoozed;
    }
    if queue.out > 0 && !may_lease(queue, limits) { State::InProcess } else { State::Ready }
}

struct Cost {
    cost: Py<PyAny>,
    /// The arguments by name of a CrawlUri with it.
    named: Py<PyDict>,
}

/// The tables that turns and ends of leases change: the parts of the engine own them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Parts {
    cache: Py<PyDict>,
    dirty: Py<PySet>,
    get: Py<PyAny>,
    ahead: Py<ReadAhead>,
    read: Py<PyAny>,
    taken: Py<PySet>,
    removed: Py<PyList>,
    out: Py<PyDict>,
    ring: Py<Ring>,
    charged: Py<PyAny>,
    counters: Py<PyAny>,
    attempts: Py<EndedAttempts>,
    links: Py<PyDict>,
    /// The classes Lease, CrawlUri and Finish, and the outcome SUCCESS.
    lease: Py<PyAny>,
    uri: Py<PyAny>,
    finish: Py<PyAny>,
    success: Py<PyAny>,
}

/// What holds from a `begin` to its `settle`, and how the totals have changed since.
#[derive(Default)]
struct Work {
    limits: Limits,
    ring_back: i64,
    /// A lower bound of the wake times of the snoozed.
    next_wake: f64,
    next_id: u64,
    /// The first id and the time of each call that has leased something.
    calls_made: Vec<(u64, f64)>,
    totals: Totals,
    /// The list of the queues that were charged the cost of the last URI, and that cost.
    charge: Option<(i64, Py<PyList>)>,
    /// Whether records of queues were read that were not in memory.
    has_read: bool,
    /// The calls that need nothing else; None: Python answers all.
    calls: Option<Calls>,
    terms: Terms,
}

/// What calls look at beside the time: URIs in queues when they began, the seconds of a lease, the longest rest of a
/// queue, and how many queues a lease wakes at the most.
#[derive(Default)]
struct Terms {
    queued: i64,
    ttl: f64,
    longest_delay: f64,
    most_due: usize,
}

/// Changes of the totals.
struct Totals {
    in_process: i64,
    snoozed: i64,
    succeeded: i64,
    queued: i64,
    spent: i64,
    bytes: i64,
    /// Answers by class.
    answers: [i64; 5],
    /// The earliest deadline of the leases.
    first_expiry: f64,
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
            answers: [0; 5],
            first_expiry: f64::INFINITY,
        }
    }
}

type Settled = ([i64; 6], [i64; 5], f64, f64, i64, u64, Vec<(u64, f64)>, Option<(f64, usize)>);

/// How the end of a lease went.
#[derive(PartialEq)]
enum Ended {
    Now,
    /// The lease had ended before.
    Late,
    /// It needs more: nothing was done.
    Left,
}

/// How a call went: it is Python's, or was answered, or that and something is due at its end.
const NOT_ANSWERED: u8 = 0;
const ANSWERED: u8 = 1;
const DUE: u8 = 2;
/// It has left some queues for the next call, too.
const CUT_SHORT: u8 = 3;

fn answered(is_due: bool) -> u8 {
    if is_due { DUE } else { ANSWERED }
}

/// Takes turns of queues, and ends leases, between a `begin` and a `settle`.
#[pyclass(module = "budgetfrontier.engine.native")]
pub struct Turns {
    parts: Parts,
    /// By the first byte of a value; empty: it is no plain URL.
    schemes: Vec<String>,
    /// The part of a key before its cost, and costs from 0 on.
    normal: [u8; 5],
    costs: Vec<Cost>,
    one: Py<PyAny>,
    /// Attempts that are counted at once at the most.
    most_ended: usize,
    /// None outside of `begin` and `settle`. It is locked in the middle of a call, which a signal handler may interrupt.
    work: Mutex<Option<Work>>,
}

#[pymethods]
impl Turns {
    #[new]
    #[pyo3(signature = (parts, *, schemes, normal, costs, most_ended))]
    fn new(
        py: Python<'_>,
        parts: Parts,
        schemes: HashMap<u8, String>,
        normal: [u8; 5],
        costs: usize,
        most_ended: usize,
    ) -> PyResult<Self> {
        let of_cost = |cost: usize| -> PyResult<Cost> {
            let named = PyDict::new(py);
            named.set_item("cost", cost)?;
            Ok(Cost { cost: cost.into_pyobject(py)?.into_any().unbind(), named: named.unbind() })
        };
        let costs = (0..costs).map(of_cost).collect::<PyResult<_>>()?;
        let schemes = (0..=u8::MAX).map(|mark| schemes.get(&mark).cloned().unwrap_or_default()).collect();
        let one = 1i64.into_pyobject(py)?.into_any().unbind();
        Ok(Self { parts, schemes, normal, costs, one, most_ended, work: Mutex::default() })
    }

    /// Begin with the limits in force, the ring's last position, the next wake time, and the next lease's id.
    ///
    /// Python answers all calls until a `settle`, unless `calls` has what they look at: the fields of `Calls` and `Terms`.
    #[pyo3(signature = (limits, ring_back, next_wake, next_id, calls = None))]
    fn begin(
        &self,
        limits: Limits,
        ring_back: i64,
        next_wake: f64,
        next_id: u64,
        calls: Option<(calls::Given, (i64, f64, f64, usize))>,
    ) -> PyResult<()> {
        let mut work = Work { limits, ring_back, next_wake, next_id, ..Work::default() };
        if let Some((calls, (queued, ttl, longest_delay, most_due))) = calls {
            work.calls = Some(Calls::new(calls));
            work.terms = Terms { queued, ttl, longest_delay, most_due };
        }
        *self.lock()? = Some(work);
        Ok(())
    }

    /// Answer no more calls; return the changes of the totals (the fields of `Totals`), the next wake time, the ring's
    /// last position, the next lease's id, the ids and times of calls that have leased something, and with `calls` the time of the last
    /// one, and the operations.
    ///
    /// None if there was no `begin`.
    fn settle(&self) -> PyResult<Option<Settled>> {
        let Some(work) = self.lock()?.take() else { return Ok(None) };
        let Work { ring_back, next_wake, next_id, calls_made, totals, calls, .. } = work;
        let Totals { in_process, snoozed, succeeded, queued, spent, bytes, answers, first_expiry } = totals;
        let of_calls = calls.map(|calls| (calls.latest, calls.operations));
        let changes = [in_process, snoozed, succeeded, queued, spent, bytes];
        Ok(Some((changes, answers, next_wake, first_expiry, ring_back, next_id, calls_made, of_calls)))
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

    /// Move up to `limit` snoozed queues that are due to the ring's back; return whether these were all, and their number.
    ///
    /// It stops before a queue whose wake needs more.
    fn wake_due(&self, py: Python<'_>, now: f64, limit: usize, moves: &Bound<'_, PyAny>) -> PyResult<(bool, usize)> {
        let mut lock = self.lock()?;
        self.wake(py, begun(&mut lock)?, now, limit, moves)
    }

    /// Answer a call of `Frontier.lease` without a `ttl`. If it is not answered, Python hands out the rest.
    fn lease(
        &self,
        py: Python<'_>,
        leased: &Bound<'_, PyList>,
        count: usize,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<u8> {
        let Ok(mut lock) = self.work.try_lock() else { return Ok(NOT_ANSWERED) };
        let Some(work) = lock.as_mut() else { return Ok(NOT_ANSWERED) };
        let Some(calls) = &mut work.calls else { return Ok(NOT_ANSWERED) };
        let Some(now) = calls.now(py)? else { return Ok(NOT_ANSWERED) };
        let deadline = now + work.terms.ttl;
        calls.until = calls.until.min(deadline);
        let mut cut_short = false;
        if now >= work.next_wake {
            let most = work.terms.most_due;
            let (all, moved) = self.wake(py, work, now, most, moves)?;
            cut_short = moved == most;
            if !all && !cut_short {
                return Ok(NOT_ANSWERED);
            }
        }
        if self.turns(py, work, leased, count, deadline, now)? {
            let inactive = self.parts.counters.bind(py).getattr(intern!(py, "inactive"))?;
            if leased.is_empty() || inactive.is_truthy()? {
                return Ok(NOT_ANSWERED);
            }
        } else if leased.len() < count {
            return Ok(NOT_ANSWERED);
        }
        let answer = self.leave(py, work, leased.len())?;
        Ok(if cut_short { CUT_SHORT } else { answer })
    }

    /// Answer a call of `Frontier.finish` of a success without links; `details` are None for a lease alone.
    #[pyo3(signature = (lease, moves, details = None))]
    fn finish(
        &self,
        py: Python<'_>,
        lease: &Bound<'_, PyAny>,
        moves: &Bound<'_, PyAny>,
        details: Option<Details<'_>>,
    ) -> PyResult<u8> {
        let Ok(mut lock) = self.work.try_lock() else { return Ok(NOT_ANSWERED) };
        let Some(work) = lock.as_mut() else { return Ok(NOT_ANSWERED) };
        let Some(calls) = &mut work.calls else { return Ok(NOT_ANSWERED) };
        if !lease.get_type().is(&self.parts.lease) || work.terms.queued + work.totals.queued <= 1 {
            return Ok(NOT_ANSWERED);
        }
        let ending = match &details {
            None => Some(Ending::default()),
            Some(details) => Ending::read(details)?,
        };
        let Some(ending) = ending else { return Ok(NOT_ANSWERED) };
        let Some(now) = calls.now(py)? else { return Ok(NOT_ANSWERED) };
        let latest = now + work.terms.longest_delay;
        let lease_id = lease.getattr(intern!(py, "id"))?;
        if !lease_id.is_exact_instance_of::<PyInt>() {
            return Ok(NOT_ANSWERED);
        }
        if self.end_one(py, work, &lease_id, now, &ending, latest, moves)? != Ended::Now {
            return Ok(NOT_ANSWERED);
        }
        self.leave(py, work, 1)
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
        for item in items.iter() {
            let Some(ending) = self.ending(item)? else { return Ok((0, NOT_ANSWERED)) };
            endings.push(ending);
        }
        let Some(now) = calls.now(py)? else { return Ok((0, NOT_ANSWERED)) };
        let latest = now + work.terms.longest_delay;
        for (place, (lease, id, ending)) in endings.iter().enumerate() {
            match self.end_one(py, work, id, now, ending, latest, moves)? {
                Ended::Now => {}
                Ended::Late => late.append(lease)?,
                Ended::Left => {
                    if let Some(calls) = &mut work.calls {
                        calls.operations += place;
                    }
                    return Ok((place, NOT_ANSWERED));
                }
            }
        }
        Ok((endings.len(), self.leave(py, work, endings.len())?))
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
            match self.end_one(py, work, &id, now, &ending, latest, moves)? {
                Ended::Now => {}
                Ended::Late => late.append(lease)?,
                Ended::Left => return Ok(place),
            }
        }
        Ok(items.len())
    }
}

/// A lease, its id, and how it ends.
type Item<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Ending);

fn begun(work: &mut Option<Work>) -> PyResult<&mut Work> {
    work.as_mut().ok_or_else(|| PyRuntimeError::new_err("a call of the kernel without `begin`"))
}

impl Turns {
    /// Read a Lease, or a Finish of one; None if it needs Python, to be refused or ended.
    fn ending<'py>(&self, item: Bound<'py, PyAny>) -> PyResult<Option<Item<'py>>> {
        let py = item.py();
        let is_lease = |item: &Bound<'_, PyAny>| item.get_type().is(&self.parts.lease);
        let (lease, ending) = if is_lease(&item) {
            (item, Some(Ending::default()))
        } else if item.get_type().is(&self.parts.finish) {
            (item.getattr(intern!(py, "lease"))?, Ending::of(&item, &self.parts.success)?)
        } else {
            return Ok(None);
        };
        if !is_lease(&lease) {
            return Ok(None);
        }
        let id = lease.getattr(intern!(py, "id"))?;
        Ok(ending.filter(|_| id.is_exact_instance_of::<PyInt>()).map(|ending| (lease, id, ending)))
    }

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
        let dirty = self.parts.dirty.bind(py).len();
        let ended = self.parts.attempts.bind(py).borrow().len();
        let is_due = match &mut work.calls {
            Some(calls) => calls.leave(py, operations, dirty)?,
            None => true,
        };
        let is_over = work.terms.queued + work.totals.queued <= 0;
        Ok(answered(is_due || is_over || work.has_read || ended >= self.most_ended))
    }

    /// Hand out up to `count` URIs into a list; return whether the ring is used up.
    fn turns(
        &self,
        py: Python<'_>,
        work: &mut Work,
        leased: &Bound<'_, PyList>,
        count: usize,
        deadline: f64,
        now: f64,
    ) -> PyResult<bool> {
        let (parts, limits, first_id) = (&self.parts, &work.limits, work.next_id);
        let expires = PyFloat::new(py, deadline);
        let (mut ring, mut used_up) = (parts.ring.bind(py).borrow_mut(), false);
        for lease_id in first_id..first_id + count as u64 {
            let Some(id) = ring.first() else {
                used_up = true;
                break;
            };
            let queue_id = id.into_pyobject(py)?;
            let found = self.queue(py, queue_id.as_any(), &mut work.has_read)?;
            {
                let queue = found.borrow();
                if queue.revision != limits.revision
                    || queue.balance_replenish_amount <= 0  // with the next, copies `budgets.must_retire`
                    || is_over_total(queue.expenditure, queue.total_budget, limits.reached)
                    || (queue.out > 0 && !may_lease(&queue, limits))
                {
                    break;
                }
            }
            let in_memory = parts.ahead.borrow(py).first(py, id);
            let record = match in_memory {
                Some(record) => Some(record),
                None => parts.read.bind(py).call1((&queue_id,))?.extract::<Option<Record>>()?,
            };
            let Some((key, value)) = record else { break }; // all of it is out
            let (key, value) = (key.bind(py), value.bind(py));
            let mut queue = found.borrow_mut();
            let Some((cost, amount, url)) = self.plain(py, &queue, key.as_bytes(), value.as_bytes()) else { break };
            let uri = parts.uri.bind(py).call((&url,), Some(cost.named.bind(py)))?;
            let lease_id = lease_id.into_pyobject(py)?;
            let one = self.one.bind(py);
            let of_lease =
                (&lease_id, queue.queue.bind(py), uri, cost.cost.bind(py), &expires, one, one, &queue_id, key);
            let lease = parts.lease.bind(py).call1(of_lease)?;
            parts.dirty.bind(py).add(&queue_id)?;
            parts.taken.bind(py).add(key)?;
            parts.out.bind(py).set_item(&lease_id, &lease)?;
            leased.append(&lease)?;
            parts.ahead.borrow_mut(py).drop_first(id);
            ring.take_front();
            queue.out += 1;
            queue.reserved += amount;
            queue.last_leased = url.unbind();
            queue.last_lease_time = now as i64;
            work.next_id += 1;
            if limits.concurrency > 1 && may_lease(&queue, limits) {
                ring.push_back(id); // copies `Rotation.move`
                work.ring_back += 1;
                queue.position = work.ring_back;
            } else {
                queue.state = State::InProcess;
                work.totals.in_process += 1;
            }
        }
        if work.next_id > first_id {
            if work.calls_made.last().is_none_or(|(_, time)| *time != now) {
                work.calls_made.push((first_id, now)); // copies `Leases.made`
            }
            work.totals.first_expiry = work.totals.first_expiry.min(deadline);
        }
        Ok(used_up)
    }

    /// End a lease.
    #[allow(clippy::too_many_arguments)]
    fn end_one(
        &self,
        py: Python<'_>,
        work: &mut Work,
        lease_id: &Bound<'_, PyAny>,
        now: f64,
        ending: &Ending,
        latest: f64,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<Ended> {
        let out = self.parts.out.bind(py);
        let Some(mine) = out.get_item(lease_id)? else { return Ok(Ended::Late) };
        let key = mine.getattr(intern!(py, "key"))?.cast_into::<PyBytes>()?;
        if key.as_bytes().get(DIRECTIVE) != Some(&NORMAL) || mine.getattr(intern!(py, "landed"))?.is_truthy()? {
            return Ok(Ended::Left);
        }
        let queue_id = mine.getattr(intern!(py, "queue_id"))?;
        let found = self.queue(py, &queue_id, &mut work.has_read)?;
        let mut queue = found.borrow_mut();
        if queue.revision != work.limits.revision {
            return Ok(Ended::Left); // the settings of a queue are those of its head
        }
        let cost: i64 = mine.getattr(intern!(py, "cost"))?.extract()?;
        out.del_item(lease_id)?;
        self.parts.dirty.bind(py).add(&queue_id)?;
        self.parts.removed.bind(py).append(&key)?;
        let rest = work.limits.politeness.rest(ending);
        queue.bytes += ending.size;
        if rest > 0.0 {
            let wake = Seconds::Float(now + rest); // copies `Finisher._rest`
            if wake.value() > queue.wake_time.value() {
                if queue.state == State::Snoozed {
                    drop(queue);
                    moves.call_method1(intern!(py, "set_wake"), (&found, wake))?;
                    work.next_wake = work.next_wake.min(wake.value());
                    queue = found.borrow_mut();
                } else {
                    queue.wake_time = wake;
                }
            } else if queue.rest.value() < wake.value() {
                let others = [queue.block, queue.paced_until, queue.closed_until];
                if others.iter().any(|until| wake.value() <= until.value()) {
                    queue.rest = wake;
                }
            }
        }
        queue.out -= 1;
        queue.reserved -= cost;
        queue.queued -= 1; // copies `PendingTable.remove`
        queue.balance -= cost; // copies `charges.charge`
        queue.expenditure += cost;
        queue.charges += 1;
        queue.last_cost = cost;
        match &work.charge {
            Some((before, ids)) if *before == cost => ids.bind(py).append(&queue_id)?,
            _ => {
                let ids = self.parts.charged.bind(py).get_item(cost)?.cast_into::<PyList>()?;
                ids.append(&queue_id)?;
                work.charge = Some((cost, ids.unbind()));
            }
        }
        if ending.has_details {
            self.remember(py, work, &mine, queue.id as u32, ending)?;
        }
        let state = queue.state;
        let totals = &mut work.totals;
        totals.succeeded += 1;
        totals.spent += cost;
        totals.bytes += ending.size;
        totals.queued -= i64::from(state.is_queued());
        let after = after_finish(&mut queue, &work.limits, now);
        if after == state {
            return Ok(Ended::Now);
        }
        if state == State::InProcess && after == State::Ready {
            totals.in_process -= 1; // copies `Rotation.move`
            work.ring_back += 1;
            queue.position = work.ring_back;
            queue.state = State::Ready;
            self.parts.ring.bind(py).borrow_mut().push_back(queue.id as u32);
        } else if state == State::InProcess && after == State::Snoozed && queue.wake_time.value() <= latest {
            let wake_time = queue.wake_time.value(); // copies `Rotation.snooze`
            let row = PyBytes::new(py, &timed(wake_time, queue.id as u32));
            let snoozed = moves.getattr(intern!(py, "snoozed"))?;
            snoozed.call_method1(intern!(py, "put"), (row, PyBytes::new(py, b"")))?;
            queue.state = State::Snoozed;
            totals.in_process -= 1;
            totals.snoozed += 1;
            work.next_wake = work.next_wake.min(wake_time);
        } else {
            drop(queue);
            let counters = self.parts.counters.bind(py);
            counters.setattr(intern!(py, "ring_back"), work.ring_back)?;
            moves.call_method1(intern!(py, "move"), (&found, after, now))?;
            work.ring_back = counters.getattr(intern!(py, "ring_back"))?.extract()?;
            work.terms.queued = counters.getattr(intern!(py, "queued"))?.extract()?;
            work.limits.best_waiting = moves.getattr(intern!(py, "best_waiting"))?.extract()?;
            work.next_wake = work.next_wake.min(moves.getattr(intern!(py, "next_wake"))?.extract()?);
        }
        Ok(Ended::Now)
    }

    /// Note an attempt that ended with details: copies `History.ended`.
    fn remember(
        &self,
        py: Python<'_>,
        work: &mut Work,
        lease: &Bound<'_, PyAny>,
        queue: u32,
        ending: &Ending,
    ) -> PyResult<()> {
        let links = self.parts.links.bind(py);
        let (mut found, mut new, mut own) = (0, 0, 0);
        if !links.is_empty() {
            let lease_id = lease.getattr(intern!(py, "id"))?;
            if let Some(of_page) = links.get_item(&lease_id)? {
                (found, new, own) = of_page.extract()?;
                links.del_item(&lease_id)?;
            }
        }
        let is_revisit = || lease.getattr(intern!(py, "uri"))?.getattr(intern!(py, "force"))?.is_truthy();
        let answer = ending.answer();
        if let Ok(class) = usize::try_from(answer) {
            work.totals.answers[class] += 1;
        }
        self.parts.attempts.bind(py).borrow_mut().push(Attempt {
            queue,
            kind: SUCCESS,
            seconds: ending.fetch_seconds,
            links: found,
            new,
            own,
            size: ending.size,
            answer,
            error: String::new(),
            digest: ending.digest(is_revisit)?,
        });
        Ok(())
    }

    /// Move the first due snoozed queues to the ring's back, in the order of their rows: copies `Rotation.wake_due`.
    /// Returns whether these were all that are due, and their number.
    fn wake(
        &self,
        py: Python<'_>,
        work: &mut Work,
        now: f64,
        limit: usize,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<(bool, usize)> {
        let cursor = moves.getattr(intern!(py, "snoozed"))?;
        let mut ring = self.parts.ring.bind(py).borrow_mut();
        let mut there = cursor.call_method1(intern!(py, "set_range"), (PyBytes::new(py, FIRST),))?.is_truthy()?;
        let mut moved = 0;
        while there {
            let key = cursor.call_method0(intern!(py, "key"))?.cast_into::<PyBytes>()?;
            let Some((wake_time, id)) = timed_of(key.as_bytes()) else { return Ok((false, moved)) };
            work.next_wake = wake_time;
            if wake_time > now {
                return Ok((true, moved));
            }
            if moved == limit {
                return Ok((false, moved));
            }
            let found = self.queue(py, id.into_pyobject(py)?.as_any(), &mut work.has_read)?;
            let mut queue = found.borrow_mut();
            if queue.state != State::Snoozed || queue.out > 0 || queue.wake_time.value() != wake_time {
                return Ok((false, moved));
            }
            self.parts.dirty.bind(py).add(id)?;
            cursor.call_method0(intern!(py, "delete"))?; // it is at the next row then
            there = !cursor.call_method0(intern!(py, "key"))?.cast_into::<PyBytes>()?.as_bytes().is_empty();
            work.totals.snoozed -= 1;
            work.ring_back += 1;
            queue.position = work.ring_back;
            queue.state = State::Ready;
            ring.push_back(id);
            moved += 1;
        }
        work.next_wake = f64::INFINITY;
        Ok((true, moved))
    }

    /// Return the record of a queue, to be changed.
    fn queue<'py>(
        &self,
        py: Python<'py>,
        queue_id: &Bound<'py, PyAny>,
        has_read: &mut bool,
    ) -> PyResult<Bound<'py, LiveQueue>> {
        let found = match self.parts.cache.bind(py).get_item(queue_id)? {
            Some(queue) => queue,
            None => {
                *has_read = true;
                self.parts.get.bind(py).call1((queue_id,))?
            }
        };
        found.cast_into::<LiveQueue>().map_err(PyErr::from)
    }

    /// Return cost and URL of a pending record without anything else: `uri_values.restore_pending`.
    fn plain<'py>(
        &self,
        py: Python<'py>,
        queue: &LiveQueue,
        key: &[u8],
        value: &[u8],
    ) -> Option<(&Cost, i64, Bound<'py, PyString>)> {
        let scheme = self.schemes[usize::from(*value.first()?)].as_str();
        if scheme.is_empty() || key.len() != KEY || key[KIND] != self.normal {
            return None;
        }
        let amount = u32::from_be_bytes(key[COST].try_into().ok()?);
        let cost = self.costs.get(amount as usize)?;
        let (host, rest) = (queue.queue.bind(py).to_str().ok()?, std::str::from_utf8(&value[1..]).ok()?);
        let mut url = String::with_capacity(scheme.len() + host.len() + rest.len());
        url.push_str(scheme);
        url.push_str(host);
        url.push_str(rest);
        Some((cost, i64::from(amount), PyString::new(py, &url)))
    }
}

/// The key of a queue in the table `snoozed`: `storage/keys.py`, `timed`.
fn timed(wake_time: f64, queue_id: u32) -> [u8; 12] {
    let mut row = [0; 12];
    row[..8].copy_from_slice(&wake_time.to_be_bytes());
    row[8..].copy_from_slice(&queue_id.to_be_bytes());
    row
}

fn timed_of(row: &[u8]) -> Option<(f64, u32)> {
    let (wake_time, queue_id) = row.split_first_chunk::<8>()?;
    Some((f64::from_be_bytes(*wake_time), u32::from_be_bytes(queue_id.try_into().ok()?)))
}

/// Delete the records of some keys of a table, in the order of keys: the next key often follows the one deleted.
///
/// The three functions are those of a cursor: its key, a search for a key, and the deletion of the record where it is.
#[pyfunction]
pub fn delete_all(
    removed: &Bound<'_, PyList>,
    at: &Bound<'_, PyAny>,
    seek: &Bound<'_, PyAny>,
    delete: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let mut keys: Vec<Bound<'_, PyBytes>> = removed.iter().map(|key| key.cast_into()).collect::<Result<_, _>>()?;
    keys.sort_unstable_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
    for key in keys {
        if at.call0()?.cast::<PyBytes>()?.as_bytes() == key.as_bytes() || seek.call1((&key,))?.is_truthy()? {
            delete.call0()?;
        }
    }
    Ok(())
}
