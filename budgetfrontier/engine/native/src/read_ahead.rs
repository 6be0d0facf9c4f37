//! The next URIs of queues in memory. `engine/read_ahead.py` is the definition.

use std::collections::HashMap;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::hashing::ByHash;
use crate::taken_keys::TakenKeys;

const FIRST_RUN: usize = 4;
const MOST_OF_RUN: usize = 1 << 16;
const OVERHEAD: usize = 100;
/// The bytes of a key: `storage/keys.py`, `pending`.
const KEY: usize = 21;

/// A key and its value.
pub type Record = (Py<PyBytes>, Py<PyBytes>);

/// The records of a queue that go out next, in reverse.
struct Run {
    records: Vec<Record>,
    /// The last key that was read, and the records and bytes as they were read.
    last: Py<PyBytes>,
    count: usize,
    size: usize,
}

/// The runs of all queues. O(1) for each record, and one seek for each run.
#[pyclass(module = "budgetfrontier.engine.native")]
pub struct ReadAhead {
    runs: HashMap<u64, Run, ByHash>,
    /// The sum of the bytes of the runs.
    #[pyo3(get)]
    size: usize,
}

impl ReadAhead {
    /// Return the next record of a queue, if it is in memory.
    pub fn first(&self, py: Python<'_>, queue_id: u32) -> Option<Record> {
        let (key, value) = self.runs.get(&u64::from(queue_id))?.records.last()?;
        Some((key.clone_ref(py), value.clone_ref(py)))
    }

    /// Drop the run of a queue if the record of a key is put into it, or before it: copies `PendingTable._put`.
    pub fn put(&mut self, py: Python<'_>, key: &[u8]) {
        let Some((prefix, _)) = key.split_first_chunk::<4>() else { return };
        let queue_id = u32::from_be_bytes(*prefix);
        if self.runs.get(&u64::from(queue_id)).is_some_and(|run| key <= run.last.as_bytes(py)) {
            self.forget(queue_id);
        }
    }

    /// Take the next record of a queue out of its run, if it has one.
    pub fn drop_first(&mut self, queue_id: u32) {
        if let Some(run) = self.runs.get_mut(&u64::from(queue_id)) {
            run.records.pop();
        }
    }
}

#[pymethods]
impl ReadAhead {
    #[new]
    fn new() -> Self {
        Self { runs: HashMap::default(), size: 0 }
    }

    fn __len__(&self) -> usize {
        self.runs.len()
    }

    /// Return the records in memory, by queue.
    fn held<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let held = PyDict::new(py);
        for (queue_id, run) in &self.runs {
            let records = run.records.iter().rev().map(|(key, value)| (key.clone_ref(py), value.clone_ref(py)));
            held.set_item(queue_id, PyList::new(py, records.collect::<Vec<_>>())?)?;
        }
        Ok(held)
    }

    /// Return the next record of a queue, if it is in memory.
    fn next(&self, py: Python<'_>, queue_id: u32) -> Option<Record> {
        self.first(py, queue_id)
    }

    /// Take the next record of a queue out of its run, if it has one.
    fn take(&mut self, queue_id: u32) {
        self.drop_first(queue_id);
    }

    /// Read the next run of a queue, after one that is used up or missing; return its first record, None if all URIs
    /// are out.
    #[allow(clippy::too_many_arguments)]
    pub fn read(
        slf: &Bound<'_, Self>,
        queue_id: u32,
        cursor: &Bound<'_, PyAny>,
        taken: &Bound<'_, TakenKeys>,
        walk: &Bound<'_, PyAny>,
        share: usize,
        room: usize,
    ) -> PyResult<Option<Record>> {
        let (py, prefix) = (slf.py(), queue_id.to_be_bytes());
        let before = slf.borrow_mut().runs.remove(&u64::from(queue_id));
        let (mut last, start, mut length) = match before {
            None => {
                if share == 1
                    && cursor.call_method1(intern!(py, "set_range"), (PyBytes::new(py, &prefix),))?.is_truthy()?
                {
                    let (key, value) = record(&cursor.call_method0(intern!(py, "item"))?)?;
                    if key.as_bytes().starts_with(&prefix) && !taken.borrow().has(key.as_bytes()) {
                        return Ok(Some((key.unbind(), value.unbind())));
                    }
                }
                (PyBytes::new(py, &prefix), PyBytes::new(py, &prefix), FIRST_RUN)
            }
            Some(run) => {
                slf.borrow_mut().size -= run.size;
                let start = [run.last.as_bytes(py), b"\0"].concat();
                (run.last.into_bound(py), PyBytes::new(py, &start), (run.count * 2).max(1))
            }
        };
        length = if slf.borrow().size < room { length.min(share) } else { 1 };
        let mut found: Vec<Record> = Vec::with_capacity(length);
        let mut free = true;
        if cursor.call_method1(intern!(py, "set_range"), (&start,))?.is_truthy()? {
            let mut records = cursor.call_method0(intern!(py, "iternext"))?.try_iter()?;
            while found.len() < length {
                let Some(item) = records.next() else { break };
                let (key, value) = record(&item?)?;
                if !key.as_bytes().starts_with(&prefix) {
                    break;
                }
                free = free && !taken.borrow().has(key.as_bytes());
                found.push((key.unbind(), value.unbind()));
            }
        }
        if !free {
            let (waiting, met) =
                walk.call1((start, PyBytes::new(py, &prefix), length))?.extract::<(Vec<Record>, Py<PyBytes>)>()?;
            (found, last) = (waiting, met.into_bound(py));
        } else if let Some((key, _)) = found.last() {
            last = key.bind(py).clone();
        }
        let mut size = found.iter().map(|(_, value)| value.as_bytes(py).len()).sum::<usize>() + found.len() * KEY;
        if size > MOST_OF_RUN && found.len() > 1 {
            found.truncate(1);
            last = found[0].0.bind(py).clone();
            size = found[0].1.as_bytes(py).len();
        }
        found.reverse();
        size += found.len() * OVERHEAD;
        let first = found.last().map(|(key, value)| (key.clone_ref(py), value.clone_ref(py)));
        let mut this = slf.borrow_mut();
        this.size += size;
        let count = found.len();
        this.runs.insert(u64::from(queue_id), Run { records: found, last: last.unbind(), count, size });
        Ok(first)
    }

    /// Return the last key that was read for a queue; None if it has no run.
    fn read_upto(&self, py: Python<'_>, queue_id: u32) -> Option<Py<PyBytes>> {
        self.runs.get(&u64::from(queue_id)).map(|run| run.last.clone_ref(py))
    }

    /// Put a record that was taken before all others of a run, and drop the run where that is not its place.
    fn give_back(&mut self, py: Python<'_>, queue_id: u32, key: Py<PyBytes>, value: Py<PyBytes>, room: usize) {
        let more = key.as_bytes(py).len() + value.as_bytes(py).len() + OVERHEAD;
        let full = self.size >= room;
        let Some(run) = self.runs.get_mut(&u64::from(queue_id)) else { return };
        let is_first = run.records.last().is_none_or(|(next, _)| next.as_bytes(py) > key.as_bytes(py));
        if !is_first || run.size + more > MOST_OF_RUN || full {
            self.forget(queue_id);
            return;
        }
        run.records.push((key, value));
        run.size += more;
        self.size += more;
    }

    /// Drop the run of a queue: the next look is at its front.
    fn forget(&mut self, queue_id: u32) {
        if let Some(run) = self.runs.remove(&u64::from(queue_id)) {
            self.size -= run.size;
        }
    }

    /// Drop the runs without records.
    fn forget_used_up(&mut self) {
        let size = &mut self.size;
        self.runs.retain(|_, run| {
            if run.records.is_empty() {
                *size -= run.size;
            }
            !run.records.is_empty()
        });
    }

    /// Drop all runs.
    fn clear(&mut self) {
        self.runs.clear();
        self.size = 0;
    }

    /// Return the records and bytes of at most so many runs, as they were read.
    fn sample(&self, most: usize) -> (usize, usize) {
        let read = self.runs.values().take(most);
        read.fold((0, 0), |(records, bytes), run| (records + run.count, bytes + run.size))
    }
}

fn record<'py>(item: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let pair = item.cast::<PyTuple>()?;
    Ok((pair.get_item(0)?.cast_into()?, pair.get_item(1)?.cast_into()?))
}
