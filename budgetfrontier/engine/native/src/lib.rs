//! Admission of plain URLs by the batch, for `budgetfrontier.engine.admission`.
//!
//! The Python engine is the definition: each rule that is repeated here is named beside it, and
//! `tests/engine/admission/test_kernel.py` compares every table that both write.

#![forbid(unsafe_code)]

mod batch;
mod canonical;
mod hashing;
mod reader;
mod records;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<reader::BatchReader>()?;
    module.add_class::<batch::PlainBatch>()
}
