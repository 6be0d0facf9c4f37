//! The groups of queues in turns and at the ends of leases: `engine/group_turns.py` is the definition.
//!
//! Queues are parked, and go on, by Python.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::Turns;
use super::limits::is_over_total;
use super::work::Work;
use crate::live_queue::LiveQueue;

/// The record of a group, to be changed, and its limits in force: a LiveGroup and its GroupLimits.
pub struct Group<'py> {
    record: Bound<'py, PyAny>,
    limits: Bound<'py, PyAny>,
}

impl<'py> Group<'py> {
    fn number(&self, name: &Bound<'py, PyString>) -> PyResult<i64> {
        self.record.getattr(name)?.extract()
    }

    fn add(&self, name: &Bound<'py, PyString>, more: i64) -> PyResult<()> {
        self.record.setattr(name, self.number(name)? + more)
    }

    /// Return whether a group keeps none of its queues from a lease: copies `group_limits.state`, as far as OPEN.
    pub fn is_open(&self, reached: bool, now: f64) -> PyResult<bool> {
        let py = self.record.py();
        let limit = |name| self.limits.getattr(name);
        let is_ahead = |name| PyResult::Ok(self.record.getattr(name)?.extract::<f64>()? > now);
        if limit(intern!(py, "politeness"))?.is_truthy()? && is_ahead(intern!(py, "wake_time"))? {
            return Ok(false);
        }
        if limit(intern!(py, "max_bandwidth"))?.is_truthy()? && is_ahead(intern!(py, "busy_until"))? {
            return Ok(false);
        }
        if let Some(most) = limit(intern!(py, "max_in_flight"))?.extract::<Option<i64>>()?
            && self.number(intern!(py, "out"))? - self.number(intern!(py, "landed"))? >= most
        {
            return Ok(false);
        }
        let total: i64 = limit(intern!(py, "total_budget"))?.extract()?;
        if total < 0 {
            return Ok(true);
        }
        let spent = self.number(intern!(py, "expenditure"))?;
        if is_over_total(spent, total, reached) {
            return Ok(false);
        }
        let with_reserved = spent + self.number(intern!(py, "reserved"))?;
        Ok(!is_over_total(with_reserved, total, reached) || self.number(intern!(py, "out"))? == 0)
    }

    /// Count a URI that goes out: `GroupTurns.stops`.
    pub fn leased(&self, cost: i64) -> PyResult<()> {
        let py = self.record.py();
        self.add(intern!(py, "out"), 1)?;
        self.add(intern!(py, "reserved"), cost)
    }

    /// Count the end of a lease whose download was over: `GroupTurns.ended`.
    pub fn landed_ended(&self) -> PyResult<()> {
        self.add(intern!(self.record.py(), "landed"), -1)
    }
}

impl Turns {
    /// Return the group of a queue that is in one.
    pub(super) fn group<'py>(&self, py: Python<'py>, queue: &LiveQueue) -> PyResult<Group<'py>> {
        let found = match self.parts.groups.bind(py).get_item(queue.group)? {
            Some(found) => found,
            None => self.parts.limited.bind(py).call1((queue.group,))?,
        };
        let found = found.cast::<PyTuple>()?;
        Ok(Group { record: found.get_item(0)?, limits: found.get_item(1)? })
    }

    /// Count the end of a lease without bandwidth for a group, and let others of its queues go on: copies
    /// `GroupTurns.ended`.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn ended_in_group(
        &self,
        work: &mut Work,
        group: &Group<'_>,
        cost: i64,
        size: i64,
        rest: f64,
        now: f64,
        moves: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (py, record) = (moves.py(), &group.record);
        group.add(intern!(py, "expenditure"), cost)?;
        if size > 0 {
            group.add(intern!(py, "bytes"), size)?;
        }
        if rest > 0.0 {
            let wake_time = intern!(py, "wake_time");
            let until = now + rest;
            if until > record.getattr(wake_time)?.extract()? {
                record.setattr(wake_time, until)?;
            }
        }
        group.add(intern!(py, "out"), -1)?;
        group.add(intern!(py, "reserved"), -cost)?;
        if group.number(intern!(py, "parked"))? > 0 {
            self.in_python(py, work, moves, || moves.call_method1(intern!(py, "go_on"), (record, now)).map(drop))?;
        }
        Ok(())
    }
}
