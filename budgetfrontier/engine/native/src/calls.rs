//! What calls of a frontier look at, each time: `engine/guard.py` (Guard.enter, now and leave) is the definition.

use std::thread::{self, ThreadId};

use pyo3::exceptions::PyException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

/// What holds for the calls of one thread, as long as they are all plain ones.
pub struct Calls {
    thread: ThreadId,
    clock: Py<PyAny>,
    monotonic: Py<PyAny>,
    skew: f64,
    /// The time of the last call.
    pub latest: f64,
    /// The last time at which the clock need not be looked at, and that from which on more has to be done first.
    horizon: f64,
    pub until: f64,
    /// When a commit is due, in monotonic time.
    next_tick: f64,
    /// Operations until one is due.
    most: usize,
    /// Those that there have been.
    pub operations: usize,
    /// Queues that may have changed before one is due.
    most_dirty: usize,
}

type Clocks = (Py<PyAny>, Py<PyAny>, f64, f64, f64);
type Ends = (f64, f64, usize, usize);
pub type Given = (Clocks, Ends);

impl Calls {
    /// Take the fields in their order: clocks, and what ends the calls.
    pub fn new((clocks, ends): Given) -> Self {
        let (clock, monotonic, skew, latest, horizon) = clocks;
        let (until, next_tick, most, most_dirty) = ends;
        let (thread, operations) = (thread::current().id(), 0);
        Self { thread, clock, monotonic, skew, latest, horizon, until, next_tick, most, operations, most_dirty }
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.clock)?;
        visit.call(&self.monotonic)
    }

    /// Return the time; None if it is another thread's call, or more has to be done first.
    pub fn now(&mut self, py: Python<'_>) -> PyResult<Option<f64>> {
        if thread::current().id() != self.thread {
            return Ok(None);
        }
        let now = match self.clock.bind(py).call0().and_then(|now| now.extract::<f64>()) {
            Ok(now) => now + self.skew,
            Err(error) if error.is_instance_of::<PyException>(py) => return Ok(None), // Python reads it again
            Err(error) => return Err(error),
        };
        if !(self.latest <= now && now <= self.horizon && now < self.until) {
            return Ok(None);
        }
        self.latest = now;
        Ok(Some(now))
    }

    /// Count operations, and return whether a commit is due, or memory is full, as far as that shows here.
    pub fn leave(&mut self, py: Python<'_>, operations: usize, dirty: usize) -> PyResult<bool> {
        self.operations += operations;
        if self.operations >= self.most || dirty >= self.most_dirty {
            return Ok(true);
        }
        Ok(self.monotonic.bind(py).call0()?.extract::<f64>()? >= self.next_tick)
    }
}
