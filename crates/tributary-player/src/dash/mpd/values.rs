//! Attribute values, and errors that name the element and the attribute.

use core::time::Duration;

use super::MpdError;
use super::address::ByteRange;
use super::time::duration;
use super::tree::Element;

pub(super) fn range(element: &Element, name: &str) -> Result<Option<ByteRange>, MpdError> {
    let wanted = "a byte range such as 0-785";
    let read = |text| ByteRange::parse(text).ok_or_else(|| value(element, name, wanted));
    element.attribute(name).map(read).transpose()
}

pub(super) fn time(element: &Element, name: &str) -> Result<Option<Duration>, MpdError> {
    let wanted = "a duration such as PT4S";
    let read = |text| duration(text).ok_or_else(|| value(element, name, wanted));
    element.attribute(name).map(read).transpose()
}

/// A whole number; `4.0` is one too.
pub(super) fn integer(element: &Element, name: &str) -> Result<Option<u64>, MpdError> {
    let read = |text: &str| {
        let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
        let whole = whole.parse().ok().filter(|_| fraction.bytes().all(|digit| digit == b'0'));
        whole.ok_or_else(|| value(element, name, "a whole number"))
    };
    element.attribute(name).map(read).transpose()
}

pub(super) fn value(element: &Element, name: &str, wanted: &'static str) -> MpdError {
    let value = element.attribute(name).unwrap_or_default().chars().take(80).collect();
    MpdError::Value { element: element.name.clone(), name: name.to_owned(), value, wanted }
}

pub(super) fn absent(element: &Element, what: &'static str) -> MpdError {
    MpdError::Absent { element: element.name.clone(), what }
}
