//! Interfaces that come, go, change their address or name, and flap.

use tributary_tun::Route;

use super::*;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn path(text: &str) -> PathConfig {
    PathConfig::parse(text, Some("203.0.113.5:7000")).unwrap()
}

fn follow(paths: &[&str]) -> Follow {
    let local = |text: &&str| match text.strip_prefix("dev:") {
        // Names interfaces that this host does not have.
        Some(name) => PathConfig { local: Local::Interface(name.to_owned()), ..path("any") },
        None => path(text),
    };
    Follow::new(paths.iter().map(local).collect(), Instant::ZERO)
}

/// Interfaces with one address each and a default route.
fn network(interfaces: &[(&str, &str)]) -> Network {
    let mut network = Network::default();
    for (at, (name, address)) in interfaces.iter().enumerate() {
        let index = at as u32 + 1;
        let addresses = vec![address.parse().unwrap()];
        let name = (*name).to_owned();
        network.interfaces.push(Interface { index, name, up: true, loopback: false, addresses });
        network.routes.push(Route { to: ("0.0.0.0".parse().unwrap(), 0), table: 254, interface: index });
    }
    network
}

/// The changes that the machine returns, as words: `+wlan0`, `-0` and `0=20` for a cap in Mbit/s.
fn changes(follow: &mut Follow) -> Vec<String> {
    let word = |change| match change {
        Change::Add(_, config) => format!("+{}", config.local_name()),
        Change::Remove(path, _) => format!("-{}", path.0),
        Change::Cap(path, cap) => format!("{}={}", path.0, cap.map_or(0.0, Bitrate::as_mbps_f64)),
    };
    std::iter::from_fn(|| follow.poll_change()).map(word).collect()
}

#[test]
fn auto_adds_every_interface_with_a_route_that_no_other_path_names() {
    let mut follow = follow(&["auto", "dev:wwan0"]);
    let mut now = network(&[("wlan0", "10.0.0.2"), ("wwan0", "10.1.0.2")]);
    now.interfaces.push(Interface { loopback: true, name: "lo".to_owned(), ..now.interfaces[0].clone() });
    follow.handle_network(at(0), &now);
    assert_eq!(changes(&mut follow), ["+wwan0", "+wlan0"]);
    // USB tethering: first the interface appears, then its address, then its route.
    let full = network(&[("wlan0", "10.0.0.2"), ("wwan0", "10.1.0.2"), ("usb0", "10.2.0.2")]);
    let mut coming = full.clone();
    coming.interfaces[2].addresses.clear();
    coming.routes.pop();
    follow.handle_network(at(100), &coming);
    coming.interfaces[2].addresses = full.interfaces[2].addresses.clone();
    follow.handle_network(at(200), &coming);
    assert_eq!(changes(&mut follow), [""; 0]);
    follow.handle_network(at(300), &full);
    assert_eq!(changes(&mut follow), ["+usb0"]);
    follow.handle_network(at(400), &now);
    assert_eq!(changes(&mut follow), ["-2"]);
}

#[test]
fn a_changed_address_or_name_gives_a_new_path() {
    let mut follow = follow(&["auto"]);
    follow.handle_network(at(0), &network(&[("wlan0", "10.0.0.2")]));
    assert_eq!(changes(&mut follow), ["+wlan0"]);
    // A second address changes nothing; losing the address in use does.
    let mut two = network(&[("wlan0", "10.0.0.2")]);
    two.interfaces[0].addresses.push("10.0.9.9".parse().unwrap());
    follow.handle_network(at(1000), &two);
    assert_eq!(changes(&mut follow), [""; 0]);
    follow.handle_network(at(2000), &network(&[("wlan0", "10.0.9.9")]));
    assert_eq!(changes(&mut follow), ["-0", "+wlan0"]);
    follow.handle_network(at(3000), &network(&[("lan5", "10.0.9.9")]));
    assert_eq!(changes(&mut follow), ["-1", "+lan5"]);
    // An interface without a carrier counts as away.
    let mut down = network(&[("lan5", "10.0.9.9")]);
    down.interfaces[0].up = false;
    follow.handle_network(at(4000), &down);
    assert_eq!(changes(&mut follow), ["-2"]);
}

#[test]
fn an_address_is_followed_once_an_interface_has_had_it() {
    let mut follow = follow(&["10.0.0.2", "10.7.7.7", "127.0.0.2"]);
    follow.handle_network(at(0), &network(&[("wlan0", "10.0.0.2")]));
    assert_eq!(changes(&mut follow), ["+10.0.0.2", "+10.7.7.7", "+127.0.0.2"]);
    follow.handle_network(at(1), &network(&[]));
    assert_eq!(changes(&mut follow), ["-0"], "a rule of the kernel may make 10.7.7.7 usable");
    // When the address appears, it is connected at once, without waiting for the next attempt.
    follow.handle_network(at(2), &network(&[("usb0", "10.7.7.7")]));
    assert_eq!(changes(&mut follow), ["-1", "+10.7.7.7"]);
    follow.handle_network(at(3), &network(&[]));
    assert_eq!(changes(&mut follow), ["-3"]);
}

#[test]
fn an_interface_that_flaps_ten_times_a_second_is_used_again_once_it_is_stable() {
    let mut follow = follow(&["auto"]);
    let (up, down) = (network(&[("usb0", "10.2.0.2")]), network(&[]));
    let mut added = 0;
    for flap in 0..1000 {
        let now = flap * 100;
        follow.handle_network(at(now), &up);
        added += changes(&mut follow).iter().filter(|word| word.starts_with('+')).count();
        follow.handle_timeout(at(now + 50));
        follow.handle_network(at(now + 50), &down);
        changes(&mut follow);
        assert_eq!(follow.poll_timeout(), None, "nothing to wait for while it is away");
    }
    assert_eq!(added, FREE_FLAPS as usize);
    follow.handle_network(at(200_000), &up);
    let due = follow.poll_timeout().unwrap();
    assert!(due > at(200_000) && due <= at(200_000) + STAY.1, "{due}");
    follow.handle_timeout(due);
    assert_eq!(changes(&mut follow), ["+usb0"]);
    // After a calm time, a local end is again used as soon as it appears.
    follow.handle_network(due + CALM, &down);
    follow.handle_network(due + CALM, &up);
    assert_eq!(changes(&mut follow), ["-3", "+usb0"]);
}

#[test]
fn thousands_of_interfaces_leave_no_state_behind() {
    let mut follow = follow(&["auto", "dev:wlan0"]);
    for round in 0..2000 {
        let name = format!("usb{round}");
        follow.handle_network(at(round * 1000), &network(&[("wlan0", "10.0.0.2"), (&name, "10.2.0.2")]));
        let used = follow.ends.iter().filter(|end| end.path.is_some()).count();
        assert_eq!((used, changes(&mut follow).is_empty()), (2, false));
        assert!(follow.ends.len() < 100);
    }
    // Not more paths than a session may have.
    let names: Vec<String> = (0..20).map(|at| format!("eth{at}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (&name[..], "10.3.0.2")).collect();
    follow.handle_network(at(3_000_000), &network(&many));
    assert_eq!(follow.ends.iter().filter(|end| end.path.is_some()).count(), MAX_PATHS);
    assert_eq!(follow.poll_timeout(), None);
}

#[test]
fn a_removed_path_says_what_is_missing() {
    let there = network(&[("wlan0", "10.0.0.2")]);
    let gone = |change: fn(&mut Network), wanted: &str| {
        let mut follow = follow(&[wanted]);
        follow.handle_network(at(0), &there);
        while follow.poll_change().is_some() {}
        let mut now = there.clone();
        change(&mut now);
        follow.handle_network(at(100), &now);
        match follow.poll_change() {
            Some(Change::Remove(_, loss)) => loss,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(gone(|now| now.interfaces.clear(), "dev:wlan0"), Loss::NoInterface);
    assert_eq!(gone(|now| now.interfaces[0].up = false, "auto"), Loss::Down);
    assert_eq!(gone(|now| now.interfaces[0].addresses.clear(), "dev:wlan0"), Loss::NoAddress);
    assert_eq!(gone(|now| now.routes.clear(), "auto"), Loss::NoRoute);
    assert_eq!(gone(|now| now.interfaces.clear(), "10.0.0.2"), Loss::AddressGone);
    let other = |now: &mut Network| now.interfaces[0].addresses = vec!["10.0.0.9".parse().unwrap()];
    assert_eq!(gone(other, "dev:wlan0"), Loss::Changed);
}

#[test]
fn paths_in_both_configurations_go_on_and_the_others_are_replaced() {
    let mut follow = follow(&["auto", "dev:wwan0"]);
    let now = network(&[("wlan0", "10.0.0.2"), ("wwan0", "10.1.0.2"), ("eth0", "10.2.0.2")]);
    follow.handle_network(at(0), &now);
    assert_eq!(changes(&mut follow), ["+wwan0", "+wlan0", "+eth0"]);
    let path =
        |name: &str, metered| PathConfig { local: Local::Interface(name.to_owned()), metered, ..path("any") };
    // wlan0 was found by `auto` and is named now; eth0 belongs to `auto` alone.
    follow.set_wanted(vec![path("wlan0", false), path("wwan0", true)]);
    follow.handle_network(at(10), &now);
    assert_eq!(changes(&mut follow), ["-0", "-2", "+wwan0"]);
    let auto = PathConfig { local: Local::Auto, ..path("any", false) };
    follow.set_wanted(vec![auto]);
    follow.handle_network(at(20), &now);
    assert_eq!(changes(&mut follow), ["-3", "+wwan0", "+eth0"]);
    follow.set_wanted(Vec::new());
    follow.handle_network(at(30), &Network::default());
    assert_eq!(changes(&mut follow), ["-1", "-4", "-5"]);
    assert!(follow.ends.is_empty());
}

#[test]
fn another_cap_keeps_the_path_and_its_connection() {
    let mut follow = follow(&["auto", "dev:wwan0"]);
    let now = network(&[("wlan0", "10.0.0.2"), ("wwan0", "10.1.0.2")]);
    follow.handle_network(at(0), &now);
    assert_eq!(changes(&mut follow), ["+wwan0", "+wlan0"]);
    let wwan = |cap| PathConfig { local: Local::Interface("wwan0".to_owned()), cap, ..path("any") };
    let mbps = |mbps| Some(Bitrate::from_mbps(mbps));
    let mut becomes = |wanted: Vec<PathConfig>| {
        follow.set_wanted(wanted);
        follow.handle_network(at(10), &now);
        changes(&mut follow)
    };
    assert_eq!(becomes(vec![path("auto"), wwan(mbps(20))]), ["0=20"]);
    assert_eq!(becomes(vec![path("auto,cap=5"), wwan(mbps(20))]), ["1=5"]);
    assert_eq!(becomes(vec![path("auto,cap=5"), wwan(mbps(20))]), [""; 0]);
    // `auto` takes over the interface, with its own cap; then it is named again.
    assert_eq!(becomes(vec![path("auto,cap=7")]), ["0=7", "1=7"]);
    assert_eq!(becomes(vec![path("auto"), wwan(None)]), ["0=0", "1=0"]);
    // Another change of the same path replaces it.
    assert_eq!(becomes(vec![path("auto"), PathConfig { metered: true, ..wwan(mbps(3)) }]), ["-0", "+wwan0"]);
}
