//! The ends of leases.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use super::Turns;
use super::limits::after_finish;
use super::links::Counted;
use super::work::Work;
use crate::ended_attempts::{Attempt, SUCCESS};
use crate::endings::Ending;
use crate::fields::{Seconds, State};
use crate::leases_out::Mine;

/// The directive of URIs that are neither seeds nor prerequisites.
const NORMAL: u8 = 3;

/// How the end of a lease went.
#[derive(PartialEq)]
pub enum Ended {
    Now,
    /// The lease had ended before.
    Late,
    /// It needs more: nothing was done.
    Left,
}

/// A lease, its id, and how it ends.
pub type Item<'py> = (Bound<'py, PyAny>, i64, Ending);

/// Return the id of a lease; None if it is no whole number, or one too large for any.
pub(super) fn id_of(lease: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let id = lease.getattr(intern!(lease.py(), "id"))?;
    Ok(id.cast_exact::<PyInt>().ok().and_then(|id| id.extract().ok()))
}

impl Turns {
    /// Read a Lease, or a Finish of one; None if it needs Python, to be refused or ended.
    pub(super) fn ending<'py>(&self, item: Bound<'py, PyAny>) -> PyResult<Option<Item<'py>>> {
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
        let id = id_of(&lease)?;
        Ok(ending.zip(id).map(|(ending, id)| (lease, id, ending)))
    }

    /// End a lease.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn end_one(
        &self,
        py: Python<'_>,
        work: &mut Work,
        lease_id: i64,
        now: f64,
        ending: &Ending,
        latest: f64,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<Ended> {
        let out = self.parts.out.bind(py);
        let Some(mine) = out.borrow().find(py, lease_id)? else { return Ok(Ended::Late) };
        let Some(Mine { queue_id, key, cost: charged, landed }) = mine.filter(|mine| mine.key.directive() == NORMAL)
        else {
            return Ok(Ended::Left);
        };
        if ending.has_address && work.limits.addresses {
            return Ok(Ended::Left);
        }
        let found = self.queue(py, queue_id)?;
        if found.borrow().revision != work.limits.revision {
            return Ok(Ended::Left); // the settings of a queue are those of its head
        }
        let links = match &ending.links {
            None => None,
            Some(given) => {
                let lease = out.get_item(lease_id)?;
                let Some(links) = self.read_links(py, work, &lease, given.bind(py), moves)? else {
                    return Ok(Ended::Left);
                };
                Some(links)
            }
        };
        let mut queue = found.borrow_mut();
        let cost = i64::from(charged);
        let Some(lease) = out.borrow_mut().remove(lease_id) else { return Ok(Ended::Late) };
        let lease = lease.bind(py);
        let settings = work.limits.effective.borrow_mut(py).of_lease(&queue, lease)?;
        self.parts.dirty.bind(py).borrow_mut().insert(queue_id);
        self.parts.taken.bind(py).borrow_mut().put_away(key);
        let rest = if landed { 0.0 } else { settings.politeness.rest(ending, self.parts.random.bind(py))? };
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
        let counted = match links {
            None => None,
            Some(links) => {
                drop(queue);
                let counted = self.admit(py, work, links, queue_id, now, moves)?;
                queue = found.borrow_mut();
                Some(counted)
            }
        };
        queue.out -= 1;
        queue.reserved -= cost;
        queue.landed -= i64::from(landed);
        queue.queued -= 1; // copies `PendingTable.remove`
        queue.balance -= cost; // copies `charges.charge`
        queue.expenditure += cost;
        queue.charges += 1;
        queue.last_cost = cost;
        self.parts.charged.bind(py).borrow_mut().count(charged, queue_id);
        if ending.has_details {
            let seconds = ending.fetch_seconds.filter(|_| !landed);
            self.remember(py, work, lease, (queue_id, seconds), ending, counted)?;
        }
        let totals = &mut work.totals;
        totals.succeeded += 1;
        totals.spent += cost;
        totals.bytes += ending.size;
        totals.queued -= i64::from(queue.state.is_queued());
        if work.limits.quotas {
            drop(queue);
            let of_success = (&found, lease, &settings.given, ending.size, !ending.is_known);
            self.parts.count_success.bind(py).call1(of_success)?;
            queue = found.borrow_mut();
        }
        if queue.group != 0 {
            let group = self.group(py, &queue)?;
            drop(queue);
            if landed {
                group.landed_ended()?;
            }
            self.ended_in_group(work, &group, cost, ending.size, rest, now, moves)?;
            queue = found.borrow_mut();
        }
        let (state, totals) = (queue.state, &mut work.totals);
        let after = after_finish(&mut queue, &settings, work.limits.best_waiting, now);
        if after == state {
            return Ok(Ended::Now);
        }
        if state == State::InProcess && after == State::Ready {
            totals.in_process -= 1; // copies `Rotation.move`
            work.ring_back += 1;
            queue.position = work.ring_back;
            queue.state = State::Ready;
            self.parts.ring.bind(py).borrow_mut().push_back(queue_id);
        } else if state == State::InProcess
            && after == State::Snoozed
            && queue.wake_time.value() <= latest
            && queue.overloaded_until.value() <= now
        {
            totals.in_process -= 1; // copies `Rotation.move`, where `Turns.move` has nothing to clip or forget
            self.snooze(py, work, &mut queue);
        } else {
            drop(queue);
            self.in_python(py, work, moves, || {
                moves.call_method1(intern!(py, "move"), (&found, after, now)).map(drop)
            })?;
        }
        Ok(Ended::Now)
    }

    /// Note an attempt that ended with details: copies `History.ended`.
    fn remember(
        &self,
        py: Python<'_>,
        work: &mut Work,
        lease: &Bound<'_, PyAny>,
        (queue, seconds): (u32, Option<f64>),
        ending: &Ending,
        counted: Option<Counted>,
    ) -> PyResult<()> {
        let links = self.parts.links.bind(py);
        let Counted { links: mut found, mut new, mut own } = counted.unwrap_or_default();
        if counted.is_none() && !links.is_empty() {
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
            seconds,
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
}
