//! The limits of queues, and where they go after a lease or its end: rules of `rules/`, of plain queues.

use pyo3::prelude::*;

use crate::endings::Politeness;
use crate::live_queue::{LiveQueue, State};

/// What a queue may do depends on these settings, which are the same for all URIs.
#[derive(Default)]
pub struct Limits {
    pub concurrency: i64,
    pub reached: bool,
    pub revision: i64,
    pub best_waiting: i64,
    pub politeness: Politeness,
}

impl<'py> FromPyObject<'_, 'py> for Limits {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (concurrency, reached, revision, best_waiting, politeness) = given.extract()?;
        Ok(Self { concurrency, reached, revision, best_waiting, politeness })
    }
}

/// `budgets.is_over_total`.
pub fn is_over_total(spent: i64, total: i64, reached: bool) -> bool {
    total >= 0 && (if reached { spent >= total } else { spent > total })
}

/// `queue_states.may_lease`.
pub fn may_lease(queue: &LiveQueue, limits: &Limits) -> bool {
    if queue.out == 0 {
        return queue.queued > 0;
    }
    queue.out - queue.landed < limits.concurrency
        && queue.queued > queue.out
        && queue.balance > queue.reserved
        && !is_over_total(queue.expenditure + queue.reserved, queue.total_budget, limits.reached)
}

/// `queue_states.after_finish`, and for a queue that yields to a better precedence, its balance of 0.
pub fn after_finish(queue: &mut LiveQueue, limits: &Limits, now: f64) -> State {
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
