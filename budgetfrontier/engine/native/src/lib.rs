//! Admission of plain URLs by the batch, and plain turns of queues, for `budgetfrontier.engine`, and the reader of items
//! of PutURLs for `budgetfrontier.server`.
//!
//! The Python engine is the definition: each rule that is repeated here is named beside it, and
//! `tests/engine/native/test_histories.py` compares every table that both write, under all settings.

#![forbid(unsafe_code)]

mod authorities;
mod batch;
mod calls;
mod canonical;
mod carriers;
mod charged_attempts;
mod deletions;
mod ended_attempts;
mod endings;
mod fields;
mod found_urls;
mod hashing;
mod kept_urls;
mod leases_out;
mod live_queue;
mod msgpack;
mod overrides;
mod plain_hosts;
mod queue_records;
mod read_ahead;
mod reader;
mod records;
mod ring;
mod snoozed_rows;
mod taken_keys;
mod turns;

use pyo3::prelude::*;

#[pymodule]
pub fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<charged_attempts::ChargedAttempts>()?;
    module.add_class::<ended_attempts::EndedAttempts>()?;
    module.add_function(wrap_pyfunction!(found_urls::read_found, module)?)?;
    module.add_class::<kept_urls::KeptUrls>()?;
    module.add_class::<leases_out::LeasesOut>()?;
    module.add_class::<live_queue::LiveQueue>()?;
    module.add_function(wrap_pyfunction!(live_queue::changed_records, module)?)?;
    module.add_class::<overrides::Effective>()?;
    module.add_class::<queue_records::QueueRecords>()?;
    module.add_class::<queue_records::QueueIds>()?;
    module.add_class::<read_ahead::ReadAhead>()?;
    module.add_class::<ring::Ring>()?;
    module.add_class::<snoozed_rows::SnoozedRows>()?;
    module.add_class::<taken_keys::TakenKeys>()?;
    module.add_class::<turns::Turns>()?;
    module.add_class::<reader::BatchReader>()?;
    module.add_class::<batch::PlainBatch>()
}
