//! Playbacks whose connections fail, end or do not answer, as lists of actions.

use super::*;

const WIFI: PathId = PathId(0);
const LTE: PathId = PathId(1);
const FAR: PathId = PathId(2);

fn reports(paths: &[(PathId, u64)]) -> Vec<PathReport> {
    paths.iter().map(|(path, rtt)| PathReport::new(*path, Some(Duration::from_millis(*rtt)))).collect()
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn begin(paths: &[(PathId, u64)]) -> Switching {
    Switching::new(at(0), Settings::paper(), reports(paths), true)
}

/// What the driver is told, without the log.
fn told(switching: &mut Switching) -> Vec<Action> {
    std::iter::from_fn(|| switching.poll_action())
        .filter(|action| !matches!(action, Action::Decided(_)))
        .collect()
}

fn on_mptcp() -> Switching {
    let mut switching = begin(&[(WIFI, 10), (LTE, 20)]);
    let mptcp = Transport::Mptcp(vec![WIFI, LTE]);
    assert_eq!(told(&mut switching), [Action::Connect(mptcp.clone())]);
    switching.handle_connected(at(0), &mptcp, true);
    switching.handle_moved(at(0), false);
    let expected = [Action::Move(mptcp), Action::Connect(Transport::Quic(WIFI)), Action::Settle];
    assert_eq!(told(&mut switching), expected);
    switching
}

/// LTE is unreachable, then the buffer is nearly empty: the engine moves to QUIC on WiFi.
fn critical(switching: &mut Switching, second: u64) -> Vec<Action> {
    let only = [PathReport::new(WIFI, Some(Duration::from_millis(10))), PathReport::new(LTE, None)];
    let level = |seconds| Conditions { level: Duration::from_secs(seconds), throughput: None, udp: false };
    switching.handle_reports(at(second), &only, level(30));
    switching.handle_reports(at(second + 1), &only, level(1));
    told(switching)
}

#[test]
fn a_distant_path_is_not_used_from_the_start() {
    let mut switching = begin(&[(WIFI, 10), (LTE, 20), (FAR, 500)]);
    let expected = [Action::Use(FAR, false), Action::Connect(Transport::Mptcp(vec![WIFI, LTE]))];
    assert_eq!(told(&mut switching), expected);
}

#[test]
fn without_quic_the_engine_chooses_again_and_without_mptcp_tcp_follows() {
    let mut switching = begin(&[(WIFI, 10)]);
    assert_eq!(told(&mut switching), [Action::Connect(Transport::Quic(WIFI))]);
    switching.handle_connected(at(1), &Transport::Quic(WIFI), false);
    assert_eq!(told(&mut switching), [Action::Connect(Transport::Tcp)]);

    let mut switching = begin(&[(WIFI, 10), (LTE, 20)]);
    told(&mut switching);
    switching.handle_connected(at(1), &Transport::Mptcp(vec![WIFI, LTE]), false);
    assert_eq!(told(&mut switching), [Action::Connect(Transport::Tcp)]);
    switching.handle_connected(at(1), &Transport::Tcp, true);
    assert_eq!(told(&mut switching), [Action::Move(Transport::Tcp)]);
}

#[test]
fn a_connection_that_is_kept_ready_takes_over_at_once() {
    let mut switching = on_mptcp();
    switching.handle_connected(at(1), &Transport::Quic(WIFI), true);
    assert_eq!(critical(&mut switching, 2), [Action::Use(LTE, false), Action::Move(Transport::Quic(WIFI))]);
    switching.handle_moved(at(3), false);
    assert_eq!(told(&mut switching), [Action::Settle]);
}

#[test]
fn one_that_has_ended_is_dialled_again_first() {
    let mut switching = on_mptcp();
    switching.handle_connected(at(1), &Transport::Quic(WIFI), true);
    switching.handle_ended(&Transport::Quic(WIFI));
    assert_eq!(
        critical(&mut switching, 2),
        [Action::Use(LTE, false), Action::Connect(Transport::Quic(WIFI))]
    );
    switching.handle_connected(at(4), &Transport::Quic(WIFI), true);
    assert_eq!(told(&mut switching), [Action::Move(Transport::Quic(WIFI))]);
}

#[test]
fn a_handshake_that_does_not_end_in_time_leads_back_and_quic_is_not_tried_again() {
    let mut switching = on_mptcp();
    switching.handle_connected(at(1), &Transport::Quic(WIFI), true);
    critical(&mut switching, 2);
    switching.handle_moved(at(3), true);
    assert_eq!((told(&mut switching), switching.poll_timeout()), (vec![], Some(at(6))));
    switching.handle_timeout(at(5));
    assert_eq!(told(&mut switching), []);
    switching.handle_timeout(at(6));
    assert_eq!((told(&mut switching), switching.poll_timeout()), (vec![Action::Back], None));
    switching.handle_settled(at(7), true);
    assert_eq!(critical(&mut switching, 10), []);
}

#[test]
fn a_handshake_that_ends_settles_the_move_or_leads_back() {
    for (up, action) in [(true, Action::Settle), (false, Action::Back)] {
        let mut switching = on_mptcp();
        switching.handle_connected(at(1), &Transport::Quic(WIFI), true);
        critical(&mut switching, 2);
        switching.handle_moved(at(3), true);
        switching.handle_settled(at(4), up);
        assert_eq!((told(&mut switching), switching.poll_timeout()), (vec![action], None));
    }
}

#[test]
fn while_udp_is_blocked_nothing_moves_to_quic() {
    let mut switching = on_mptcp();
    switching.handle_connected(at(1), &Transport::Quic(WIFI), false);
    assert_eq!(critical(&mut switching, 2), [Action::Use(LTE, false)]);
}

#[test]
fn of_two_connections_kept_ready_the_newer_stays() {
    let mut switching = on_mptcp();
    switching.handle_connected(at(1), &Transport::Quic(WIFI), true);
    switching.handle_connected(at(2), &Transport::Quic(LTE), true);
    assert_eq!(told(&mut switching), [Action::Drop(Transport::Quic(WIFI))]);
}
