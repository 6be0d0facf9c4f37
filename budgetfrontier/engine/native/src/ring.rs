//! The ring of READY queues. `engine/ring.py` is the definition.

use std::collections::{HashMap, HashSet, VecDeque};

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};

/// Entries of queues that left: beyond this, they are at most a quarter of all.
const MOST_GONE: usize = 1 << 10;

/// The ids of the READY queues in the order of their turns, each once. O(1) for every change, on average.
#[pyclass(module = "budgetfrontier.engine.native")]
pub struct Ring {
    /// In their order, with entries of queues that have left. Of those of one id, the last is the valid one, unless the
    /// queue joined at the front.
    ids: VecDeque<u32>,
    /// The number of entries of queues that have left, for each id that has some, and the sum of them.
    gone: HashMap<u32, usize>,
    number: usize,
    joined_first: HashSet<u32>,
}

impl Ring {
    /// Return the queue with the next turn, if there is one.
    pub fn first(&mut self) -> Option<u32> {
        loop {
            let id = *self.ids.front()?;
            if self.number == 0 || self.joined_first.contains(&id) || !self.gone.contains_key(&id) {
                return Some(id);
            }
            self.ids.pop_front();
            self.forget(id);
        }
    }

    /// Remove the queue that `first` has returned.
    pub fn take_front(&mut self) {
        if let Some(id) = self.ids.pop_front()
            && self.number > 0
        {
            self.joined_first.remove(&id);
        }
    }

    pub fn push_back(&mut self, id: u32) {
        self.ids.push_back(id);
    }

    fn forget(&mut self, id: u32) {
        self.number -= 1;
        match self.gone.get_mut(&id) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.gone.remove(&id);
            }
        }
    }

    fn valid(&self) -> Vec<u32> {
        let mut met: HashMap<u32, usize> = HashMap::new();
        let is_valid = |id: &u32| match self.gone.get(id) {
            None => true,
            Some(gone) => {
                let place = met.entry(*id).or_insert(0);
                *place += 1;
                *place == if self.joined_first.contains(id) { 1 } else { gone + 1 }
            }
        };
        self.ids.iter().copied().filter(is_valid).collect()
    }
}

#[pymethods]
impl Ring {
    #[new]
    #[pyo3(signature = (ids = None))]
    fn new(ids: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let mut found = VecDeque::new();
        if let Some(ids) = ids {
            for id in ids.try_iter()? {
                found.push_back(id?.extract()?);
            }
        }
        Ok(Self { ids: found, gone: HashMap::new(), number: 0, joined_first: HashSet::new() })
    }

    fn __len__(&self) -> usize {
        self.ids.len() - self.number
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.valid())?.try_iter()
    }

    /// Join at the back.
    fn append(&mut self, queue_id: u32) {
        self.push_back(queue_id);
    }

    /// Join at the front.
    fn appendleft(&mut self, queue_id: u32) {
        self.ids.push_front(queue_id);
        if self.gone.contains_key(&queue_id) {
            self.joined_first.insert(queue_id);
        }
    }

    /// Return the queue with the next turn; there must be one.
    fn front(&mut self) -> PyResult<u32> {
        self.first().ok_or_else(|| PyIndexError::new_err("the ring is empty"))
    }

    /// Remove a queue from any place in the ring.
    fn remove(&mut self, queue_id: u32) -> PyResult<()> {
        let front = *self.ids.front().ok_or_else(|| PyIndexError::new_err("the ring is empty"))?;
        let joined_first = self.joined_first.remove(&queue_id);
        if front == queue_id && (joined_first || !self.gone.contains_key(&queue_id)) {
            self.ids.pop_front();
            return Ok(());
        }
        *self.gone.entry(queue_id).or_insert(0) += 1;
        self.number += 1;
        if self.number > MOST_GONE && self.number * 4 > self.ids.len() {
            self.ids = self.valid().into();
            self.gone.clear();
            self.joined_first.clear();
            self.number = 0;
        }
        Ok(())
    }

    /// Give memory back that a longer ring has left.
    fn settle(&mut self) {
        if self.ids.capacity() > 4 * (self.ids.len() + MOST_GONE) {
            self.ids.shrink_to(2 * (self.ids.len() + MOST_GONE));
        }
    }
}
