//! The records of queues in memory. `core/model.py` (class QueueRecord) is the definition of their fields.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::fields::{Field, Seconds, State, Text};
use crate::msgpack::{self, Reader};
use crate::queue_records::{QueueIds, QueueRecords};
use crate::records;

/// Declare the record, and what goes through its fields in their order.
macro_rules! record {
    ($($name:ident: $kind:ty,)*) => {
        /// The record of a queue that may be changed: the fields of QueueRecord.
        #[pyclass(module = "budgetfrontier.engine.native")]
        pub struct LiveQueue {
            $(#[pyo3(get, set)] pub $name: $kind,)*
        }

        impl LiveQueue {
            const FIELDS: u16 = [$(stringify!($name)),*].len() as u16;

            fn empty(py: Python<'_>) -> Self {
                Self { $($name: <$kind as Field>::empty(py),)* }
            }

            fn set(&mut self, values: &Bound<'_, PyTuple>) -> PyResult<()> {
                let mut values = values.iter();
                $(if let Some(value) = values.next() { self.$name = value.extract().map_err(PyErr::from)?; })*
                Ok(())
            }

            fn append(&self, py: Python<'_>, out: &mut Vec<u8>) -> PyResult<()> {
                msgpack::append_long_array(Self::FIELDS, out);
                $(self.$name.append(py, out)?;)*
                Ok(())
            }

            fn read(py: Python<'_>, reader: &mut Reader<'_>) -> Option<Self> {
                (reader.long_array()? == Self::FIELDS).then_some(())?;
                let record = Self { $($name: <$kind as Field>::read(py, reader)?,)* };
                reader.0.is_empty().then_some(record)
            }
        }
    };
}

record! {
    queue: Text,
    id: i64,
    state: State,
    precedence: i64,
    queued: i64,
    enqueued: i64,
    balance: i64,
    balance_replenish_amount: i64,
    total_budget: i64,
    expenditure: i64,
    last_cost: i64,
    charges: i64,
    penalties: i64,
    wake_time: Seconds,
    errors: i64,
    last_enqueued: Text,
    last_leased: Text,
    future: i64,
    out: i64,
    reserved: i64,
    position: i64,
    row: i64,
    by_name: bool,
    block: Seconds,
    revision: i64,
    landed: i64,
    bytes: i64,
    last_lease_time: i64,
    delayed: Seconds,
    rest: Seconds,
    urls: i64,
    completed: i64,
    max_completed: i64,
    interval: Option<Seconds>,
    paced_until: Seconds,
    served: Seconds,
    own_budget: Option<i64>,
    failure: Text,
    failed_at: Seconds,
    backoff: Seconds,
    overloaded_until: Seconds,
    dead_prerequisite: i64,
    group: i64,
    group_revision: i64,
    parked: i64,
    error_answers: i64,
    busy_until: Seconds,
    closed_until: Seconds,
}

impl LiveQueue {
    /// Give the last URL that was leased the form in which it is stored.
    fn shorten(&mut self, py: Python<'_>, longest: usize) -> PyResult<()> {
        let url = self.last_leased.bind(py).to_str()?;
        if !url.starts_with("http") {
            return Ok(()); // it has that form
        }
        let (mark, rest) = records::shorten(url, self.queue.bind(py).to_str()?);
        let end = rest.char_indices().nth(longest - mark.len()).map_or(rest.len(), |(end, _)| end);
        let shortened = [mark, &rest[..end]].concat();
        self.last_leased = PyString::new(py, &shortened).unbind();
        Ok(())
    }
}

type Row<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);
type Changed<'py> = (Vec<Row<'py>>, Vec<Bound<'py, PyBytes>>, Vec<Row<'py>>);

/// Return the records to be written of queues that have changed, and the rows of the ring that go and come, all of them
/// by key: copies `QueueCache._changed`. Of the URL that was leased last, `longest` characters are kept.
#[pyfunction]
pub fn changed_records<'py>(
    py: Python<'py>,
    cache: &QueueRecords,
    dirty: &QueueIds,
    longest: usize,
) -> PyResult<Changed<'py>> {
    let ids = dirty.sorted();
    let (mut records, mut left, mut joined) = (Vec::with_capacity(ids.len()), Vec::new(), Vec::new());
    let mut value = Vec::with_capacity(256);
    for id in ids {
        let found = cache.find(py, id).ok_or_else(|| PyKeyError::new_err(id))?;
        let mut queue = found.borrow_mut();
        let key = PyBytes::new(py, &id.to_be_bytes());
        let row = if queue.state == State::Ready { queue.position } else { 0 };
        if row != queue.row {
            if queue.row != 0 {
                left.push(queue.row);
            }
            if row != 0 {
                joined.push((row, key.clone()));
            }
            queue.row = row;
        }
        queue.shorten(py, longest)?;
        value.clear();
        queue.append(py, &mut value)?;
        records.push((key, PyBytes::new(py, &value)));
    }
    left.sort_unstable();
    joined.sort_unstable_by_key(|(row, _)| *row);
    let row_of = |row: i64| PyBytes::new(py, &row.to_be_bytes());
    let left = left.into_iter().map(row_of).collect();
    Ok((records, left, joined.into_iter().map(|(row, key)| (row_of(row), key)).collect()))
}

#[pymethods]
impl LiveQueue {
    /// Make a queue of some fields, in their order; the others are as in a queue that is new.
    #[new]
    #[pyo3(signature = (*fields))]
    fn new(py: Python<'_>, fields: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let mut record = Self { precedence: 3, total_budget: -1, ..Self::empty(py) };
        record.set(fields)?;
        Ok(record)
    }

    /// Return the record in a stored value; None if the value is not as records are written.
    #[staticmethod]
    pub fn decode(py: Python<'_>, value: &[u8]) -> Option<Self> {
        Self::read(py, &mut Reader(value)).filter(|record| {
            let natural = [record.position, record.row, record.parked];
            natural.iter().all(|number| *number >= 0)
                && u32::try_from(record.id).is_ok()
                && u32::try_from(record.group).is_ok()
                && u16::try_from(record.precedence).is_ok()
        })
    }

    /// Return the value to be stored.
    fn encode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut value = Vec::with_capacity(160);
        self.append(py, &mut value)?;
        Ok(PyBytes::new(py, &value))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<LiveQueue {} {} queued={}>", self.queue.bind(py), self.state.name(), self.queued)
    }

    /// `QueueRecord.succeeded`.
    #[getter]
    fn succeeded(&self) -> i64 {
        self.charges - self.errors + self.error_answers
    }

    /// `QueueRecord.average_cost`.
    #[getter]
    fn average_cost(&self) -> f64 {
        if self.charges == 0 { 0.0 } else { (self.expenditure - self.penalties) as f64 / self.charges as f64 }
    }
}
