//! Sizes computed by the rule, and an application that writes endlessly into a socket that is not read.

use std::io::Write;
use std::net::TcpStream as Application;

use tokio::net::TcpListener;

use super::*;

/// Hold time of the session with the default `--buffer` of 200 ms.
const HOLD: Duration = Duration::from_millis(75);
const LOCAL: Duration = Duration::from_micros(50);

fn mbps(rate: u64) -> Bitrate {
    Bitrate::from_mbps(rate)
}

#[test]
fn receive_buffers_follow_the_hold_time_and_the_kernel_sizes_those_of_fast_distant_applications() {
    assert_eq!(size(Bitrate::ZERO, HOLD, LOCAL), Size::Bytes(8 << 10));
    assert_eq!(size(mbps(40), HOLD, Duration::ZERO), Size::Bytes(15_625));
    assert_eq!(size(mbps(40), HOLD, LOCAL), Size::Bytes(16_125));
    assert_eq!(size(mbps(5000), HOLD, LOCAL), Size::Bytes(128 << 10));
    assert_eq!(size(mbps(1000), HOLD, Duration::from_millis(10)), Size::Kernel);
    // An application 20 ms away needs 50 kB in flight at 20 Mbit/s.
    assert_eq!(size(mbps(20), HOLD, Duration::from_millis(20)), Size::Bytes(107_812));
    assert_eq!(size(mbps(20), Duration::from_secs(30), LOCAL), Size::Bytes(128 << 10));
}

#[test]
fn small_rate_changes_do_not_resize_the_buffer() {
    let near = |rate| size(mbps(rate), HOLD, Duration::ZERO);
    let set = near(40);
    assert!(!near(48).differs(set) && near(52).differs(set) && near(28).differs(set));
    let far = |rate| size(mbps(rate), HOLD, Duration::from_millis(10));
    assert!(far(1000).differs(near(1000)) && !far(1000).differs(far(2000)));
}

#[test]
fn a_slow_session_reads_small_pieces() {
    assert_eq!(piece(Bitrate::ZERO, HOLD), 4 << 10);
    assert_eq!(piece(mbps(20), HOLD), 31_250);
    assert_eq!(piece(mbps(1000), HOLD), 64 << 10);
}

/// Bytes that an application can write before it has to wait, when nothing is read.
async fn taken(limited: bool) -> usize {
    // The kernel remembers windows of earlier connections by address (tcp_metrics): those of other tests would let it buffer more.
    let [.., high, low] = std::process::id().to_be_bytes();
    let own = std::net::Ipv4Addr::new(127, 99, high, low.max(1));
    let listener = TcpListener::bind((own, 0)).await.expect("the loopback interface");
    if limited {
        limit_segments(listener.as_fd()).expect("an option of Linux 2.6");
    }
    // The congestion controller decides how far a send buffer grows, and machines differ in their default controller.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    sockopt::set_congestion(socket.as_fd(), "cubic").expect("built into most kernels");
    let address = listener.local_addr().expect("it is bound");
    socket.connect(&address.into()).expect("somebody listens");
    let (accepted, _) = listener.accept().await.expect("somebody connected");
    if limited {
        let mut intake = Intake::default();
        intake.look(&accepted, Some((mbps(20), HOLD)));
        assert_eq!((intake.piece, intake.set), (31_250, Some(size(mbps(20), HOLD, round_trip(&accepted)))));
    }
    let mut application = Application::from(socket);
    application.set_nonblocking(true).expect("a socket");
    let (mut taken, piece) = (0, vec![0; 16 << 10]);
    while let Ok(count) = application.write(&piece) {
        taken += count;
    }
    taken
}

#[tokio::test]
async fn the_kernel_chooses_a_size_only_after_the_session_has_taken_megabytes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback interface");
    let _application =
        Application::connect(listener.local_addr().expect("it is bound")).expect("somebody listens");
    let (accepted, _) = listener.accept().await.expect("somebody connected");
    let mut intake = Intake::default();
    intake.look(&accepted, None);
    assert_eq!((intake.piece, intake.set), (MOST, Some(Size::Bytes(128 << 10))));
    intake.took(STEADY as usize - 1);
    // At such a rate the kernel would choose the size for every application.
    intake.look(&accepted, Some((mbps(1_000_000), HOLD)));
    assert_eq!(intake.set, Some(Size::Bytes(128 << 10)));
    intake.took(1);
    intake.look(&accepted, Some((mbps(1_000_000), HOLD)));
    assert_eq!(intake.set, Some(Size::Kernel));
}

fn round_trip(tcp: &TcpStream) -> Duration {
    sockopt::tcp_info(tcp.as_fd()).expect("Linux").min_rtt.unwrap_or_default()
}

#[tokio::test]
async fn limits_keep_an_applications_unread_data_below_100_ms_of_20_mbps() {
    let (before, after) = (taken(false).await, taken(true).await);
    assert!(after <= 250_000, "100 ms of 20 Mbit/s: {after}, {before} without limits");
}
