//! Fields of a program's status, with a default for each that is missing.

use serde_json::Value;

/// A list; empty without one.
pub(crate) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// A number; zero without one.
pub(crate) fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_default()
}

/// A text; `-` without one.
pub(crate) fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("-")
}
