//! The Python module `ffwd._ffwd`, on the crate `ffwd-engine`. What its classes and functions do is said in
//! `python/ffwd/__init__.pyi`.
//!
//! Nothing of Python is held while the engine works: other threads go on, and Ctrl-C stops a job ([`jobs`]).

mod columns;
mod data_dir;
mod errors;
mod jobs;
mod tables;

use ffwd_engine::{ScriptFlags, ScriptType, SpentOutput};
use pyo3::prelude::*;

/// Checks that the scripts of an input accept it.
#[pyfunction]
#[pyo3(signature = (tx, input, spent, flags = "CONSENSUS"))]
fn verify_script(py: Python<'_>, tx: &[u8], input: usize, spent: Vec<(i64, Vec<u8>)>, flags: &str) -> PyResult<()> {
    let flags: ScriptFlags = flags.parse().map_err(|why| errors::script(py, &why))?;
    let spent: Vec<SpentOutput<'_>> = spent.iter().map(|(value, script)| SpentOutput::new(*value, script)).collect();
    let verified = py.detach(|| ffwd_engine::verify_script(tx, input, &spent, flags));
    verified.map_err(|why| errors::script(py, &why))
}

/// The type of a script.
#[pyfunction]
fn script_type(script: &[u8]) -> &'static str {
    ScriptType::of(script).name()
}

/// The module.
#[pymodule]
fn _ffwd(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<data_dir::DataDir>()?;
    module.add_class::<data_dir::Coins>()?;
    module.add_class::<tables::ArrowTable>()?;
    module.add_class::<jobs::Event>()?;
    module.add_class::<jobs::JobReport>()?;
    module.add_class::<jobs::VerifyReport>()?;
    module.add("Error", module.py().get_type::<errors::Error>())?;
    module.add("ScriptError", module.py().get_type::<errors::ScriptError>())?;
    module.add_function(wrap_pyfunction!(verify_script, module)?)?;
    module.add_function(wrap_pyfunction!(script_type, module)?)
}
