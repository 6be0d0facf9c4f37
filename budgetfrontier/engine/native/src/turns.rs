//! The turns of queues and the ends of leases, where nothing but budgets and waits has a say.
//!
//! `engine/turns.py` (Turns.lease) and `engine/finish_many.py` (BatchFinisher.end_successes) are the definition: they
//! do what is left here, and all of it where the kernel is not there.

use std::collections::HashMap;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySet, PyString, PyTuple};

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

/// What a queue may do depends on these settings, which are the same for all URIs.
struct Limits {
    concurrency: i64,
    reached: bool,
    revision: i64,
    best_waiting: i64,
}

impl<'py> FromPyObject<'_, 'py> for Limits {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (concurrency, reached, revision, best_waiting) = given.extract()?;
        Ok(Self { concurrency, reached, revision, best_waiting })
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
    out: Py<PyDict>,
    ring: Py<Ring>,
    charged: Py<PyAny>,
    /// Makes a Lease, and a CrawlUri.
    lease: Py<PyAny>,
    uri: Py<PyAny>,
}

/// Takes turns of queues, and ends leases.
#[pyclass(module = "budgetfrontier.engine.native")]
pub struct Turns {
    parts: Parts,
    /// By the first byte of a value; empty: it is no plain URL.
    schemes: Vec<String>,
    /// The part of a key before its cost, and costs from 0 on.
    normal: [u8; 5],
    costs: Vec<Cost>,
    one: Py<PyAny>,
}

#[pymethods]
impl Turns {
    #[new]
    #[pyo3(signature = (parts, *, schemes, normal, costs))]
    fn new(
        py: Python<'_>,
        parts: Parts,
        schemes: HashMap<u8, String>,
        normal: [u8; 5],
        costs: usize,
    ) -> PyResult<Self> {
        let of_cost = |cost: usize| -> PyResult<Cost> {
            let named = PyDict::new(py);
            named.set_item("cost", cost)?;
            Ok(Cost { cost: cost.into_pyobject(py)?.into_any().unbind(), named: named.unbind() })
        };
        let costs = (0..costs).map(of_cost).collect::<PyResult<_>>()?;
        let schemes = (0..=u8::MAX).map(|mark| schemes.get(&mark).cloned().unwrap_or_default()).collect();
        let one = 1i64.into_pyobject(py)?.into_any().unbind();
        Ok(Self { parts, schemes, normal, costs, one })
    }

    /// Hand out up to `count` URIs into a list, each queue in its turn, as long as a turn needs nothing else.
    ///
    /// Returns whether the ring is used up, the ring's last position then, and how many queues have joined it again.
    #[allow(clippy::too_many_arguments)]
    fn hand_out(
        &self,
        py: Python<'_>,
        leased: &Bound<'_, PyList>,
        count: usize,
        first_id: u64,
        deadline: &Bound<'_, PyAny>,
        when: i64,
        limits: Limits,
        mut ring_back: i64,
    ) -> PyResult<(bool, i64, i64)> {
        let mut in_ring = 0;
        let mut ring = self.parts.ring.bind(py).borrow_mut();
        for lease_id in first_id..first_id + count as u64 {
            let Some(id) = ring.first() else { return Ok((true, ring_back, in_ring)) };
            let queue_id = id.into_pyobject(py)?;
            let found = self.queue(py, queue_id.as_any())?;
            {
                let queue = found.borrow();
                if queue.revision != limits.revision
                    || queue.balance_replenish_amount <= 0  // with the next, copies `budgets.must_retire`
                    || is_over_total(queue.expenditure, queue.total_budget, limits.reached)
                    || (queue.out > 0 && !may_lease(&queue, &limits))
                {
                    break;
                }
            }
            let in_memory = self.parts.ahead.borrow(py).first(py, id);
            let record = match in_memory {
                Some(record) => Some(record),
                None => self.parts.read.bind(py).call1((&queue_id,))?.extract::<Option<Record>>()?,
            };
            let Some((key, value)) = record else { break }; // all of it is out
            let (key, value) = (key.bind(py), value.bind(py));
            let mut queue = found.borrow_mut();
            let Some((cost, amount, url)) = self.plain(py, &queue, key.as_bytes(), value.as_bytes()) else { break };
            let uri = self.parts.uri.bind(py).call((&url,), Some(cost.named.bind(py)))?;
            let lease_id = lease_id.into_pyobject(py)?;
            let one = self.one.bind(py);
            let parts = [
                lease_id.as_any().clone(),
                queue.queue.bind(py).as_any().clone(),
                uri,
                cost.cost.bind(py).clone(),
                deadline.clone(),
                one.clone(),
                one.clone(),
                queue_id.as_any().clone(),
                key.as_any().clone(),
            ];
            let lease = self.parts.lease.bind(py).call1(PyTuple::new(py, parts)?)?;
            self.parts.dirty.bind(py).add(&queue_id)?;
            self.parts.taken.bind(py).add(key)?;
            self.parts.out.bind(py).set_item(&lease_id, &lease)?;
            leased.append(&lease)?;
            self.parts.ahead.borrow_mut(py).drop_first(id);
            ring.take_front();
            queue.out += 1;
            queue.reserved += amount;
            queue.last_leased = url.unbind();
            queue.last_lease_time = when;
            if limits.concurrency > 1 && may_lease(&queue, &limits) {
                ring.push_back(id); // copies `Rotation.move`
                ring_back += 1;
                queue.position = ring_back;
                in_ring += 1;
            } else {
                queue.state = State::InProcess;
            }
        }
        Ok((false, ring_back, in_ring))
    }

    /// End leases from a place in their list on, all as successes without a reason. It ends before a lease that is no
    /// plain one.
    ///
    /// Their queues rest until `wake`, unless `each` has the time until which each of them rests (0: it does not), and
    /// the bytes received. `moves` is the PlainTurns of Python: it makes the moves that are no plain ones.
    ///
    /// Returns the fields of `Ended`, in order.
    #[allow(clippy::too_many_arguments)]
    fn end(
        &self,
        py: Python<'_>,
        leases: &Bound<'_, PyList>,
        start: usize,
        late: &Bound<'_, PyList>,
        removed: &Bound<'_, PyList>,
        now: f64,
        wake: Seconds,
        each: Option<Vec<(Seconds, i64)>>,
        latest: f64,
        mut limits: Limits,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<EndedFields> {
        let (out, charged) = (self.parts.out.bind(py), self.parts.charged.bind(py));
        let counters = moves.getattr(intern!(py, "counters"))?;
        let snoozed = moves.getattr(intern!(py, "snoozed"))?;
        let mut ended =
            Ended { place: start, ring_back: ring_back_of(&counters)?, first_wake: f64::INFINITY, ..Ended::default() };
        let mut charge: Option<(i64, Bound<'_, PyList>)> = None;
        for place in start..leases.len() {
            let given = leases.get_item(place)?;
            let lease_id = given.getattr(intern!(py, "id"))?;
            let Some(mine) = out.get_item(&lease_id)? else {
                late.append(given)?;
                ended.place += 1;
                continue;
            };
            let key = mine.getattr(intern!(py, "key"))?.cast_into::<PyBytes>()?;
            let directive = key.as_bytes().get(DIRECTIVE);
            if directive != Some(&NORMAL) || mine.getattr(intern!(py, "landed"))?.is_truthy()? {
                break;
            }
            let queue_id = mine.getattr(intern!(py, "queue_id"))?;
            let found = self.queue(py, &queue_id)?;
            let mut queue = found.borrow_mut();
            if queue.revision != limits.revision {
                break; // the settings of a queue are those of its head
            }
            let cost: i64 = mine.getattr(intern!(py, "cost"))?.extract()?;
            out.del_item(&lease_id)?;
            self.parts.dirty.bind(py).add(&queue_id)?;
            removed.append(&key)?;
            let (wake, size) = each.as_ref().map_or((wake, 0), |each| each[place - start]);
            queue.bytes += size;
            ended.bytes += size;
            if wake.value() > 0.0 {
                // copies `Finisher._rest`
                if wake.value() > queue.wake_time.value() {
                    if queue.state == State::Snoozed {
                        drop(queue);
                        moves.call_method1(intern!(py, "set_wake"), (&found, wake))?;
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
            match &charge {
                Some((before, ids)) if *before == cost => ids.append(&queue_id)?,
                _ => {
                    let ids = charged.get_item(cost)?.cast_into::<PyList>()?;
                    ids.append(&queue_id)?;
                    charge = Some((cost, ids));
                }
            }
            ended.place += 1;
            ended.count += 1;
            ended.spent += cost;
            let state = queue.state;
            ended.uncounted += i64::from(!state.is_queued());
            let after = after_finish(&mut queue, &limits, now);
            if after == state {
                continue;
            }
            if state == State::InProcess && after == State::Ready {
                ended.ring_back += 1; // copies `Rotation.move`
                ended.joined += 1;
                queue.position = ended.ring_back;
                queue.state = State::Ready;
                self.parts.ring.bind(py).borrow_mut().push_back(queue.id as u32);
            } else if state == State::InProcess && after == State::Snoozed && queue.wake_time.value() <= latest {
                let wake_time = queue.wake_time.value(); // copies `Rotation.snooze`
                let row = PyBytes::new(py, &timed(wake_time, queue.id as u32));
                snoozed.call1((row, PyBytes::new(py, b"")))?;
                queue.state = State::Snoozed;
                ended.snoozed += 1;
                ended.first_wake = ended.first_wake.min(wake_time);
            } else {
                drop(queue);
                counters.setattr(intern!(py, "ring_back"), ended.ring_back)?;
                moves.call_method1(intern!(py, "move"), (&found, after, now))?;
                ended.ring_back = ring_back_of(&counters)?;
                limits.best_waiting = moves.getattr(intern!(py, "best_waiting"))?.extract()?;
            }
        }
        let Ended { place, count, uncounted, spent, bytes, joined, snoozed, ring_back, first_wake } = ended;
        Ok((place, count, uncounted, spent, bytes, joined, snoozed, ring_back, first_wake))
    }
}

type EndedFields = (usize, i64, i64, i64, i64, i64, i64, i64, f64);

/// What the end of leases has changed.
#[derive(Default)]
struct Ended {
    /// The place of the first lease that is left.
    place: usize,
    count: i64,
    /// Those of queues whose URIs do not count among those queued.
    uncounted: i64,
    spent: i64,
    bytes: i64,
    /// Queues that have joined the ring, and that rest now.
    joined: i64,
    snoozed: i64,
    ring_back: i64,
    /// The earliest of their wake times.
    first_wake: f64,
}

impl Turns {
    /// Return the record of a queue, to be changed.
    fn queue<'py>(&self, py: Python<'py>, queue_id: &Bound<'py, PyAny>) -> PyResult<Bound<'py, LiveQueue>> {
        let found = match self.parts.cache.bind(py).get_item(queue_id)? {
            Some(queue) => queue,
            None => self.parts.get.bind(py).call1((queue_id,))?,
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

fn ring_back_of(counters: &Bound<'_, PyAny>) -> PyResult<i64> {
    counters.getattr(intern!(counters.py(), "ring_back"))?.extract()
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
