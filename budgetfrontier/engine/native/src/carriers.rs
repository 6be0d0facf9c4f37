//! URIs that have no more beside their URL than a priority, and where it was found, or a payload: `CARRIERS` of
//! `engine/admission/candidates.py`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::type_object::PyTypeInfo;
use pyo3::types::{PyBytes, PyInt, PyString};

use crate::batch::More;
use crate::records::inverted;

/// The class of URIs that may be plain; its fields with their defaults, but for URL, priority and those of `More`; and the
/// most bytes of these.
pub type ReadCarriers = (Py<PyAny>, Vec<(Py<PyString>, Py<PyAny>)>, usize);

/// Return the URL of a URI, what it has beside that, and its inverted priority; None if it has more, or both a page and a
/// payload.
pub fn carried<'py>(
    given: &Bound<'py, PyAny>,
    (kind, others, longest): &ReadCarriers,
) -> Option<(Bound<'py, PyAny>, More, u32)> {
    let py = given.py();
    if !given.get_type().is(kind) {
        return None;
    }
    for (name, default) in others {
        given.getattr(name).ok().filter(|value| is_default(value, default.bind(py)))?;
    }
    let priority = given.getattr(intern!(py, "priority")).ok()?.cast_into_exact::<PyInt>().ok()?.extract().ok()?;
    let hops = given.getattr(intern!(py, "hops")).ok()?.cast_into_exact::<PyString>().ok()?;
    let hops = Some(hops.unbind()).filter(|hops| hops.bind(py).is_truthy().is_ok_and(|is_some| is_some));
    let via = optional::<PyString>(given.getattr(intern!(py, "via")))?;
    let payload = optional::<PyBytes>(given.getattr(intern!(py, "payload")))?;
    let more = More { via, hops, payload };
    let length = |text: &Option<Py<PyString>>| text.as_ref().map_or(Some(0), |text| Some(text.to_str(py).ok()?.len()));
    let (of_via, of_hops) = (length(&more.via)?, length(&more.hops)?);
    if more.via.is_some() && of_via == 0 {
        return None;
    }
    let of_payload = more.payload.as_ref().map_or(0, |payload| payload.as_bytes(py).len());
    let is_one = more.payload.is_none() || of_via + of_hops == 0;
    let fits = is_one && of_via + of_hops + of_payload <= *longest;
    fits.then_some((given.getattr(intern!(py, "url")).ok()?, more, inverted(priority)))
}

/// Return whether a field has its default: no value that is merely equal to it, but a text that was decoded.
fn is_default(value: &Bound<'_, PyAny>, default: &Bound<'_, PyAny>) -> bool {
    if value.is(default) {
        return true;
    }
    let (Ok(text), Ok(of_default)) = (value.cast_exact::<PyString>(), default.cast_exact::<PyString>()) else {
        return false;
    };
    text.to_str().is_ok_and(|text| of_default.to_str().is_ok_and(|of_default| text == of_default))
}

/// Return a field that may be None; None if it is neither that nor of this very type.
fn optional<T: PyTypeInfo>(value: PyResult<Bound<'_, PyAny>>) -> Option<Option<Py<T>>> {
    let value = value.ok()?;
    if value.is_none() { Some(None) } else { Some(Some(value.cast_into_exact().ok()?.unbind())) }
}
