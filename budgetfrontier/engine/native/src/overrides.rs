//! The settings in force for URIs, as far as turns and ends of leases look at them: `settings/overrides.py` is the
//! definition.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::endings::Politeness;
use crate::hashing::ByHash;
use crate::live_queue::LiveQueue;

/// Queues whose settings are kept at the most, in both schemes: 32 bytes each.
const MOST: usize = 1 << 15;

/// The settings for one URI and its queue.
pub struct QueueSettings {
    /// The object of Python that they were read from.
    pub given: Py<PyAny>,
    pub concurrency: i64,
    pub reached: bool,
    pub min_interval: f64,
    pub politeness: Politeness,
}

impl<'py> FromPyObject<'_, 'py> for QueueSettings {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = given.py();
        Ok(Self {
            given: given.to_owned().unbind(),
            concurrency: given.getattr(intern!(py, "per_queue_concurrency"))?.extract()?,
            reached: given.getattr(intern!(py, "reached"))?.extract()?,
            min_interval: given.getattr(intern!(py, "min_interval"))?.extract()?,
            politeness: given.extract()?,
        })
    }
}

/// The settings of each URI. O(1) where they are those of all plain URLs of a queue with one scheme, else a call of
/// Python.
#[pyclass(module = "budgetfrontier.engine.native")]
pub struct Effective {
    /// Those of all URIs, if there are no overrides.
    of_all: Option<Arc<QueueSettings>>,
    /// `Effective.for_all_like`.
    ask: Py<PyAny>,
    /// By id and scheme of queues.
    by_queue: HashMap<u64, Arc<QueueSettings>, ByHash>,
    /// By the address of Python's object, which they keep so that there is no other.
    known: HashMap<usize, Arc<QueueSettings>>,
}

impl Effective {
    /// Return the settings of a URL in a queue with a label.
    pub fn of_uri(
        &mut self,
        queue: &LiveQueue,
        url: &Bound<'_, PyString>,
        label: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Arc<QueueSettings>> {
        if let Some(settings) = &self.of_all {
            return Ok(settings.clone());
        }
        let py = url.py();
        let key = if label.is_none() { plain_key(queue, py, url.to_str()?)? } else { None };
        if let Some(settings) = key.and_then(|key| self.by_queue.get(&key)) {
            return Ok(settings.clone());
        }
        let (found, for_all) = self.ask.bind(py).call1((url, &queue.queue, label))?.extract::<(Py<PyAny>, bool)>()?;
        let settings = self.settings(found.bind(py))?;
        if let Some(key) = key.filter(|_| for_all) {
            if self.by_queue.len() >= MOST {
                self.by_queue.clear();
            }
            self.by_queue.insert(key, settings.clone());
        }
        Ok(settings)
    }

    /// Return the settings of the URI of a lease.
    pub fn of_lease(&mut self, queue: &LiveQueue, lease: &Bound<'_, PyAny>) -> PyResult<Arc<QueueSettings>> {
        if let Some(settings) = &self.of_all {
            return Ok(settings.clone());
        }
        let py = lease.py();
        let uri = lease.getattr(intern!(py, "uri"))?;
        let url = uri.getattr(intern!(py, "url"))?.cast_into::<PyString>()?;
        let label = uri.getattr(intern!(py, "source"))?;
        self.of_uri(queue, &url, (!label.is_none()).then_some(&label))
    }

    fn settings(&mut self, found: &Bound<'_, PyAny>) -> PyResult<Arc<QueueSettings>> {
        let address = found.as_ptr() as usize;
        if let Some(settings) = self.known.get(&address) {
            return Ok(settings.clone());
        }
        let settings = Arc::new(found.extract::<QueueSettings>()?);
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(address, settings.clone());
        Ok(settings)
    }
}

#[pymethods]
impl Effective {
    #[new]
    fn new(of_all: Option<QueueSettings>, ask: Py<PyAny>) -> Self {
        Self { of_all: of_all.map(Arc::new), ask, by_queue: HashMap::default(), known: HashMap::new() }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.ask)
    }
}

/// Return a key for all URLs of a queue, with one scheme, whose authority is the key of the queue: the overrides by
/// authority are the same for them.
fn plain_key(queue: &LiveQueue, py: Python<'_>, url: &str) -> PyResult<Option<u64>> {
    let (is_secure, rest) = match url.strip_prefix("https://") {
        Some(rest) => (true, rest),
        None => match url.strip_prefix("http://") {
            Some(rest) => (false, rest),
            None => return Ok(None),
        },
    };
    let path = rest.strip_prefix(queue.queue.bind(py).to_str()?);
    Ok(path.filter(|path| path.starts_with('/')).map(|_| (queue.id as u64) << 1 | u64::from(is_secure)))
}
