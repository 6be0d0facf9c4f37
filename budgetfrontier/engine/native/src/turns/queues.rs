//! Records of queues, of those in memory or of those in LMDB.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::Turns;
use super::links::Admission;
use crate::live_queue::LiveQueue;

impl Turns {
    /// Return the record of a queue, to be changed.
    pub(super) fn queue<'py>(&self, py: Python<'py>, queue_id: u32) -> PyResult<Bound<'py, LiveQueue>> {
        let in_memory = self.parts.cache.borrow(py).find(py, queue_id);
        in_memory.map_or_else(|| self.read(py, queue_id), Ok)
    }

    /// Return the record of a queue that is not in memory, to be changed: copies `QueueCache.get`, which does so if it is
    /// missing, damaged or of other lengths.
    pub(super) fn read<'py>(&self, py: Python<'py>, queue_id: u32) -> PyResult<Bound<'py, LiveQueue>> {
        let value = self.stored(py, &self.parts.queues, &queue_id.to_be_bytes())?;
        let is_sound = |record: &LiveQueue| {
            record.id == i64::from(queue_id) && (0.0..f64::INFINITY).contains(&record.wake_time.value())
        };
        match value.and_then(|value| LiveQueue::decode(py, value.as_bytes())).filter(is_sound) {
            Some(record) => {
                let queue = Bound::new(py, record)?;
                self.parts.cache.bind(py).borrow_mut().insert(queue_id, queue.clone().unbind());
                Ok(queue)
            }
            None => Ok(self.parts.get.bind(py).call1((queue_id,))?.cast_into()?),
        }
    }

    /// Return the value of a key in a table; None if there is none.
    fn stored<'py>(&self, py: Python<'py>, table: &Py<PyAny>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let txn = self.parts.env.bind(py).getattr(intern!(py, "txn"))?;
        let value = txn.call_method1(intern!(py, "get"), (PyBytes::new(py, key), py.None(), table))?;
        Ok(value.cast_into().ok())
    }

    /// Return the record of a queue, to be changed: copies `QueueCache.find_or_create`.
    pub(super) fn queue_of<'py>(
        &self,
        py: Python<'py>,
        admission: &Admission,
        key: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, LiveQueue>> {
        let ids = admission.ids.bind(py);
        let id = match ids.get_item(key)? {
            Some(id) => id.extract::<u32>()?,
            None => {
                let stored = self.stored(py, &self.parts.queue_ids, key.to_str()?.as_bytes())?;
                let Some(id) = stored.and_then(|id| id.as_bytes().try_into().map(u32::from_be_bytes).ok()) else {
                    return Ok(admission.find_or_create.bind(py).call1((key,))?.cast_into::<LiveQueue>()?);
                };
                ids.set_item(key, id)?;
                id
            }
        };
        let in_memory = self.parts.cache.borrow(py).find(py, id);
        let found = match in_memory {
            Some(found) => found,
            None => {
                let found = self.read(py, id)?;
                found.borrow_mut().queue = key.clone().unbind(); // one string for both
                found
            }
        };
        self.parts.dirty.borrow_mut(py).insert(id);
        Ok(found)
    }
}
