//! The limits of queues, and where they go after a lease or its end: rules of `rules/`, of plain queues.

use pyo3::prelude::*;

use crate::fields::State;
use crate::live_queue::LiveQueue;
use crate::overrides::{Effective, QueueSettings};

/// What turns and ends of leases look at beside the queue.
pub struct Limits {
    pub effective: Py<Effective>,
    /// Whether some setting has queues wait after a lease: `Turns.rest_after_lease`.
    pub paced: bool,
    /// Whether queues may be in groups.
    pub guarded: bool,
    /// Whether a total budget is spent when it is reached, without overrides: `GroupTable.reached`.
    pub reached: bool,
    /// Whether there are quotas: `Tallies.kinds`.
    pub quotas: bool,
    /// Whether the addresses of hosts are taken note of: `SettingsInForce.needs_addresses`.
    pub addresses: bool,
    pub revision: i64,
    pub best_waiting: i64,
}

impl<'py> FromPyObject<'_, 'py> for Limits {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (effective, paced, guarded, reached, quotas, addresses, revision, best_waiting) = given.extract()?;
        Ok(Self { effective, paced, guarded, reached, quotas, addresses, revision, best_waiting })
    }
}

/// `budgets.is_over_total`.
pub fn is_over_total(spent: i64, total: i64, reached: bool) -> bool {
    total >= 0 && (if reached { spent >= total } else { spent > total })
}

/// `queue_states.may_lease`.
pub fn may_lease(queue: &LiveQueue, settings: &QueueSettings) -> bool {
    if queue.out == 0 {
        return queue.queued > 0;
    }
    queue.out - queue.landed < settings.concurrency
        && queue.queued > queue.out
        && queue.balance > queue.reserved
        && !is_over_total(queue.expenditure + queue.reserved, queue.total_budget, settings.reached)
}

/// `queue_states.after_finish`, and for a queue that yields to a better precedence, its balance of 0.
pub fn after_finish(queue: &mut LiveQueue, settings: &QueueSettings, best_waiting: i64, now: f64) -> State {
    let state = queue.state;
    if state == State::Retired || is_over_total(queue.expenditure, queue.total_budget, settings.reached) {
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
    if best_waiting < queue.precedence {
        queue.balance = 0;
        return State::Inactive;
    }
    if queue.wake_time.value() > now {
        return State::Snoozed;
    }
    if queue.out > 0 && !may_lease(queue, settings) { State::InProcess } else { State::Ready }
}
