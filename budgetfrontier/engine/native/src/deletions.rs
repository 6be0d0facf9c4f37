//! Deletions of records in the order of keys: the next key often follows the one deleted.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The methods of a cursor that deletions need.
pub struct Deletions<'py> {
    key: Bound<'py, PyAny>,
    seek: Bound<'py, PyAny>,
    delete: Bound<'py, PyAny>,
}

impl<'py> Deletions<'py> {
    pub fn at(cursor: &Bound<'py, PyAny>) -> PyResult<Self> {
        let method = |name| cursor.getattr(name);
        let py = cursor.py();
        let (key, seek) = (method(intern!(py, "key"))?, method(intern!(py, "set_key"))?);
        Ok(Self { key, seek, delete: method(intern!(py, "delete"))? })
    }

    /// Go to a key, and return whether it is there.
    pub fn find(&self, key: &[u8]) -> PyResult<bool> {
        if self.key.call0()?.cast::<PyBytes>()?.as_bytes() == key {
            return Ok(true);
        }
        self.seek.call1((PyBytes::new(self.key.py(), key),))?.is_truthy()
    }

    /// Delete the record where the cursor is.
    pub fn delete(&self) -> PyResult<()> {
        self.delete.call0().map(drop)
    }
}
