//! The checks.

use super::{Machine, Verdict, absent, good, limited};
use crate::commands::exec::inside_command;
use rustix::process::{Resource, getrlimit};
use socket2::{Domain, Protocol, Socket, Type};
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

/// Start of 2026 as Unix time. A clock that shows an earlier time is wrong.
const RELEASED: Duration = Duration::from_secs(1_767_225_600);
/// Smallest MTU of IPv6 (RFC 8200, section 5).
const LEAST_MTU: u32 = 1280;
/// Descriptors of about 20 000 connections: one each, and one for each subflow.
const DESCRIPTORS: u64 = 65_536;
/// What encodes H.264.
const ENCODER: &str = "libx264";

pub(super) fn kernel(machine: &Machine) -> Verdict {
    let release = machine.read("proc/sys/kernel/osrelease").unwrap_or_default();
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok());
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let version = number(parts.next()).zip(number(parts.next()));
    let newer = "use Linux 5.17 or later";
    match version {
        Some(version) if version >= (5, 17) => good(format!("Linux {release}")),
        Some(version) if version >= (5, 7) => {
            limited(format!("Linux {release}: --mark needs CAP_NET_ADMIN"), newer)
        }
        Some(_) => {
            limited(format!("Linux {release}: --mark needs CAP_NET_ADMIN, interfaces CAP_NET_RAW"), newer)
        }
        None => limited(format!("the kernel calls itself {release:?}"), newer),
    }
}

pub(super) fn clock(_: &Machine) -> Verdict {
    match UNIX_EPOCH.elapsed() {
        Ok(since) if since >= RELEASED => good("later than this release"),
        _ => absent(
            "earlier than this release: a gateway refuses a hop whose clock went back, and certificates are not valid",
            "set the time: timedatectl set-ntp true",
        ),
    }
}

/// Names of the interfaces that are up, without the loopback interface. Tunnels report no state of their own: "unknown".
fn up(machine: &Machine) -> Vec<String> {
    let entries = std::fs::read_dir(machine.root.join("sys/class/net")).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let is_up = |name: &String| {
        let state = machine.read(&format!("sys/class/net/{name}/operstate"));
        name != "lo" && state.is_some_and(|state| state == "up" || state == "unknown")
    };
    names.retain(is_up);
    names.sort();
    names
}

pub(super) fn interfaces(machine: &Machine) -> Verdict {
    match up(machine).as_slice() {
        [] => absent("no interface is up", "ip link set NAME up, or join a network"),
        [one] => limited(
            format!("one interface is up: {one}; a session has one path"),
            "join a second network, or plug in a phone (USB tethering)",
        ),
        several => good(format!("up: {}", several.join(", "))),
    }
}

pub(super) fn mtu(machine: &Machine) -> Verdict {
    let mtu = |name: &String| Some((name.clone(), machine.read(&format!("sys/class/net/{name}/mtu"))?));
    let all: Vec<_> = up(machine).iter().filter_map(mtu).collect();
    let small = |text: &str| text.parse::<u32>().is_ok_and(|mtu| mtu < LEAST_MTU);
    let list = |found: &mut dyn Iterator<Item = &(String, String)>| {
        found.map(|(name, mtu)| format!("{name} {mtu}")).collect::<Vec<_>>().join(", ")
    };
    let less = list(&mut all.iter().filter(|(_, mtu)| small(mtu)));
    if less.is_empty() {
        return good(if all.is_empty() { "nothing is up".to_owned() } else { list(&mut all.iter()) });
    }
    limited(
        format!("{less}: less than {LEAST_MTU} bytes, so no IPv6 there, and slow"),
        format!("ip link set NAME mtu {LEAST_MTU}, if the network allows it"),
    )
}

pub(super) fn rp_filter(machine: &Machine) -> Verdict {
    let names = up(machine);
    let value = |name: &str| {
        let text = machine.read(&format!("proc/sys/net/ipv4/conf/{name}/rp_filter"));
        text.and_then(|text| text.parse::<u8>().ok()).unwrap_or(0)
    };
    let strict: Vec<_> =
        names.iter().filter(|name| value("all").max(value(name)) == 1).map(String::as_str).collect();
    if names.len() < 2 || strict.is_empty() {
        return good("answers may arrive on every interface that has a path");
    }
    limited(
        format!("strict on {}: answers are dropped if the main route leads elsewhere", strict.join(", ")),
        "sysctl net.ipv4.conf.all.rp_filter=2",
    )
}

pub(super) fn ipv6(_: &Machine) -> Verdict {
    match Socket::new(Domain::IPV6, Type::STREAM, None) {
        Ok(_) => good("the kernel has it"),
        Err(error) => absent(error.to_string(), "boot without ipv6.disable=1"),
    }
}

pub(super) fn descriptors(_: &Machine) -> Verdict {
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < DESCRIPTORS => limited(
            format!("at most {most}: a connection needs one at each end, a path one more"),
            format!("LimitNOFILE={DESCRIPTORS} in the unit, or ulimit -Hn {DESCRIPTORS}"),
        ),
        Some(most) => good(format!("up to {most}; programs raise their own limit")),
        None => good("no limit"),
    }
}

pub(super) fn congestion(machine: &Machine) -> Verdict {
    let read = |name| machine.read(&format!("proc/sys/net/ipv4/{name}")).unwrap_or_default();
    let (default, available) = (read("tcp_congestion_control"), read("tcp_available_congestion_control"));
    if available.split(' ').any(|name| name == "cubic" || name == "bbr") {
        return good(format!("default {default}; available: {available}"));
    }
    limited(format!("default {default}; available: {available}"), "modprobe tcp_cubic, or modprobe tcp_bbr")
}

pub(super) fn mptcp(machine: &Machine) -> Verdict {
    let enabled = machine.read("proc/sys/net/mptcp/enabled");
    match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)) {
        Ok(_) => good("the kernel has it"),
        Err(_) if enabled.as_deref() == Some("0") => absent("switched off", "sysctl net.mptcp.enabled=1"),
        Err(error) => absent(error.to_string(), "use a kernel with CONFIG_MPTCP=y (5.6 or later)"),
    }
}

pub(super) fn ebpf(_: &Machine) -> Verdict {
    let checks = tributary_bpf::doctor();
    let missing: Vec<_> = checks.into_iter().filter(|check| !check.passed).collect();
    let list =
        |part: fn(&tributary_bpf::Check) -> String| missing.iter().map(part).collect::<Vec<_>>().join("; ");
    if missing.is_empty() {
        return good("congestion controllers can be loaded");
    }
    absent(format!("missing: {}", list(|check| check.need.to_owned())), list(|check| check.finding.clone()))
}

pub(super) fn tun(machine: &Machine) -> Verdict {
    match std::fs::File::options().read(true).write(true).open(machine.root.join("dev/net/tun")) {
        Ok(_) => good("/dev/net/tun can be opened; making a device needs CAP_NET_ADMIN"),
        Err(error) => absent(
            format!("/dev/net/tun: {error}"),
            "modprobe tun; in a container add --device /dev/net/tun --cap-add NET_ADMIN",
        ),
    }
}

pub(super) fn namespaces(_: &Machine) -> Verdict {
    let Ok(executable) = std::env::current_exe() else {
        return absent("this program's own file is gone", "start it again");
    };
    // The program never begins: dropping it ends the process, and with it the namespace.
    match tributary_exec::Program::start(
        inside_command(&executable).stderr(Stdio::null()),
        &[OsString::from("true")],
    ) {
        Ok(_) => good("a namespace with redirected connections was made, and is gone again"),
        Err(error) => absent(error.to_string(), "see the reason"),
    }
}

pub(super) fn ffmpeg(_: &Machine) -> Verdict {
    let install = "install it (Debian, Ubuntu: package ffmpeg)";
    match Command::new("ffmpeg").args(["-hide_banner", "-encoders"]).stdin(Stdio::null()).output() {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains(ENCODER) => {
            good(format!("it has {ENCODER}"))
        }
        Ok(_) => absent(format!("it has no {ENCODER}"), "install a build of ffmpeg with x264"),
        Err(error) => absent(format!("ffmpeg: {error}"), install),
    }
}
