//! The types of the fields of a queue's record, and how a value of each is stored: `core/model.py` (class QueueRecord) is
//! the definition.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyInt, PyString};

use crate::msgpack::{self, Reader};

pub type Text = Py<PyString>;

/// A time or a duration in seconds: a float, or a whole number as it was set.
#[derive(Clone, Copy)]
pub enum Seconds {
    Whole(i64),
    Float(f64),
}

impl Seconds {
    pub fn value(self) -> f64 {
        match self {
            Seconds::Whole(number) => number as f64,
            Seconds::Float(number) => number,
        }
    }
}

impl<'py> IntoPyObject<'py> for Seconds {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(match self {
            Seconds::Whole(number) => number.into_pyobject(py)?.into_any(),
            Seconds::Float(number) => PyFloat::new(py, number).into_any(),
        })
    }
}

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(number) = given.cast::<PyFloat>() {
            return Ok(Seconds::Float(number.extract()?));
        }
        given.cast::<PyInt>()?.extract().map(Seconds::Whole)
    }
}

/// The state of a queue, in the order of `rules/queue_states.py`'s imports.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    Ready,
    InProcess,
    Snoozed,
    Inactive,
    Ineligible,
    Retired,
    Exhausted,
}

const STATES: [(State, &str); 7] = [
    (State::Ready, "READY"),
    (State::InProcess, "IN_PROCESS"),
    (State::Snoozed, "SNOOZED"),
    (State::Inactive, "INACTIVE"),
    (State::Ineligible, "INELIGIBLE"),
    (State::Retired, "RETIRED"),
    (State::Exhausted, "EXHAUSTED"),
];
static MEMBERS: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();

/// Return the members of `QueueState`, in the order of `STATES`.
fn members(py: Python<'_>) -> PyResult<&Vec<Py<PyAny>>> {
    MEMBERS.get_or_try_init(py, || {
        let kind = py.import("budgetfrontier.core.vocabulary")?.getattr("QueueState")?;
        STATES.iter().map(|(_, name)| Ok(kind.getattr(*name)?.unbind())).collect()
    })
}

impl State {
    pub fn name(self) -> &'static str {
        STATES[self as usize].1
    }

    /// Return whether the URIs of a queue count among those queued: copies `queued_totals.is_queued`.
    pub fn is_queued(self) -> bool {
        self != State::Retired && self != State::Ineligible
    }
}

impl<'py> IntoPyObject<'py> for State {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        Ok(members(py)?[self as usize].bind(py).clone())
    }
}

impl<'py> FromPyObject<'_, 'py> for State {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let found = members(given.py())?.iter().position(|member| member.is(&*given));
        found
            .map(|place| STATES[place].0)
            .ok_or_else(|| PyTypeError::new_err("the state of a queue is a member of QueueState"))
    }
}

/// A field of the record of a queue.
pub trait Field: Sized {
    /// Return the value of a queue that is new.
    fn empty(py: Python<'_>) -> Self;
    fn append(&self, py: Python<'_>, out: &mut Vec<u8>) -> PyResult<()>;
    /// Read a stored value; None if it is not as records are written.
    fn read(py: Python<'_>, reader: &mut Reader<'_>) -> Option<Self>;
}

impl Field for Text {
    fn empty(py: Python<'_>) -> Self {
        PyString::new(py, "").unbind()
    }

    fn append(&self, py: Python<'_>, out: &mut Vec<u8>) -> PyResult<()> {
        msgpack::append_text(&[self.bind(py).to_str()?.as_bytes()], out);
        Ok(())
    }

    fn read(py: Python<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        Some(PyString::new(py, reader.text()?).unbind())
    }
}

/// The largest amount that is stored, and the smallest below zero: `Number` in `core/model.py`.
const MOST: i64 = 1 << 62;

impl Field for i64 {
    fn empty(_py: Python<'_>) -> Self {
        0
    }

    fn append(&self, _py: Python<'_>, out: &mut Vec<u8>) -> PyResult<()> {
        msgpack::append_int(*self, out);
        Ok(())
    }

    fn read(_py: Python<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.int().filter(|number| (-MOST..=MOST).contains(number))
    }
}

impl Field for Seconds {
    fn empty(_py: Python<'_>) -> Self {
        Seconds::Whole(0)
    }

    fn append(&self, _py: Python<'_>, out: &mut Vec<u8>) -> PyResult<()> {
        match self {
            Seconds::Whole(number) => msgpack::append_int(*number, out),
            Seconds::Float(number) => msgpack::append_float(*number, out),
        }
        Ok(())
    }

    /// Times of 0 stay whole numbers, which take one byte.
    fn read(_py: Python<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let number = reader.float()?;
        Some(if number == 0.0 { Seconds::Whole(0) } else { Seconds::Float(number) })
    }
}

impl Field for bool {
    fn empty(_py: Python<'_>) -> Self {
        false
    }

    fn append(&self, _py: Python<'_>, out: &mut Vec<u8>) -> PyResult<()> {
        msgpack::append_bool(*self, out);
        Ok(())
    }

    fn read(_py: Python<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.bool()
    }
}

impl Field for State {
    fn empty(_py: Python<'_>) -> Self {
        State::Exhausted
    }

    fn append(&self, _py: Python<'_>, out: &mut Vec<u8>) -> PyResult<()> {
        msgpack::append_text(&[self.name().as_bytes()], out);
        Ok(())
    }

    fn read(_py: Python<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let name = reader.text()?;
        STATES.iter().find(|(_, known)| *known == name).map(|(state, _)| *state)
    }
}

impl<T: Field + Copy> Field for Option<T> {
    fn empty(_py: Python<'_>) -> Self {
        None
    }

    fn append(&self, py: Python<'_>, out: &mut Vec<u8>) -> PyResult<()> {
        match self {
            Some(value) => value.append(py, out)?,
            None => msgpack::append_nil(out),
        }
        Ok(())
    }

    fn read(py: Python<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if reader.nil() { Some(None) } else { T::read(py, reader).map(Some) }
    }
}
