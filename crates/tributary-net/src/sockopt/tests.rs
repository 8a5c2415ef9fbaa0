//! Socket options on loopback connections.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use super::*;

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

#[test]
fn tcp_info_follows_the_connection() {
    let (mut client, server) = pair();
    client.write_all(&[7; 1000]).unwrap();
    server.peek(&mut [0; 1]).unwrap();
    let info = tcp_info(client.as_fd()).unwrap();
    assert_eq!(info.state, 1);
    assert!(info.snd_cwnd > 0 && info.snd_mss > 500, "{info:?}");
    assert!(info.rto >= Duration::from_millis(1) && info.rto < Duration::from_secs(100), "{info:?}");
    assert_eq!(info.bytes_sent, 1000);
    assert_eq!(tcp_info(server.as_fd()).unwrap().bytes_received, 1000);
}

#[test]
fn congestion_control_is_checked_and_errors_for_unknown_names_list_the_known_ones() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    set_congestion(socket.as_fd(), "reno").unwrap();
    assert_eq!(congestion(socket.as_fd()).unwrap(), "reno");
    let error = set_congestion(socket.as_fd(), "warp").unwrap_err().to_string();
    assert!(error.contains("warp") && error.contains("reno"), "{error}");
    assert!(assert_congestion(socket.as_fd(), "cubic").is_err());
}

#[test]
fn queues_are_counted_and_writability_follows_the_low_water_mark() {
    let (mut client, server) = pair();
    SockRef::from(&client).set_tcp_notsent_lowat(16 * 1024).unwrap();
    assert!(poll_writable(client.as_fd()).unwrap());
    client.set_nonblocking(true).unwrap();
    while client.write(&[0; 65536]).is_ok() {}
    assert!(!poll_writable(client.as_fd()).unwrap());
    assert!(unacknowledged(client.as_fd()).unwrap() >= unsent(client.as_fd()).unwrap());
    drop(server);
}

#[test]
fn missing_options_are_reported_and_never_fatal() {
    let (client, _server) = pair();
    let _ = set_timers(client.as_fd(), Duration::from_secs(1), Duration::from_millis(5));
    assert!(interface_exists("lo") && !interface_exists("no-such-interface"));
}

#[tokio::test]
async fn a_listener_raises_the_limit_of_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid `rlimit` that the kernel fills.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    // One below the hard limit, so that other tests of this process are not affected.
    limit.rlim_cur = limit.rlim_max - 1;
    // SAFETY: `limit` is a valid `rlimit` that the kernel reads.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let common = crate::Common::new(crate::Key::from_bytes([1; 32]));
    let addresses = vec!["127.0.0.1:0".parse().unwrap()];
    let config = crate::ListenConfig::new(addresses, common);
    let _listener = crate::Listener::bind(config).await.unwrap();
    // SAFETY: `limit` is a valid `rlimit` that the kernel fills.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    assert_eq!(limit.rlim_cur, limit.rlim_max);
    assert_eq!(raise_descriptor_limit().unwrap(), limit.rlim_max);
}

/// A listener whose queue is full, so that the kernel drops every further SYN. Returns its address, and the sockets
/// that must stay open.
pub(crate) async fn silent_listener() -> ((tokio::net::TcpListener, tokio::net::TcpStream), SocketAddr) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let filler = tokio::net::TcpStream::connect(address).await.unwrap();
    ((listener, filler), address)
}
