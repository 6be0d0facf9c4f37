//! Targets of `tests/fuzz/targets.py`, with the kernel that is instrumented in this process.

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

static TARGET: OnceLock<Py<PyAny>> = OnceLock::new();

fn load(py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
    let kernel = pyo3::wrap_pymodule!(_native::_native)(py);
    py.import("sys")?.getattr("modules")?.set_item("budgetfrontier.engine.native._native", kernel)?;
    Ok(py.import("tests.fuzz.targets")?.getattr("TARGETS")?.get_item(name)?.unbind())
}

/// Give bytes to a target, and panic for whatever it raises.
pub fn check(name: &str, raw: &[u8]) {
    Python::initialize();
    Python::attach(|py| {
        let target = TARGET.get_or_init(|| load(py, name).expect("the targets can be imported")).bind(py);
        let check = || target.call_method1("check", (target.call_method1("read", (PyBytes::new(py, raw),))?,));
        if let Err(error) = check() {
            error.display(py);
            panic!("{error}");
        }
    });
}
