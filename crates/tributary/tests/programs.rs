//! Programs of Debian through `tributary tunnel`, `exec` and `connect --socks`, over two emulated radios that fade, die, come back and
//! change their address meanwhile. What arrives is compared with what was sent, and nothing but the session leaves over a radio.
//!
//! Needs `scripts/setup --browser` and `--programs`. Not here: how fast (`tributary-lab bench application`), and what the product does
//! with traffic that it cannot carry (the tests of `tunnel` and `exec`).

#[path = "programs/browser.rs"]
mod browser;
#[path = "common/ends.rs"]
mod ends;
#[path = "common/far_side.rs"]
mod far_side;
#[path = "programs/media.rs"]
mod media;
#[path = "programs/names.rs"]
mod names;
#[path = "programs/rates.rs"]
mod rates;
#[path = "common/running.rs"]
mod running;
#[path = "programs/shell.rs"]
mod shell;
#[path = "programs/wireguard.rs"]
mod wireguard;
#[path = "programs/world.rs"]
mod world;

use std::path::Path;
use std::process::ExitCode;

use world::World;

type Case = (&'static str, fn(&World));

const CASES: [Case; 11] = [
    ("names_are_resolved_through_the_tunnel_only", names::names_are_resolved_through_the_tunnel_only),
    ("names_are_resolved_for_one_program", names::names_are_resolved_for_one_program),
    ("chromium_loads_a_page_over_http_3", browser::chromium_loads_a_page_over_http_3),
    ("chromium_loads_a_page_over_socks", browser::chromium_loads_a_page_over_socks),
    ("a_call_of_two_browsers_goes_on", browser::a_call_of_two_browsers_goes_on),
    ("srt_and_rtmp_lose_no_picture", media::srt_and_rtmp_lose_no_picture),
    ("wireguard_runs_inside", wireguard::wireguard_runs_inside),
    ("iperf3_counts_what_it_sent", rates::iperf3_counts_what_it_sent),
    ("datagrams_of_every_length_come_back", rates::datagrams_of_every_length_come_back),
    ("ssh_runs_commands", shell::ssh_runs_commands),
    ("ssh_copies_files", shell::ssh_copies_files),
];

/// Programs, each with its option of `scripts/setup`.
const PROGRAMS: [(&str, &str); 17] = [
    ("ip", ""),
    ("nft", ""),
    ("curl", ""),
    ("python3", ""),
    ("ffmpeg", ""),
    ("chromium", "--browser"),
    ("node", "--browser"),
    ("openssl", "--browser"),
    ("dig", "--programs"),
    ("dnsmasq", "--programs"),
    ("iperf3", "--programs"),
    ("nc", "--programs"),
    ("ping", "--programs"),
    ("sftp", "--programs"),
    ("sshd", "--programs"),
    ("wg", "--programs"),
    ("wireguard-go", "--programs"),
];

fn main() -> ExitCode {
    tributary_testing::run_cases(&CASES, prepare, |case, world| {
        case(world);
        assert_eq!(world.outside(), 0, "packets that were not the session's left over a radio");
    })
}

fn prepare() -> Result<World, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("sshd changes its user: run this as root".to_owned());
    }
    tributary_emu::isolate().map_err(|error| error.to_string())?;
    if let Some((program, option)) = PROGRAMS.iter().find(|(program, _)| !far_side::has(program)) {
        return Err(format!("the program {program} is missing: scripts/setup {option}"));
    }
    if !Path::new(browser::SCRIPTS).join("node_modules").is_dir() {
        return Err("the browser's packages are missing: scripts/setup --browser".to_owned());
    }
    Ok(World::new())
}
