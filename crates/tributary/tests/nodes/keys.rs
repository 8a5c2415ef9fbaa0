//! What a node does with neighbours' keys: refuses unknown ones, cuts off those that were taken out, says what shared ones mean.

use super::{World, owned, point_address, strs};
use std::fs;
use std::net::SocketAddr;
use tributary_emu::{Host, RelayNetwork};
use tributary_testing::until;

pub(super) fn a_node_with_another_key_is_refused() {
    let world = World::new();
    world.keygen(&["--out", &world.key("stranger")]);
    let with_key = |arguments: &[String], of: &str| {
        let is_own = |argument: &String| **argument == world.key(of);
        let changed =
            |argument: &String| if is_own(argument) { world.key("stranger") } else { argument.clone() };
        arguments.iter().map(changed).collect::<Vec<_>>()
    };
    // A device that the access point does not know; and an access point that the gateway does not know.
    let device = with_key(&world.device_arguments(&["0.0.0.0/0"]), "device");
    let stranger = with_key(&world.point_arguments(1, &[]), "ap2");
    let gateway = world.gateway_arguments(&world.public("ap1"), &["--key", &world.key("gateway")]);
    let _gateway = world.start_logged(Host::Gateway, &strs(&gateway), "gateway.log");
    let _point = world.start_logged(Host::AccessPoint(0), &strs(&world.point_arguments(0, &[])), "ap1.log");
    world.logs("ap1.log", "session established");
    let stranger_runs = world.start_logged(Host::AccessPoint(1), &strs(&stranger), "ap2.log");
    let device_runs = world.start_logged(Host::Device, &strs(&device), "device.log");
    world.logs("gateway.log", "whose key is no neighbour's");
    world.logs(
        "ap1.log",
        "whose key is no neighbour's, and 0 before; neighbours that are not connected: device",
    );
    world.logs("ap2.log", "gateway at 10.78.2.1:7100 does not answer");
    world.logs("device.log", "wifi at 192.0.2.1:7200 does not answer");
    drop((stranger_runs, device_runs));
    let _device = world.start_device(&["0.0.0.0/0"], &[]);
    world.transfer();
    for log in ["ap2.log", "device.log"] {
        let lines = fs::read_to_string(world.key(log)).expect("a log");
        assert!(!lines.contains("session established"), "{log}: {lines}");
    }
}

pub(super) fn an_access_point_is_taken_out() {
    let world = World::new();
    let metrics = SocketAddr::from(([127, 0, 0, 1], 9100));
    let (key, address) = (world.key("gateway"), RelayNetwork::tunnel(1));
    let [one, two] = ["ap1", "ap2"].map(|name| format!("'{name}={}'", world.public(name)));
    let write = |points: &str| {
        let settings = format!(
            "command = 'gateway'\nlisten = '0.0.0.0:7100'\naccess_point = [{points}]\ntun = 'cotag0'\n\
             address = ['{address}/24']\nkey = '{key}'\nmetrics = '{metrics}'\n"
        );
        fs::write(world.key("gateway.toml"), settings).expect("a file");
    };
    write(&format!("{one}, {two}"));
    let gateway = world.start_logged(Host::Gateway, &["run", &world.key("gateway.toml")], "gateway.log");
    let hang_up = || {
        let pid = rustix::process::Pid::from_child(&gateway.0);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it runs");
    };
    let _points = [0, 1].map(|point| {
        let log = format!("ap{}.log", point + 1);
        world.start_logged(Host::AccessPoint(point), &strs(&world.point_arguments(point, &[])), &log)
    });
    let mut device = world.device_arguments(&["0.0.0.0/0"]);
    let other = format!("wigig={},{}", point_address(1), world.public("ap2"));
    device.extend(owned(&["--access-point", &other]));
    let _device = world.start(Host::Device, &strs(&device));
    world.transfer();
    let up = |name: &str| {
        world.metric(metrics, &format!("tributary_link_up{{role=\"gateway\",link=\"{name}\"}}")) > 0.0
    };
    until("both access points are connected", || up("ap1") && up("ap2"));
    write(&two);
    hang_up();
    world.logs("gateway.log", "changed: access_point; needs a restart: nothing");
    world.logs("gateway.log", "no neighbour any more: its hop has ended");
    until("its hop is down", || !up("ap1"));
    world.logs("gateway.log", "whose key is no neighbour's");
    world.logs("ap1.log", "gateway at 10.78.1.1:7100 does not answer");
    assert!(up("ap2") && !up("ap1"));
    world.transfer();
    write(&format!("{one}, {two}"));
    hang_up();
    world.logs(
        "gateway.log",
        "`ap1` of `access_point` is new or has another key or address, which needs a restart",
    );
    assert!(!up("ap1"));
}

pub(super) fn nodes_with_shared_keys_connect() {
    let world = World::new();
    let [up, down] = ["up", "down"].map(|name| {
        world.keygen(&["--shared", "--out", &world.key(name)]);
        format!("shared:{}", world.key(name))
    });
    let listen = point_address(0);
    let to_gateway = format!("{}:7100", RelayNetwork::backhaul(0, 1));
    let point = ["ap", "--gateway", &to_gateway, "--gateway-key", &up, "--listen", &listen];
    let point = [&point[..], &["--device-key", &down, "--number", "1"]].concat();
    let (wifi, address) = (format!("wifi={listen},{down}"), format!("{}/24", RelayNetwork::tunnel(2)));
    let device = ["device", "--access-point", &wifi, "--tun", "cotag0", "--address", &address];
    let device = [&device[..], &["--route", "0.0.0.0/0"]].concat();
    let gateway = world.gateway_arguments(&up, &[]);
    let _nodes = [
        world.start_logged(Host::Gateway, &strs(&gateway), "gateway.log"),
        world.start_logged(Host::AccessPoint(0), &point, "ap1.log"),
        world.start_logged(Host::Device, &device, "device.log"),
    ];
    world.transfer();
    for (log, names) in [("gateway.log", "ap1"), ("ap1.log", "gateway, device"), ("device.log", "wifi")] {
        world.logs(log, &format!("shared key of {names}: whoever has it can pose as either end"));
    }
}
