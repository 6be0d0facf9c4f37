//! The rows of the table `snoozed`, changed in memory until they are written. `engine/snoozed_rows.py` is the
//! definition.

use std::collections::{BTreeSet, VecDeque};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::deletions::Deletions;

/// `storage/keys.py`: not greater than any key but the first.
const FIRST: &[u8] = b"\0\0";
/// Rows that are read at once.
const READ: usize = 16;
/// Changes in memory at the most.
const MOST: usize = 1 << 15;

/// The key of a queue in the table: wake time, id (`storage/keys.py`, `timed`).
pub type Row = [u8; 12];

pub fn row(wake_time: f64, queue_id: u32) -> Row {
    let mut row = [0; 12];
    row[..8].copy_from_slice(&wake_time.to_be_bytes());
    row[8..].copy_from_slice(&queue_id.to_be_bytes());
    row
}

/// Return the wake time and the id in the key of a queue.
pub fn read(row: Row) -> (f64, u32) {
    let [a, b, c, d, e, f, g, h, id @ ..] = row;
    (f64::from_be_bytes([a, b, c, d, e, f, g, h]), u32::from_be_bytes(id))
}

/// The first row: one that is damaged is Python's.
pub enum First<'py> {
    Row(Row),
    Damaged(Bound<'py, PyBytes>),
}

/// The rows in the order of their keys; each call is given a cursor of the table. O(log n).
#[pyclass(module = "budgetfrontier.engine.native")]
#[derive(Default)]
pub struct SnoozedRows {
    /// Rows that the table has not yet, and those that it still has.
    added: BTreeSet<Row>,
    deleted: BTreeSet<Row>,
    /// The first rows of the table, but for those deleted.
    stored: VecDeque<Row>,
    /// Up to where the table was read for them, and whether that was to its end.
    upto: Option<Row>,
    has_all: bool,
}

impl SnoozedRows {
    pub fn add(&mut self, row: Row) {
        self.added.insert(row);
    }

    pub fn remove(&mut self, row: Row) {
        if self.added.remove(&row) {
            return;
        }
        self.deleted.insert(row);
        if let Ok(place) = self.stored.binary_search(&row) {
            self.stored.remove(place);
        }
    }

    /// Return the first row; None if there is none.
    pub fn lowest<'py>(&mut self, cursor: &Bound<'py, PyAny>) -> PyResult<Option<First<'py>>> {
        while self.stored.is_empty() && !self.has_all {
            if let Some(damaged) = self.read(cursor)? {
                return Ok(Some(First::Damaged(damaged)));
            }
        }
        let first = self.stored.front().into_iter().chain(self.added.first()).min();
        Ok(first.copied().map(First::Row))
    }

    /// Read the next rows of the table; return the first if it is damaged.
    fn read<'py>(&mut self, cursor: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let py = cursor.py();
        let start = self.upto.map_or(FIRST.to_vec(), |upto| [&upto[..], b"\0"].concat());
        if cursor.call_method1(intern!(py, "set_range"), (PyBytes::new(py, &start),))?.is_truthy()? {
            for (number, key) in cursor.call_method1(intern!(py, "iternext"), (true, false))?.try_iter()?.enumerate() {
                let key = key?.cast_into::<PyBytes>()?;
                let Ok(row) = Row::try_from(key.as_bytes()) else {
                    return Ok((number == 0).then_some(key)); // the next read begins with it
                };
                self.upto = Some(row);
                if !self.deleted.contains(&row) {
                    self.stored.push_back(row);
                }
                if number + 1 == READ {
                    return Ok(None);
                }
            }
        }
        self.has_all = true;
        Ok(None)
    }

    fn bound(&mut self, cursor: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.__len__() > MOST { self.flush(cursor) } else { Ok(()) }
    }
}

#[pymethods]
impl SnoozedRows {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Return the number of changes that are to be written.
    fn __len__(&self) -> usize {
        self.added.len() + self.deleted.len()
    }

    /// Add a row, given as its key.
    fn put(&mut self, cursor: &Bound<'_, PyAny>, row: Row) -> PyResult<()> {
        self.add(row);
        self.bound(cursor)
    }

    /// Delete a row.
    fn delete(&mut self, cursor: &Bound<'_, PyAny>, row: Row) -> PyResult<()> {
        self.remove(row);
        self.bound(cursor)
    }

    /// Return the first row; None if there is none.
    fn first<'py>(&mut self, cursor: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.lowest(cursor)?.map(|first| match first {
            First::Row(row) => PyBytes::new(cursor.py(), &row),
            First::Damaged(key) => key,
        }))
    }

    /// Write all changes.
    fn flush(&mut self, cursor: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = cursor.py();
        let at = Deletions::at(cursor)?;
        for row in &self.deleted {
            if at.find(row)? {
                at.delete()?;
            }
        }
        let nothing = PyBytes::new(py, b"");
        let added: Vec<_> = self.added.iter().map(|row| (PyBytes::new(py, row), nothing.clone())).collect();
        cursor.call_method1(intern!(py, "putmulti"), (added,))?;
        *self = Self::default();
        Ok(())
    }
}
