//! Both ends on loopback: a server that is silent, one with another key, strangers.

use super::super::serve;
use super::super::wire::{LARGE, Message, Proof, SMALL};
use super::*;
use tributary_testing::until;

/// Ends the server when the test ends, also by a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A server with the first of two keys, and what a test does with it.
fn served(test: impl FnOnce(std::net::SocketAddr, [Key; 2])) {
    let keys = [Key::from_bytes([1; 32]), Key::from_bytes([2; 32])];
    let (server, stop) = (UdpSocket::bind("127.0.0.1:0").unwrap(), AtomicBool::new(false));
    let address = server.local_addr().unwrap();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&server, &keys[0], &stop));
        let ending = Stop(&stop);
        test(address, keys.clone());
        drop(ending);
        serving.join().unwrap().unwrap();
    });
}

fn socket(server: std::net::SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket
}

#[test]
fn a_server_that_is_not_there_is_named_with_the_way_out() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = silent.local_addr().unwrap();
    let key = Key::from_bytes([1; 32]);
    let error =
        Recorder::start(vec![("lo".to_owned(), socket(server))], &key, Options::default()).unwrap_err();
    let error = error.to_string();
    assert!(error.contains(&server.to_string()) && error.contains("--serve"), "{error}");
}

#[test]
fn a_recording_ends_by_its_length_or_when_it_is_stopped() {
    served(|server, [key, other]| {
        let start = |key, length| {
            Recorder::start(
                vec![("lo".to_owned(), socket(server))],
                key,
                Options { length, ..Options::default() },
            )
        };
        let error = start(&other, None).unwrap_err().to_string();
        assert!(error.contains("another key") && error.contains("--shared-key"), "{error}");
        let length = Duration::from_millis(1500);
        let recorder = start(&key, Some(length)).unwrap();
        until("the recording has ended", || recorder.is_finished());
        let recording = recorder.so_far();
        assert_eq!(recording.duration(), length);
        assert!(recording.summary()[0].starts_with("lo: down "), "{:?}", recording.summary());
        let seconds = recording.seconds(0);
        assert!(
            seconds[0].rtt_ms.is_some() && seconds[0].counted.iter().all(|counted| *counted > 0),
            "{seconds:?}"
        );
        let recorder = start(&key, None).unwrap();
        until("something is recorded", || !recorder.so_far().duration().is_zero());
        assert!(!recorder.finish().duration().is_zero());
    });
}

#[test]
fn strangers_get_no_train_and_no_answer_longer_than_their_question() {
    served(|server, [_, other]| {
        let stranger = socket(server);
        let ask = |message: &Message| {
            stranger.send(&message.encode()).unwrap();
            let mut buffer = [0; LARGE];
            let length = stranger.recv(&mut buffer).unwrap();
            assert!(length <= message.encode().len());
            Message::decode(&buffer[..length]).unwrap()
        };
        let Message::Cookie(cookie) = ask(&Message::Hello) else { panic!("no cookie") };
        let invented = Proof { cookie: [3; 8], tag: [4; 16] };
        let trains = |proof| Message::Request { proof, slot: 1, packets: 200 };
        assert_eq!(ask(&trains(invented)), Message::Cookie(cookie));
        assert_eq!(ask(&trains(Credentials::new(&other).prove(cookie))), Message::Refused);
        // Packets and short questions get no answer: the next one is the one to the hello.
        for index in 0..3 {
            stranger.send(&Message::Packet { proof: invented, slot: 1, index, packets: 3 }.encode()).unwrap();
        }
        stranger.send(&Message::Hello.encode()[..SMALL - 1]).unwrap();
        assert_eq!(ask(&Message::Hello), Message::Cookie(cookie));
    });
}
