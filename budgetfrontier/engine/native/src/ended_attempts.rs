//! The attempts that have ended since the last commit. `engine/ended_attempts.py` is the definition, with
//! `rules/queue_history.py` and `rules/queue_answers.py`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::msgpack::{self, Reader};

/// `queue_history`: the kinds of attempts, and its numbers.
pub const SUCCESS: u8 = 0;
const DISREGARDED: u8 = 3;
const LANDED: u8 = 4;
const MOST: u16 = u16::MAX;
const WINDOW: u16 = 64;
const LARGEST: f64 = 65504.0;
const UNIT: f64 = 1024.0;

/// `queue_answers`: the classes of answers beside 2xx to 5xx, kinds of error, and digests of a window.
pub const NONE: i8 = 4;
pub const UNKNOWN: i8 = -1;
const CLASSES: usize = 5;
const MOST_KINDS: usize = 12;
const OTHER: &str = "other";
const DIGESTS: u64 = 64;

/// An attempt that has ended with details, or a download that has landed.
pub struct Attempt {
    pub queue: u32,
    pub kind: u8,
    pub seconds: Option<f64>,
    pub links: i64,
    pub new: i64,
    pub own: i64,
    pub size: i64,
    pub answer: i8,
    pub error: String,
    pub digest: Option<u64>,
}

type Given = (u32, u8, Option<f64>, i64, i64, i64, i64, i8, String, Option<u64>);

/// A row of the table `history`: counts of SUCCESS, RETRY, FAILURE and DISREGARDED; means of seconds, links, new links
/// and KiB.
struct History {
    counts: [u16; 4],
    means: [f64; 4],
}

impl History {
    fn new() -> Self {
        Self { counts: [0; 4], means: [f64::NAN; 4] }
    }

    fn read(value: &[u8]) -> Option<Self> {
        let halves: Vec<u16> = value.chunks_exact(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect();
        let halves: [u16; 8] = halves.try_into().ok()?;
        let [a, b, c, d, means @ ..] = halves;
        Some(Self { counts: [a, b, c, d], means: means.map(of_half) })
    }

    fn pack(&self) -> [u8; 16] {
        let mut out = [0; 16];
        let halves = self.counts.iter().copied().chain(self.means.iter().map(|mean| half(*mean)));
        for (place, half) in halves.enumerate() {
            out[2 * place..2 * place + 2].copy_from_slice(&half.to_be_bytes());
        }
        out
    }

    /// `queue_history.count`.
    fn count(&mut self, attempt: &Attempt) {
        let kind = attempt.kind;
        if kind != LANDED {
            if self.counts[usize::from(kind)] == MOST {
                self.counts = self.counts.map(|number| number >> 1);
            }
            self.counts[usize::from(kind)] += 1;
        }
        let [successes, retries, failures, _] = self.counts;
        let [duration, links, new, kib] = &mut self.means;
        if let Some(seconds) = attempt.seconds
            && kind != DISREGARDED
        {
            let number = u32::from(successes) + u32::from(retries) + u32::from(failures) + u32::from(kind == LANDED);
            *duration = mean(*duration, seconds, number.min(u32::from(WINDOW)));
        }
        if kind == SUCCESS {
            let number = u32::from(successes.min(WINDOW));
            *links = mean(*links, attempt.links as f64, number);
            *new = mean(*new, attempt.new as f64, number);
            *kib = mean(*kib, attempt.size as f64 / UNIT, number);
        }
        self.means = self.means.map(|mean| of_half(half(mean)));
    }
}

/// `queue_history._mean`.
fn mean(before: f64, value: f64, number: u32) -> f64 {
    let value = if value > LARGEST { LARGEST } else { value };
    if before.is_nan() { value } else { before + (value - before) / f64::from(number) }
}

/// Return a number as IEEE 754's binary16, rounded to the nearest, as `struct` packs it.
fn half(number: f64) -> u16 {
    let sign = if number.is_sign_negative() { 0x8000 } else { 0 };
    let size = number.abs();
    if size.is_nan() {
        return sign | 0x7e00;
    }
    // In units of the last place of its exponent: at least that of subnormal numbers.
    let exponent = i32::try_from(size.to_bits() >> 52).expect("eleven bits") - 1023;
    let exponent = exponent.max(-14);
    let units = (size * 2f64.powi(10 - exponent)).round_ties_even();
    if exponent > 15 || units >= 2048.0 && exponent == 15 {
        return sign | 0x7c00; // not met: means are at most LARGEST
    }
    // Beyond 1,024 units the exponent is one more than that of subnormal numbers; a carry goes into it.
    sign | ((((exponent + 14) as u16) << 10) + units as u16)
}

fn of_half(half: u16) -> f64 {
    let (exponent, fraction) = (i32::from(half >> 10 & 31), f64::from(half & 1023));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if half & 0x8000 == 0 { size } else { -size }
}

/// A row of the table `answers`: `QueueAnswers` of `core/model.py`.
#[derive(Default)]
struct Answers {
    classes: [i64; CLASSES],
    kinds: Vec<(String, i64)>,
    added: i64,
    digests: u64,
    bitmap: u64,
    repeated_before: Option<i64>,
}

impl Answers {
    /// Return a row that is as it is written; None for any other, valid or not.
    fn read(value: &[u8]) -> Option<Self> {
        let mut reader = Reader(value);
        let mut row = Self::default();
        (reader.array()? == 6 && reader.array()? == CLASSES).then_some(())?;
        for count in &mut row.classes {
            *count = reader.int()?;
        }
        for _ in 0..reader.map()? {
            row.kinds.push((reader.text()?.to_owned(), reader.int()?));
        }
        row.added = reader.int()?;
        row.digests = u64::try_from(reader.int()?).ok()?;
        row.bitmap = reader.uint()?;
        row.repeated_before = if reader.nil() { None } else { Some(reader.int()?) };
        let counts = row.classes.iter().chain(row.kinds.iter().map(|(_, count)| count)).chain([&row.added]);
        let valid = counts.into_iter().all(|count| *count >= 0)
            && row.kinds.len() <= MOST_KINDS + 1
            && u64::from(row.bitmap.count_ones()) <= row.digests
            && row.digests <= DIGESTS;
        (valid && reader.0.is_empty()).then_some(row)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        msgpack::append_array(6, &mut out);
        msgpack::append_array(CLASSES as u8, &mut out);
        for count in self.classes {
            msgpack::append_int(count, &mut out);
        }
        msgpack::append_map(self.kinds.len() as u8, &mut out);
        for (kind, count) in &self.kinds {
            msgpack::append_text(&[kind.as_bytes()], &mut out);
            msgpack::append_int(*count, &mut out);
        }
        msgpack::append_int(self.added, &mut out);
        msgpack::append_uint(self.digests, &mut out);
        msgpack::append_uint(self.bitmap, &mut out);
        match self.repeated_before {
            Some(percent) => msgpack::append_int(percent, &mut out),
            None => msgpack::append_nil(&mut out),
        }
        out
    }

    fn count(&mut self, attempt: &Attempt) {
        if let Ok(class) = usize::try_from(attempt.answer) {
            self.classes[class] += 1;
        }
        if !attempt.error.is_empty() {
            self.add(&attempt.error);
        }
        if let Some(digest) = attempt.digest {
            self.mark(digest);
        }
        self.added += attempt.own;
    }

    /// `queue_answers.add`.
    fn add(&mut self, kind: &str) {
        let known = |kind: &str| self.kinds.iter().position(|(known, _)| known == kind);
        let is_new = known(kind).is_none();
        let kind = if is_new && self.kinds.len() >= MOST_KINDS { OTHER } else { kind };
        match known(kind) {
            Some(place) => self.kinds[place].1 += 1,
            None => self.kinds.push((kind.to_owned(), 1)),
        }
    }

    /// `queue_answers.mark`.
    fn mark(&mut self, digest: u64) {
        if self.digests >= DIGESTS {
            self.repeated_before = Some((100.0 * self.share()).round_ties_even() as i64);
            self.bitmap = 0;
            self.digests = 0;
        }
        self.bitmap |= 1 << (digest % DIGESTS);
        self.digests += 1;
    }

    fn share(&self) -> f64 {
        let (all, unmarked) = (DIGESTS as f64, f64::from(self.bitmap.count_zeros()));
        let distinct = if unmarked > 0.0 { all * (all / unmarked).ln() } else { all };
        (1.0 - distinct / self.digests as f64).clamp(0.0, 1.0)
    }
}

/// The attempts that have ended since they were counted last.
#[pyclass(module = "budgetfrontier.engine.native")]
#[derive(Default)]
pub struct EndedAttempts {
    ended: Vec<Attempt>,
}

impl EndedAttempts {
    pub fn push(&mut self, attempt: Attempt) {
        self.ended.push(attempt);
    }

    pub fn len(&self) -> usize {
        self.ended.len()
    }
}

type Rows<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>;

#[pymethods]
impl EndedAttempts {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self) -> usize {
        self.len()
    }

    /// Note an attempt: the fields of `Attempt`, in order.
    fn append(&mut self, attempt: Given) {
        let (queue, kind, seconds, links, new, own, size, answer, error, digest) = attempt;
        self.push(Attempt { queue, kind, seconds, links, new, own, size, answer, error, digest });
    }

    /// Count all, and forget them; return the rows of the tables `history` and `answers` to be written, each by key.
    ///
    /// The functions return the rows that are there, by key; `usual` returns one of answers as it would be written,
    /// and raises for one that is invalid.
    fn counted<'py>(
        &mut self,
        py: Python<'py>,
        history_of: &Bound<'py, PyAny>,
        answers_of: &Bound<'py, PyAny>,
        usual: &Bound<'py, PyAny>,
    ) -> PyResult<(Rows<'py>, Rows<'py>)> {
        let mut ended = std::mem::take(&mut self.ended);
        ended.sort_by_key(|attempt| attempt.queue); // it keeps their order in each queue
        let (mut histories, mut answers): (Rows<'py>, Rows<'py>) = (Vec::new(), Vec::new());
        for attempts in ended.chunk_by(|one, other| one.queue == other.queue) {
            let key = PyBytes::new(py, &attempts[0].queue.to_be_bytes());
            let mut history = match history_of.call1((&key,))?.extract::<Option<Bound<'py, PyBytes>>>()? {
                None => History::new(),
                Some(value) => History::read(value.as_bytes())
                    .ok_or_else(|| PyValueError::new_err("a row of `history` has sixteen bytes"))?,
            };
            for attempt in attempts {
                history.count(attempt);
            }
            histories.push((key.clone(), PyBytes::new(py, &history.pack())));
            let is_counted =
                |attempt: &&Attempt| attempt.answer != UNKNOWN || attempt.own != 0 || attempt.digest.is_some();
            if !attempts.iter().any(|attempt| is_counted(&attempt)) {
                continue;
            }
            let mut row = match answers_of.call1((&key,))?.extract::<Option<Bound<'py, PyBytes>>>()? {
                None => Answers::default(),
                Some(value) => match Answers::read(value.as_bytes()) {
                    Some(row) => row,
                    None => Answers::read(&usual.call1((&key, value))?.extract::<Vec<u8>>()?)
                        .ok_or_else(|| PyValueError::new_err("the kernel cannot read a row of `answers`"))?,
                },
            };
            attempts.iter().filter(is_counted).for_each(|attempt| row.count(attempt));
            answers.push((key, PyBytes::new(py, &row.encode())));
        }
        Ok((histories, answers))
    }
}
