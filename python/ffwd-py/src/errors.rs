//! The engine's errors as exceptions, with attributes for programs.

use ffwd_engine::ErrorKind;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use std::error::Error as _;

pyo3::create_exception!(ffwd, Error, PyException, "Why a call failed: what happened, to which file, and what to do.");
pyo3::create_exception!(ffwd, ScriptError, PyValueError, "Why verify_script says no.");

fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Missing => "missing",
        ErrorKind::Permission => "permission",
        ErrorKind::NoSpace => "no_space",
        ErrorKind::Io => "io",
        ErrorKind::InUse => "in_use",
        ErrorKind::Damaged => "damaged",
        ErrorKind::OtherFormat => "other_format",
        ErrorKind::OtherNetwork => "other_network",
        ErrorKind::Refused => "refused",
        ErrorKind::NeedsReindex => "needs_reindex",
        ErrorKind::Stopped => "stopped",
        _ => "internal",
    }
}

/// The number of the system's error among the sources.
fn errno(error: &ffwd_engine::Error) -> Option<i32> {
    let mut next = error.source();
    while let Some(source) = next {
        if let Some(error) = source.downcast_ref::<std::io::Error>() {
            return error.raw_os_error();
        }
        next = source.source();
    }
    None
}

/// The exception of an error of the engine's.
pub(crate) fn engine(py: Python<'_>, error: &ffwd_engine::Error) -> PyErr {
    let exception = Error::new_err(error.to_string());
    let value = exception.value(py);
    let set = value
        .setattr("kind", kind_name(error.kind()))
        .and_then(|()| value.setattr("path", error.path().map(|path| path.to_string_lossy().into_owned())))
        .and_then(|()| value.setattr("errno", errno(error)));
    set.err().unwrap_or(exception)
}

/// The exception of a script that fails.
pub(crate) fn script(py: Python<'_>, error: &ffwd_engine::ScriptError) -> PyErr {
    let name = match error {
        ffwd_engine::ScriptError::Failed { name, .. } => Some(*name),
        _ => None,
    };
    let exception = ScriptError::new_err(error.to_string());
    let set = exception.value(py).setattr("name", name);
    set.err().unwrap_or(exception)
}
