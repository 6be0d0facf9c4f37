//! The leases that are out: `out` of `engine/lease_table.py` (class Leases), a dict by id.

use std::collections::HashMap;

use pyo3::exceptions::PyKeyError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList};

use crate::hashing::ByHash;
use crate::taken_keys::PendingKey;

/// The fields of a lease that its end looks at.
#[derive(Clone, Copy)]
pub struct Mine {
    pub queue_id: u32,
    pub key: PendingKey,
    pub cost: u32,
    /// Whether its download is over.
    pub landed: bool,
}

impl Mine {
    /// Read a lease; None if it needs Python, for it is damaged.
    fn read(lease: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = lease.py();
        let key = lease.getattr(intern!(py, "key"))?.cast_into::<PyBytes>()?;
        let Some(key) = PendingKey::new(key.as_bytes()) else { return Ok(None) };
        let queue_id = lease.getattr(intern!(py, "queue_id"))?.extract()?;
        let cost = lease.getattr(intern!(py, "cost"))?.extract()?;
        let landed = lease.getattr(intern!(py, "landed"))?.is_truthy()?;
        Ok(Some(Self { queue_id, key, cost, landed }))
    }
}

/// A lease that is out; its fields are here if the kernel has made it.
struct Out {
    lease: Py<PyAny>,
    mine: Option<Mine>,
}

/// Leases by id, oldest first. O(1) for each, O(n log n) for all of them.
#[pyclass(module = "budgetfrontier.engine.native")]
#[derive(Default)]
pub struct LeasesOut {
    out: HashMap<i64, Out, ByHash>,
}

impl LeasesOut {
    pub fn insert(&mut self, id: i64, lease: Py<PyAny>, mine: Mine) {
        self.out.insert(id, Out { lease, mine: Some(mine) });
    }

    /// Return the fields of a lease, None if it needs Python; None if it is not out.
    pub fn find(&self, py: Python<'_>, id: i64) -> PyResult<Option<Option<Mine>>> {
        Ok(match self.out.get(&id) {
            None => None,
            Some(Out { lease, mine: None }) => Some(Mine::read(lease.bind(py))?),
            Some(Out { mine, .. }) => Some(*mine),
        })
    }

    pub fn remove(&mut self, id: i64) -> Option<Py<PyAny>> {
        self.out.remove(&id).map(|out| out.lease)
    }

    fn ids(&self) -> Vec<i64> {
        let mut ids: Vec<i64> = self.out.keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}

#[pymethods]
impl LeasesOut {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self) -> usize {
        self.out.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.ids())?.try_iter()
    }

    fn __contains__(&self, id: i64) -> bool {
        self.out.contains_key(&id)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, id: i64) -> PyResult<Bound<'py, PyAny>> {
        self.out.get(&id).map(|out| out.lease.bind(py).clone()).ok_or_else(|| PyKeyError::new_err(id))
    }

    /// Put a lease there; one that has changed is put there again.
    fn __setitem__(&mut self, id: i64, lease: Py<PyAny>) {
        self.out.insert(id, Out { lease, mine: None });
    }

    fn __delitem__(&mut self, id: i64) -> PyResult<()> {
        self.remove(id).map(drop).ok_or_else(|| PyKeyError::new_err(id))
    }

    /// Return a lease; None for an id, of any type, of none.
    fn get<'py>(&self, id: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Ok(number) = id.extract::<i64>() else {
            return id.hash().map(|_| None);
        };
        Ok(self.out.get(&number).map(|out| out.lease.bind(id.py()).clone()))
    }

    fn values<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        self.ids().iter().map(|id| self.out[id].lease.bind(py).clone()).collect()
    }
}
