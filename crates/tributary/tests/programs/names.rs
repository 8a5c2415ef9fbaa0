//! `dig` against Debian's resolver dnsmasq at the server's side.

use std::fs;
use std::process::Command;

use tributary_emu::Side;

use crate::far_side::{NAME, WEB, said};
use crate::world::{Carrier, NAMES, NEAR_RESOLVER, Way, World, numbered};

/// Names in each step of the radios' troubles.
const EACH: u8 = 10;

/// No question is asked twice, so that each one must be answered.
const DIG: [&str; 4] = ["+tries=1", "+time=30", "+nocookie", "+noedns"];

fn dig(carrier: &Carrier<'_>, words: &[&str]) -> String {
    said(&carrier.command("dig").args(DIG).args(words).output().expect("dig"), 0)
}

/// Resolves some of the names, both families of each.
fn resolve(carrier: &Carrier<'_>, number: u8) {
    for number in number..number + EACH {
        let (name, four, six) = numbered(number % NAMES);
        let answer = dig(carrier, &["+short", &name, "A", "+short", &name, "AAAA"]);
        assert_eq!(answer, format!("{four}\n{six}\n"));
    }
}

fn questions(world: &World) -> String {
    fs::read_to_string(world.at("resolver.log")).expect("the resolver's log")
}

pub fn names_are_resolved_through_the_tunnel_only(world: &World) {
    // Without the tunnel the question leaves, is counted, and stays without an answer.
    let mut without: Command = world.network.command(Side::Client, "dig");
    said(&without.args(["+tries=1", "+time=1", NAME]).output().expect("dig"), 9);
    assert!(world.outside() > 0, "the question is counted");
    let carrier = world.carry(Way::Tunnel);
    let mut number = 0;
    world.troubles(|_| {
        resolve(&carrier, number);
        number += EACH;
    });
    let near = format!("@{NEAR_RESOLVER}");
    for server in [&near[..], "@192.0.2.53"] {
        assert_eq!(dig(&carrier, &[server, "+short", NAME]), format!("{WEB}\n"), "{server}");
    }
    let absent = dig(&carrier, &["no-such-name.example"]);
    assert!(absent.contains("status: NXDOMAIN"), "{absent}");
    let other = dig(&carrier, &["TXT", NAME]);
    assert!(other.contains("status: NOERROR") && other.contains("ANSWER: 0"), "{other}");
    carrier.end();
    let asked = questions(world);
    for (name, ..) in (0..NAMES).map(numbered) {
        assert!(
            asked.contains(&format!("query[A] {name} ")),
            "the server's resolver was not asked for {name}"
        );
    }
}

pub fn names_are_resolved_for_one_program(world: &World) {
    let carrier = world.carry(Way::Exec);
    let before = questions(world).len();
    resolve(&carrier, 0);
    assert_eq!(dig(&carrier, &["@192.0.2.53", "+short", NAME]), format!("{WEB}\n"));
    assert!(questions(world)[before..].contains(&format!("query[A] {NAME} ")));
    carrier.end();
}
