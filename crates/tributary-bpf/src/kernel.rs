//! The controllers in the running kernel, through libbpf.
//!
//! A `struct_ops` map without a link stays registered after its loader exits. Deleting its only element
//! unregisters it. The kernel keeps its programs as long as a socket uses them.

use std::mem::size_of;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Composite, MemberAttr};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{
    ErrorKind, MapCore, MapFlags, MapHandle, MapType, ObjectBuilder, OpenMapMut, PrintLevel, set_print,
};

use crate::{CcError, LONGEST_NAME, Loaded};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tributary_cc.bpf.o"));

/// Prefix of the names of our maps.
const PREFIX: &str = "trib_";
/// Name of the map of groups, without [`PREFIX`].
const GROUPS: &str = "trib_groups";
/// The only key of a `struct_ops` map.
const KEY: [u8; 4] = [0; 4];
/// State of a registered `struct_ops` map (the kernel's `enum bpf_struct_ops_state`).
const IN_USE: u32 = 1;

/// Registers each pair of controller and name.
pub(crate) fn load(chosen: &[(&'static str, String)]) -> Result<(), CcError> {
    set_print(None::<(PrintLevel, fn(PrintLevel, String))>);
    let opened = ObjectBuilder::default().open_memory(OBJECT).map_err(|error| failure("object", &error));
    let mut opened = opened?;
    for mut map in opened.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
        let of_map =
            |(controller, _): &&(&str, String)| map.name() == format!("{PREFIX}{controller}").as_str();
        match chosen.iter().find(of_map) {
            Some((controller, name)) => rename(&mut map, controller, name)?,
            None => map.set_autocreate(false).map_err(|error| failure("object", &error))?,
        }
    }
    let mut loaded = opened.load().map_err(|error| failure("object", &error))?;
    // Dropping a link unregisters its controller, so one failure unloads all controllers before it.
    let mut links = Vec::new();
    for mut map in loaded.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
        let wanted = map.name().to_string_lossy().strip_prefix(PREFIX).map(str::to_owned);
        let Some((_, name)) = chosen.iter().find(|(controller, _)| wanted.as_deref() == Some(controller))
        else {
            continue;
        };
        links.push(map.attach_struct_ops().map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => CcError::Taken(name.clone()),
            _ => failure(name, &error),
        })?);
    }
    for link in &mut links {
        link.disconnect();
    }
    Ok(())
}

/// All our controllers, registered or waiting for their last socket to close.
pub(crate) fn list() -> Result<Vec<Loaded>, CcError> {
    let layout = Layout::read()?;
    let mut found: Vec<Loaded> = Vec::new();
    for info in MapInfoIter::default().filter(|info| info.ty == MapType::StructOps) {
        let Some(controller) = info.name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        // A map can disappear between two calls.
        let Ok(map) = MapHandle::from_map_id(info.id) else { continue };
        let Ok(Some(value)) = map.lookup(&KEY, MapFlags::empty()) else { continue };
        let (name, sockets, state) = layout.parse(&value);
        let controller = controller.to_owned();
        found.push(Loaded { controller, name, id: info.id, sockets, selectable: state == IN_USE });
    }
    if found.is_empty() && !may_query() {
        return Err(CcError::Permission);
    }
    found.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    Ok(found)
}

/// Unregisters the controller called `name`.
pub(crate) fn unload(name: &str) -> Result<Loaded, CcError> {
    let all = list()?;
    let Some(found) = all.iter().find(|loaded| loaded.name == name && loaded.selectable) else {
        let names: Vec<&str> = all.iter().filter(|one| one.selectable).map(|one| one.name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(CcError::NotLoaded(name.to_owned(), names));
    };
    let map = MapHandle::from_map_id(found.id).map_err(|error| failure(name, &error))?;
    map.delete(&KEY).map_err(|error| failure(name, &error))?;
    Ok(Loaded { selectable: false, ..found.clone() })
}

/// Number of entries in all maps of groups.
pub(crate) fn groups() -> Result<usize, CcError> {
    if !may_query() {
        return Err(CcError::Permission);
    }
    let maps = MapInfoIter::default().filter(|info| info.name == GROUPS);
    Ok(maps.filter_map(|info| MapHandle::from_map_id(info.id).ok()).map(|map| map.keys().count()).sum())
}

/// The kernel shows maps only to processes with CAP_BPF; others see none.
fn may_query() -> bool {
    crate::doctor().iter().filter(|check| check.need == "capabilities").all(|check| check.passed)
}

/// Writes the name into the definition before registration.
fn rename(map: &mut OpenMapMut<'_>, controller: &str, name: &str) -> Result<(), CcError> {
    let absent =
        || CcError::Other { name: name.to_owned(), reason: "its definition has no name field".to_owned() };
    let value = map.initial_value_mut().ok_or_else(absent)?;
    let mut field = [0_u8; LONGEST_NAME + 1];
    field[..controller.len()].copy_from_slice(controller.as_bytes());
    let at = value.windows(field.len()).position(|part| part == field).ok_or_else(absent)?;
    let mut text = [0_u8; LONGEST_NAME + 1];
    text[..name.len()].copy_from_slice(name.as_bytes());
    value[at..at + text.len()].copy_from_slice(&text);
    Ok(())
}

/// Offsets of the fields for [`list`] in the value of a `struct_ops` map, bytes.
struct Layout {
    sockets: usize,
    state: usize,
    name: usize,
}

impl Layout {
    fn read() -> Result<Self, CcError> {
        let types = Btf::from_vmlinux()
            .map_err(|error| CcError::Kernel(format!("no readable type information ({error})")))?;
        let member = |of: &str, name: &str| {
            offset(&types, of, name)
                .ok_or_else(|| CcError::Kernel(format!("its `{of}` has no member `{name}`")))
        };
        let (value, common) = ("bpf_struct_ops_tcp_congestion_ops", "bpf_struct_ops_common_value");
        let (head, data) = (member(value, "common")?, member(value, "data")?);
        Ok(Self {
            sockets: head + member(common, "refcnt")?,
            state: head + member(common, "state")?,
            name: data + member("tcp_congestion_ops", "name")?,
        })
    }

    /// Name, sockets and state.
    fn parse(&self, value: &[u8]) -> (String, u32, u32) {
        let number = |at: usize| {
            let bytes = value.get(at..at + size_of::<u32>()).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_ne_bytes)
        };
        let text = value.get(self.name..self.name + LONGEST_NAME + 1).unwrap_or_default();
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        (String::from_utf8_lossy(text).into_owned(), number(self.sockets), number(self.state))
    }
}

/// Offset of a member of a kernel structure, bytes.
fn offset(types: &Btf<'_>, of: &str, name: &str) -> Option<usize> {
    let composite: Composite<'_> = types.type_by_name(of)?;
    let member = composite.iter().find(|member| member.name.is_some_and(|known| known == name))?;
    match member.attr {
        MemberAttr::Normal { offset } => Some(offset as usize / 8),
        MemberAttr::BitField { .. } => None,
    }
}

fn failure(name: &str, error: &libbpf_rs::Error) -> CcError {
    match error.kind() {
        ErrorKind::PermissionDenied => CcError::Permission,
        _ => CcError::Other { name: name.to_owned(), reason: error.to_string() },
    }
}
