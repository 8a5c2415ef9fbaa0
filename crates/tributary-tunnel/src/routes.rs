//! Rules and routes: which packets leave by the device.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tributary_tun::{MAIN_TABLE, Netlink, Selector, TableRule};

use crate::selection::Selection;
use crate::settings::{GROUP_MARK, MARK, Settings};

/// Number of the routing table.
const TABLE: u32 = MARK;
/// Protocol number of these rules and routes: no other program is known to use it.
const PROTOCOL: u8 = 0x74;
/// Rules with a lower number are tried first; the kernel's for the main table has 32766.
const PRIORITY: u32 = 100;

/// The rules of a selection, in their order.
fn rules(selection: &Selection) -> Vec<TableRule> {
    let to_table =
        |selector| TableRule { priority: PRIORITY + 1, selector, table: TABLE, only_specific: false };
    // The machine's own networks are reached as before.
    let around =
        |selector| TableRule { priority: PRIORITY, selector, table: MAIN_TABLE, only_specific: true };
    let mut selectors: Vec<Selector> =
        selection.users.iter().map(|(first, last)| Selector::Users(*first, *last)).collect();
    if !selection.groups.is_empty() {
        selectors.push(Selector::Mark(GROUP_MARK));
    }
    if selection.is_everything() {
        selectors.push(Selector::WithoutMark(MARK));
    }
    let mut rules: Vec<TableRule> =
        selectors.into_iter().flat_map(|selector| [around(selector), to_table(selector)]).collect();
    if !selection.networks.is_empty() {
        rules.push(TableRule {
            priority: PRIORITY + 2,
            table: TABLE + 1,
            ..to_table(Selector::WithoutMark(MARK))
        });
    }
    rules
}

fn all(six: bool) -> (IpAddr, u8) {
    (if six { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }, 0)
}

/// Leads what is selected to the device. `six`: this kernel has IPv6.
pub(crate) fn add(settings: &Settings, six: bool) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let selection = &settings.selection;
    for six in [Some(false), six.then_some(true)].into_iter().flatten() {
        netlink.add_table_route(&settings.device, all(six), (TABLE, PROTOCOL))?;
        if settings.kill_switch {
            netlink.add_unreachable(six, TABLE, PROTOCOL)?;
        }
        for network in selection.networks.iter().filter(|(address, _)| address.is_ipv6() == six) {
            netlink.add_table_route(&settings.device, *network, (TABLE + 1, PROTOCOL))?;
        }
        for rule in rules(selection) {
            netlink.add_table_rule(six, &rule, PROTOCOL)?;
        }
    }
    Ok(())
}

/// Takes back what [`add`] did, in this process or another. Routes to the device go with it.
pub(crate) fn remove() -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    for six in [false, true] {
        // A kernel without IPv6 has nothing to remove.
        let removed = netlink
            .delete_table_rules(six, PROTOCOL)
            .and_then(|_| netlink.delete_unreachable(six, TABLE, PROTOCOL));
        if !six {
            removed?;
        }
    }
    Ok(())
}
