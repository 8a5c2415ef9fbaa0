//! The guide's numbers are the code's.

use tributary_net::{Common, Key, Limits};

#[test]
fn the_proxy_page_states_the_limits_of_the_code() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/proxy.md")).unwrap();
    // Lines are wrapped anywhere.
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let (limits, config) = (Limits::default(), Common::new(Key::from_bytes([0; 32])).session);
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
    ] {
        assert!(page.contains(&stated), "docs/guide/proxy.md does not say `{stated}`");
    }
}
