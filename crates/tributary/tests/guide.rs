//! The numbers in the guides equal those in the code.

use tributary_net::{Common, Key, Limits};

#[test]
fn the_proxy_page_states_the_limits_of_the_code() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/proxy.md")).unwrap();
    // Lines can be wrapped anywhere.
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let (limits, config) = (Limits::default(), Common::new(Key::from_bytes([0; 32])).session);
    assert_eq!(limits.memory, 2 * limits.sessions as u64 * Limits::SESSION, "all sessions fit");
    for stated in [
        format!(
            "{} sessions; {} handshakes of connections without a ticket",
            limits.sessions, limits.half_open
        ),
        format!(
            "{} of those whose ticket proves the key, {} s each",
            limits.half_open,
            limits.handshake.as_secs()
        ),
        format!("{} subflows", config.max_subflows),
        format!("and {} streams for each session", config.max_streams),
        format!("{} MiB unacknowledged", config.send_buffer >> 20),
        format!("{} MiB unread", config.receive_credit >> 20),
        format!("hold together: {} MiB by default", limits.memory >> 20),
        format!("{} MiB each, so it limits their number too", Limits::SESSION >> 20),
        format!("`--memory 512MiB` is enough for {}", (512 << 20) / 2 / Limits::SESSION),
        format!("begins with {} MiB in each direction", Limits::AMPLE >> 20),
        format!("{} KiB for each connection", Limits::CONNECTION >> 10),
        format!("keeps its {} MiB", Limits::SESSION >> 20),
    ] {
        assert!(page.contains(&stated), "docs/guide/proxy.md does not say `{stated}`");
    }
}
