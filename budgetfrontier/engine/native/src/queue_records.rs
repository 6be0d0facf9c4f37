//! The records of queues in memory, and which of them have changed: `cache` and `dirty` of
//! `engine/queue_cache.py` (class QueueCache), a dict and a set.

use std::collections::{HashMap, HashSet, VecDeque};

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};

use crate::hashing::ByHash;
use crate::live_queue::LiveQueue;

/// Records by id, in the order in which they came. O(1) for each.
#[pyclass(module = "budgetfrontier.engine.native")]
#[derive(Default)]
pub struct QueueRecords {
    records: HashMap<u32, Py<LiveQueue>, ByHash>,
    order: VecDeque<u32>,
}

impl QueueRecords {
    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn find<'py>(&self, py: Python<'py>, id: u32) -> Option<Bound<'py, LiveQueue>> {
        self.records.get(&id).map(|queue| queue.bind(py).clone())
    }

    pub fn insert(&mut self, id: u32, queue: Py<LiveQueue>) {
        if self.records.insert(id, queue).is_none() {
            self.order.push_back(id);
        }
    }
}

#[pymethods]
impl QueueRecords {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self) -> usize {
        self.len()
    }

    fn __contains__(&self, id: u32) -> bool {
        self.records.contains_key(&id)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, id: u32) -> PyResult<Bound<'py, LiveQueue>> {
        self.find(py, id).ok_or_else(|| PyKeyError::new_err(id))
    }

    fn __setitem__(&mut self, id: u32, queue: Py<LiveQueue>) {
        self.insert(id, queue);
    }

    /// Drop so many records, those that came first.
    fn drop_oldest(&mut self, number: usize) {
        for id in self.order.drain(..number.min(self.order.len())) {
            self.records.remove(&id);
        }
    }

    fn get<'py>(&self, py: Python<'py>, id: u32) -> Option<Bound<'py, LiveQueue>> {
        self.find(py, id)
    }
}

/// Ids of queues. O(1) for each.
#[pyclass(module = "budgetfrontier.engine.native")]
#[derive(Default)]
pub struct QueueIds {
    ids: HashSet<u32, ByHash>,
}

impl QueueIds {
    pub fn insert(&mut self, id: u32) {
        self.ids.insert(id);
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn sorted(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.ids.iter().copied().collect();
        ids.sort_unstable();
        ids
    }
}

#[pymethods]
impl QueueIds {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self) -> usize {
        self.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.sorted())?.try_iter()
    }

    fn __contains__(&self, id: u32) -> bool {
        self.ids.contains(&id)
    }

    fn add(&mut self, id: u32) {
        self.insert(id);
    }

    fn clear(&mut self) {
        self.ids.clear();
    }
}
