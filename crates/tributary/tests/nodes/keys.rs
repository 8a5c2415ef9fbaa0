//! What a node does with neighbours' keys: refuses unknown ones, says what shared ones mean.

use super::{World, owned, point_address, strs};
use std::fs;
use tributary_emu::{Host, RelayNetwork};

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
