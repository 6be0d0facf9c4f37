//! Turns of queues: the handing out of URIs, and the waking of snoozed queues.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyList, PyString};

use super::limits::{is_over_total, may_lease};
use super::work::Work;
use super::{Cost, Turns};
use crate::fields::{Seconds, State};
use crate::leases_out::Mine;
use crate::live_queue::LiveQueue;
use crate::overrides::QueueSettings;
use crate::read_ahead::ReadAhead;
use crate::records;
use crate::snoozed_rows::{self, First};
use crate::taken_keys::PendingKey;

/// The URI of a pending record, as it is leased: numbers of Python are beside it.
struct Head<'py> {
    uri: Bound<'py, PyAny>,
    url: Bound<'py, PyString>,
    amount: u32,
    cost: Bound<'py, PyAny>,
    attempt: Bound<'py, PyAny>,
    delivery: Bound<'py, PyAny>,
}

/// The length of the key of a URI without a precedence of its own: `storage/keys.py`, `pending`.
const KEY: usize = 21;
/// The parts of a key with directive and priority, and with the cost.
const KIND: std::ops::Range<usize> = 4..9;
const COST: std::ops::Range<usize> = 9..13;

/// What `ReadAhead::read` needs of `PendingTable.reading`: a cursor, a function, a share and the room for all runs.
type Reading = (Py<PyAny>, Py<PyAny>, usize, usize);

impl Turns {
    /// Hand out up to `count` URIs into a list; return whether the ring is used up.
    pub(super) fn turns(
        &self,
        py: Python<'_>,
        work: &mut Work,
        leased: &Bound<'_, PyList>,
        count: usize,
        deadline: f64,
        now: f64,
    ) -> PyResult<bool> {
        let (parts, paced, first_id) = (&self.parts, work.limits.paced, work.next_id);
        let effective = work.limits.effective.clone_ref(py);
        let mut effective = effective.borrow_mut(py);
        let expires = PyFloat::new(py, deadline);
        let (mut ring, mut used_up, mut reading) = (parts.ring.bind(py).borrow_mut(), false, None);
        for lease_id in first_id..first_id + count as i64 {
            let Some(id) = ring.first() else {
                used_up = true;
                break;
            };
            let found = self.queue(py, id)?;
            let in_memory = parts.ahead.borrow(py).first(py, id);
            let record = match in_memory {
                Some(record) => Some(record),
                None => {
                    let (cursor, walk, share, room) = match &reading {
                        Some(reading) => reading,
                        None => reading.insert(parts.reading.bind(py).call0()?.extract::<Reading>()?),
                    };
                    let (ahead, taken) = (parts.ahead.bind(py), parts.taken.bind(py));
                    ReadAhead::read(ahead, id, cursor.bind(py), taken, walk.bind(py), *share, *room)?
                }
            };
            let Some((key, value)) = record else { break }; // all of it is out
            let (key, value) = (key.bind(py), value.bind(py));
            let Some(place) = PendingKey::new(key.as_bytes()) else { break };
            let name = found.borrow().queue.clone_ref(py);
            let Some(head) = self.head(py, key, value, name.bind(py))? else { break };
            let Head { uri, url, amount, cost, attempt, delivery } = head;
            let mut queue = found.borrow_mut();
            let settings = effective.of_uri(&queue, &url, None)?;
            if queue.revision != work.limits.revision
                || queue.balance_replenish_amount <= 0  // with the next, copies `budgets.must_retire`
                || is_over_total(queue.expenditure, queue.total_budget, settings.reached)
                || (work.limits.guarded && queue.group_revision != work.limits.revision)
                || (queue.max_completed > 0 && self.may_have_completed(py, &queue))
                || (paced && queue.overloaded_until.value() > now) // `Turns.move` may forget that
                || (queue.out > 0 && !may_lease(&queue, &settings))
            {
                break;
            }
            let group = if work.limits.guarded && queue.group != 0 { Some(self.group(py, &queue)?) } else { None };
            if let Some(group) = &group
                && !group.is_open(work.limits.reached, now)?
            {
                break;
            }
            if work.limits.quotas {
                drop(queue);
                if parts.quota_reached.bind(py).call1((&found, &uri, &settings.given))?.is_truthy()? {
                    break;
                }
                queue = found.borrow_mut();
            }
            let of_lease = (lease_id, name, uri, cost, &expires, delivery, attempt, id, key);
            let lease = parts.lease.bind(py).call1(of_lease)?;
            leased.append(&lease)?;
            parts.dirty.bind(py).borrow_mut().insert(id);
            parts.taken.bind(py).borrow_mut().take(place);
            parts.out.bind(py).borrow_mut().insert(
                lease_id,
                lease.unbind(),
                Mine { queue_id: id, key: place, cost: amount, landed: false },
            );
            parts.ahead.borrow_mut(py).drop_first(id);
            ring.take_front();
            queue.out += 1;
            queue.reserved += i64::from(amount);
            queue.last_leased = url.unbind();
            queue.last_lease_time = now as i64;
            work.next_id += 1;
            if let Some(group) = group {
                group.leased(i64::from(amount))?;
            }
            if paced && rest_after_lease(&mut queue, &settings, now) {
                self.snooze(py, work, &mut queue);
            } else if settings.concurrency > 1 && may_lease(&queue, &settings) {
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
                work.calls_made.push((first_id, now)); // copies `Leases.add`
            }
            work.totals.first_expiry = work.totals.first_expiry.min(deadline);
        }
        Ok(used_up)
    }

    /// Move the first due snoozed queues to the ring's back, in the order of their rows: copies `Rotation.wake_due`.
    /// Python moves those that need more. Returns how many were moved.
    pub(super) fn wake(
        &self,
        py: Python<'_>,
        work: &mut Work,
        now: f64,
        limit: usize,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let cursor = moves.getattr(intern!(py, "snoozed"))?;
        for moved in 0..limit {
            let first = self.parts.snoozed.borrow_mut(py).lowest(&cursor)?;
            let Some(first) = first else {
                work.next_wake = f64::INFINITY;
                return Ok(moved);
            };
            if let First::Row(row) = first {
                let (wake_time, id) = snoozed_rows::read(row);
                work.next_wake = wake_time;
                if wake_time > now {
                    return Ok(moved);
                }
                let found = self.queue(py, id)?;
                let mut queue = found.borrow_mut();
                if queue.state == State::Snoozed && queue.out == 0 && queue.wake_time.value() == wake_time {
                    self.parts.dirty.borrow_mut(py).insert(id);
                    self.parts.snoozed.borrow_mut(py).remove(row);
                    work.totals.snoozed -= 1;
                    work.ring_back += 1;
                    queue.position = work.ring_back;
                    queue.state = State::Ready;
                    self.parts.ring.borrow_mut(py).push_back(id);
                    continue;
                }
            }
            self.in_python(py, work, moves, || moves.call_method1(intern!(py, "wake_first"), (now,)).map(drop))?;
        }
        Ok(limit)
    }

    /// Return whether a queue may have completed as many URLs as its limit allows: copies the question of
    /// `Turns._complete`.
    fn may_have_completed(&self, py: Python<'_>, queue: &LiveQueue) -> bool {
        queue.completed + self.parts.taken.bind(py).borrow().removed() as i64 >= queue.max_completed
    }

    /// Return the URI of a pending record, whatever it has beside its URL: `restore_pending`, `tries`. None if it has a
    /// label, of which Python takes note (`Tables.note_label`).
    fn head<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyBytes>,
        value: &Bound<'py, PyBytes>,
        queue: &Bound<'py, PyString>,
    ) -> PyResult<Option<Head<'py>>> {
        if let Some((amount, cost)) = self.cost(key.as_bytes())
            && let Some((url, page)) = records::url(value.as_bytes(), queue.to_str()?)
        {
            let (url, uri, set) = (PyString::new(py, &url), cost.uri.bind(py).call0()?, self.parts.set.bind(py));
            set.call1((&uri, intern!(py, "url"), &url))?;
            if let Some((via, hops)) = page {
                set.call1((&uri, intern!(py, "via"), via))?;
                set.call1((&uri, intern!(py, "hops"), hops))?;
            }
            let (cost, one) = (cost.cost.bind(py).clone(), self.one.bind(py));
            return Ok(Some(Head { uri, url, amount, cost, attempt: one.clone(), delivery: one.clone() }));
        }
        let uri = self.parts.restore.bind(py).call1((key, value, queue))?;
        if !uri.getattr(intern!(py, "source"))?.is_none() {
            return Ok(None);
        }
        let Some((attempts, deliveries)) = records::tries(value.as_bytes()) else { return Ok(None) };
        let number = |tries: u16| (u32::from(tries) + 1).into_pyobject(py).map(Bound::into_any);
        let cost = uri.getattr(intern!(py, "cost"))?;
        Ok(Some(Head {
            url: uri.getattr(intern!(py, "url"))?.cast_into()?,
            amount: cost.extract()?,
            cost,
            attempt: number(attempts)?,
            delivery: number(deliveries)?,
            uri,
        }))
    }

    /// Return the cost of a pending record without a rank of its own, if it is a low one.
    fn cost(&self, key: &[u8]) -> Option<(u32, &Cost)> {
        if key.len() != KEY || key[KIND] != self.normal {
            return None;
        }
        let amount = u32::from_be_bytes(key[COST].try_into().ok()?);
        Some((amount, self.costs.get(amount as usize)?))
    }
}

/// Let a queue wait for its interval; return whether it has to: copies `Turns.rest_after_lease`.
fn rest_after_lease(queue: &mut LiveQueue, settings: &QueueSettings, now: f64) -> bool {
    queue.served = Seconds::Float(now);
    let interval = queue.interval.map_or(settings.min_interval, Seconds::value);
    if interval <= 0.0 {
        return false;
    }
    queue.rest = Seconds::Whole(0);
    queue.paced_until = Seconds::Float(now + interval);
    queue.wake_time = queue.paced_until;
    true
}
