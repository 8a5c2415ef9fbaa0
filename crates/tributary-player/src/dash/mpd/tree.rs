//! XML as a tree of bounded size. Namespaces are removed: a manifest has only one, and its prefix is arbitrary.

use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use tributary_types::file_text;

use super::MpdError;

const MAX_DEPTH: usize = 32;
const MAX_ELEMENTS: usize = 200_000;
const MAX_ATTRIBUTES: usize = 64;

/// An element.
#[derive(Debug, Default)]
pub(super) struct Element {
    pub name: String,
    pub attributes: Vec<(String, String)>,
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn children_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    pub fn child<'a>(&'a self, name: &'a str) -> Option<&'a Self> {
        self.children_named(name).next()
    }
}

/// Reads the root element.
pub(super) fn read(text: &[u8]) -> Result<Element, MpdError> {
    let text = file_text::decode(text)
        .map_err(|error| MpdError::Xml { at: error.at as u64, what: error.to_string() })?;
    let mut reader = Reader::from_str(&text);
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    let mut elements = 0;
    loop {
        let event = reader.read_event();
        let at = reader.buffer_position();
        let malformed = |what: String| MpdError::Xml { at, what };
        let closed = match event.map_err(|error| malformed(error.to_string()))? {
            Event::Start(start) => {
                if open.len() == MAX_DEPTH {
                    return Err(MpdError::Excess { at, limit: MAX_DEPTH, what: "nested elements" });
                }
                elements += 1;
                open.push(element(&start, at)?);
                None
            }
            Event::Empty(start) => {
                elements += 1;
                Some(element(&start, at)?)
            }
            Event::End(_) => open.pop(),
            Event::Text(part) => {
                add_text(&mut open, &part);
                None
            }
            Event::CData(part) => {
                add_text(&mut open, &part);
                None
            }
            Event::GeneralRef(reference) => {
                let mut buffer = [0; 4];
                let resolved = character(&reference).ok_or_else(|| malformed("unknown entity".to_owned()))?;
                add_text(&mut open, resolved.encode_utf8(&mut buffer));
                None
            }
            Event::DocType(_) => return Err(MpdError::DocumentType(at)),
            Event::Eof => break,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => None,
        };
        if elements > MAX_ELEMENTS {
            return Err(MpdError::Excess { at, limit: MAX_ELEMENTS, what: "elements" });
        }
        match (closed, open.last_mut()) {
            (Some(element), Some(parent)) => parent.children.push(element),
            (Some(element), None) => root = root.or(Some(element)),
            (None, _) => {}
        }
    }
    let at = text.len() as u64;
    let ended = |what: &str| MpdError::Xml { at, what: what.to_owned() };
    match (open.pop(), root) {
        (Some(element), _) => Err(ended(&format!("it ends within <{}>", element.name))),
        (None, Some(root)) => Ok(root),
        (None, None) => Err(ended("no element")),
    }
}

fn element(start: &BytesStart<'_>, at: u64) -> Result<Element, MpdError> {
    let malformed = |what: String| MpdError::Xml { at, what };
    let name = start.local_name().as_ref().to_owned();
    let mut element = Element { name, ..Element::default() };
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| malformed(error.to_string()))?;
        if element.attributes.len() == MAX_ATTRIBUTES {
            return Err(MpdError::Excess { at, limit: MAX_ATTRIBUTES, what: "attributes of an element" });
        }
        let name = attribute.key.local_name().as_ref().to_owned();
        let value = attribute.normalized_value(XmlVersion::Implicit1_0);
        let value = value.map_err(|error| malformed(error.to_string()))?.into_owned();
        element.attributes.push((name, value));
    }
    Ok(element)
}

/// One of the five entities predefined in XML, or a character by number.
fn character(reference: &BytesRef<'_>) -> Option<char> {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return Some(character);
    }
    let name: &str = reference;
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    }
}

fn add_text(open: &mut [Element], part: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(part);
    }
}
