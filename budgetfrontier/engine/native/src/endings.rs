//! How attempts ended, as far as the kernel goes: successes without a reason, or an answer that was an error.
//!
//! `engine/finish_many.py` (BatchFinisher.checked) is the definition of what is valid, `engine/history.py` of what is
//! kept.

use std::net::IpAddr;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use xxhash_rust::xxh3::xxh3_64;

use crate::ended_attempts::{NONE, UNKNOWN};

/// The status from which on an answer is an error, and from which on contents do not count.
const ERROR: i64 = 400;
const REDIRECTION: i64 = 300;
/// Sizes are less than this: `SIZES` of `core/model.py`.
const SIZES: i64 = 1 << 40;

/// The settings of the policy `standard`: `policies/politeness.py`.
#[derive(Clone)]
pub struct Politeness {
    min_delay: f64,
    delay_factor: f64,
    max_delay: f64,
    longest_crawl_delay: f64,
    jitter: f64,
}

impl<'py> FromPyObject<'_, 'py> for Politeness {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = given.py();
        Ok(Self {
            min_delay: given.getattr(intern!(py, "min_delay"))?.extract()?,
            delay_factor: given.getattr(intern!(py, "delay_factor"))?.extract()?,
            max_delay: given.getattr(intern!(py, "max_delay"))?.extract()?,
            longest_crawl_delay: given.getattr(intern!(py, "respect_crawl_delay_up_to"))?.extract()?,
            jitter: given.getattr(intern!(py, "jitter"))?.extract()?,
        })
    }
}

impl Politeness {
    /// Return for how many seconds a queue rests after an attempt: copies `Politeness.__call__`.
    pub fn rest(&self, ending: &Ending, random: &Bound<'_, PyAny>) -> PyResult<f64> {
        let mut delay = self.min_delay;
        if let Some(seconds) = ending.fetch_seconds {
            delay = delay.max(self.delay_factor * seconds).min(self.max_delay);
        }
        if let Some(asked) = ending.crawl_delay
            && asked > delay
        {
            delay = delay.max(asked.min(self.longest_crawl_delay));
        }
        if self.jitter > 0.0 {
            delay += self.jitter * random.call0()?.extract::<f64>()?;
        }
        Ok(delay)
    }
}

/// How an attempt ended.
#[derive(Default)]
pub struct Ending {
    /// Whether there are any details, so that it goes into the history of its queue.
    pub has_details: bool,
    pub fetch_seconds: Option<f64>,
    crawl_delay: Option<f64>,
    pub size: i64,
    status: i64,
    digest: Option<u64>,
    /// Whether the payload was known before: `novel` is False.
    pub is_known: bool,
    /// Whether the address of the host is given.
    pub has_address: bool,
    /// The links of the page; None if it has none.
    pub links: Option<Py<PyList>>,
}

/// The arguments of a `finish`, from `fetch_seconds` to `digest`: those that need nothing else.
pub type Details<'py> =
    (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

impl Ending {
    /// Read fetch_seconds, crawl_delay, size, status, novel and digest; None if they need Python, to be refused or
    /// used.
    pub fn read(details: &Details<'_>) -> PyResult<Option<Self>> {
        let (fetch_seconds, crawl_delay, size, status, novel, digest) = details;
        let Some(fetch_seconds) = number(fetch_seconds)? else { return Ok(None) };
        let Some(crawl_delay) = number(crawl_delay)? else { return Ok(None) };
        if fetch_seconds.is_some_and(|seconds| !(seconds >= 0.0 && seconds.is_finite()))
            || crawl_delay.is_some_and(f64::is_nan)
            || !size.is_exact_instance_of::<PyInt>()
            || !status.is_exact_instance_of::<PyInt>()
            || !(novel.is_none() || novel.is_exact_instance_of::<PyBool>())
        {
            return Ok(None);
        }
        let Ok(digest) = digest.cast_exact::<PyBytes>() else { return Ok(None) };
        let (Ok(size), Ok(status)) = (size.extract::<i64>(), status.extract::<i16>()) else { return Ok(None) };
        let (status, digest) = (i64::from(status), digest.as_bytes());
        if !(0..SIZES).contains(&size) || status >= ERROR {
            return Ok(None);
        }
        let has_details = fetch_seconds.is_some()
            || crawl_delay.is_some()
            || size != 0
            || status != 0
            || !novel.is_none()
            || !digest.is_empty();
        let counts = !digest.is_empty() && status < REDIRECTION;
        let digest = counts.then(|| xxh3_64(digest));
        let fetch_seconds = fetch_seconds.map(f64::abs);
        let is_known = novel.is(PyBool::new(novel.py(), false));
        let found = Self { has_details, fetch_seconds, crawl_delay, size, status, digest, is_known, ..Self::default() };
        Ok(Some(found))
    }

    /// Read a `Finish`; None if it needs Python. Its outcome is to be `success`.
    pub fn of(finish: &Bound<'_, PyAny>, success: &Py<PyAny>) -> PyResult<Option<Self>> {
        let py = finish.py();
        let get = |name| finish.getattr(name);
        let found = get(intern!(py, "discovered"))?;
        let links = match found.cast_into_exact::<PyList>() {
            Ok(links) => links,
            Err(other) => match other.into_inner().cast_into_exact::<PyTuple>() {
                Ok(links) => links.to_list(),
                Err(_) => return Ok(None),
            },
        };
        let Some(has_address) = is_address(&get(intern!(py, "address"))?) else { return Ok(None) };
        if !get(intern!(py, "outcome"))?.is(success)
            || !is_empty(&get(intern!(py, "reason"))?)
            || !get(intern!(py, "delay"))?.is_none()
            || !get(intern!(py, "retire_queue"))?.is(PyBool::new(py, false))
        {
            return Ok(None);
        }
        let ending = Self::read(&(
            get(intern!(py, "fetch_seconds"))?,
            get(intern!(py, "crawl_delay"))?,
            get(intern!(py, "size"))?,
            get(intern!(py, "status"))?,
            get(intern!(py, "novel"))?,
            get(intern!(py, "digest"))?,
        ))?;
        let links = Some(links.unbind()).filter(|links| !links.bind(py).is_empty());
        Ok(ending.map(|ending| ending.with(links, has_address)))
    }

    /// Read the arguments of `Frontier.finish` after the lease; None if they need Python.
    pub fn given(
        outcome: &Bound<'_, PyTuple>,
        options: &Bound<'_, PyDict>,
        success: &Py<PyAny>,
    ) -> PyResult<Option<Self>> {
        if outcome.len() > 1 || outcome.iter().any(|outcome| !outcome.is(success)) {
            return Ok(None);
        }
        if options.is_empty() {
            return Ok(Some(Self::default()));
        }
        let py = options.py();
        let (none, zero) = (py.None().into_bound(py), 0i64.into_pyobject(py)?.into_any());
        let (mut fetch_seconds, mut crawl_delay, mut novel) = (none.clone(), none.clone(), none);
        let (mut size, mut status, mut digest, mut links) =
            (zero.clone(), zero, PyBytes::new(py, b"").into_any(), None);
        let mut has_address = false;
        for (name, value) in options.iter() {
            let is_usual = match name.cast::<PyString>()?.to_str()? {
                "fetch_seconds" => set(&mut fetch_seconds, value),
                "crawl_delay" => set(&mut crawl_delay, value),
                "size" => set(&mut size, value),
                "status" => set(&mut status, value),
                "novel" => set(&mut novel, value),
                "digest" => set(&mut digest, value),
                "discovered" => match value.cast_into_exact::<PyList>() {
                    Ok(found) => {
                        links = Some(found.unbind()).filter(|links| !links.bind(py).is_empty());
                        true
                    }
                    Err(other) => other.into_inner().cast_exact::<PyTuple>().is_ok_and(|found| found.is_empty()),
                },
                "outcome" => outcome.is_empty() && value.is(success),
                "reason" => is_empty(&value),
                "address" => is_address(&value).inspect(|given| has_address = *given).is_some(),
                "delay" => value.is_none(),
                "retire_queue" => value.is(PyBool::new(py, false)),
                _ => false,
            };
            if !is_usual {
                return Ok(None);
            }
        }
        let ending = Self::read(&(fetch_seconds, crawl_delay, size, status, novel, digest))?;
        Ok(ending.map(|ending| ending.with(links, has_address)))
    }

    /// Add the links of the page, if it has any, and whether the address of its host is given.
    fn with(self, links: Option<Py<PyList>>, has_address: bool) -> Self {
        Self { has_details: self.has_details || has_address || links.is_some(), links, has_address, ..self }
    }

    /// Return for how many operations it counts.
    pub fn operations(&self, py: Python<'_>) -> usize {
        1 + self.links.as_ref().map_or(0, |links| links.bind(py).len())
    }

    /// `queue_answers.answer_class`, of a success.
    pub fn answer(&self) -> i8 {
        match self.status {
            200..400 => (self.status / 100 - 2) as i8,
            0 => UNKNOWN,
            _ => NONE,
        }
    }

    /// Return the hash of the digest, if it counts for a URI: a revisit does not.
    pub fn digest(&self, uri: impl FnOnce() -> PyResult<bool>) -> PyResult<Option<u64>> {
        Ok(match self.digest {
            Some(digest) if !uri()? => Some(digest),
            _ => None,
        })
    }
}

fn is_empty(text: &Bound<'_, PyAny>) -> bool {
    text.cast_exact::<PyString>().is_ok_and(|text| text.len().is_ok_and(|length| length == 0))
}

/// Return whether there is an address; None if it may be none.
fn is_address(text: &Bound<'_, PyAny>) -> Option<bool> {
    let text = text.cast_exact::<PyString>().ok()?.to_str().ok()?;
    if text.is_empty() { Some(false) } else { text.parse::<IpAddr>().is_ok().then_some(true) }
}

fn set<'py>(place: &mut Bound<'py, PyAny>, value: Bound<'py, PyAny>) -> bool {
    *place = value;
    true
}

/// Return a number that may be missing; None if it is no float.
fn number(given: &Bound<'_, PyAny>) -> PyResult<Option<Option<f64>>> {
    if given.is_none() {
        return Ok(Some(None));
    }
    match given.cast_exact::<PyFloat>() {
        Ok(number) => Ok(Some(Some(number.extract()?))),
        Err(_) => Ok(None),
    }
}
