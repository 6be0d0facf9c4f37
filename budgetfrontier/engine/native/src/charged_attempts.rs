//! The attempts that were charged to queues. `engine/charged_attempts.py` is the definition.

use std::collections::HashMap;

use pyo3::prelude::*;

use crate::hashing::ByHash;

/// Counts of attempts, by their cost and their queue. O(1) for each.
#[pyclass(module = "budgetfrontier.engine.native")]
#[derive(Default)]
pub struct ChargedAttempts {
    /// By cost and id of the queue, in one number.
    counts: HashMap<u64, u64, ByHash>,
}

impl ChargedAttempts {
    pub fn count(&mut self, cost: u32, queue_id: u32) {
        *self.counts.entry(u64::from(cost) << 32 | u64::from(queue_id)).or_default() += 1;
    }
}

#[pymethods]
impl ChargedAttempts {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Return the number of counts.
    fn __len__(&self) -> usize {
        self.counts.len()
    }

    /// Count an attempt.
    fn add(&mut self, cost: u32, queue_id: u32) {
        self.count(cost, queue_id);
    }

    /// Return the counts in order, each as cost, id of the queue and number of attempts, and forget them.
    fn drain(&mut self) -> Vec<(u64, u64, u64)> {
        let mut counts: Vec<_> = self.counts.drain().collect();
        counts.sort_unstable();
        counts.into_iter().map(|(key, times)| (key >> 32, key & u64::from(u32::MAX), times)).collect()
    }
}
