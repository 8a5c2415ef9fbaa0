//! A receiver notices that nothing arrives any more although the sender has not ended, and does not mistake a pause for it.

use core::time::Duration;

use tributary_types::PathId;

use super::pair::{Pair, Sender, payload, transfer};
use crate::event::Event;

const MIB: u64 = 1 << 20;
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const ONLY: PathId = PathId(0);

fn started() -> Pair {
    let mut pair = Pair::new("fbdt", &[(50, 10)]);
    pair.run(300 * MS);
    pair
}

/// Silences that the client noticed because an answer was due. Those of its own segments are noticed much sooner.
fn silences(pair: &Pair) -> usize {
    let long = |event: &&Event| matches!(event, Event::PathSilent { silence, .. } if *silence > 500 * MS);
    pair.events[0].iter().filter(long).count()
}

/// The only path carries nothing more from the server to the client on its connection. The server cannot tell the client,
/// so the client must notice it: by credit of its own that is not acknowledged, or, when it has sent none, by what does not
/// arrive.
#[test]
fn a_download_whose_only_connection_is_stuck_goes_on_over_a_new_one() {
    let mut pair = started();
    let (opened, mut sender) = (pair.opened, Sender::new(&mut pair, 1, 6 * MIB));
    while pair.checked(0, sender.stream) < MIB {
        sender.feed(&mut pair);
        pair.run(MS);
    }
    pair.stick(ONLY, 1);
    let stuck = pair.now;
    transfer(&mut pair, &mut sender, 4 * SECOND);
    assert!(pair.events[0].iter().any(|event| matches!(event, Event::PathSilent { .. })));
    assert_eq!(pair.opened, opened + 1);
    // 6 MiB take a second; the silence, its PING and the new connection another one.
    assert!(pair.now < stuck + 3 * SECOND, "{:?}", pair.now.saturating_since(stuck));
}

/// The sender pauses within its stream: the connection answers, and stays.
#[test]
fn pauses_of_the_sender_cost_no_connection() {
    let mut pair = started();
    let opened = pair.opened;
    let stream = pair.ends[1].open_stream(0).unwrap();
    for round in 0..6 {
        let mut bytes = payload(round * 200_000, 200_000);
        while !bytes.is_empty() {
            pair.ends[1].write(stream, &mut bytes).unwrap();
        }
        pair.run(5 * SECOND);
    }
    assert_eq!(pair.checked(0, stream), 6 * 200_000);
    assert_eq!((silences(&pair), pair.opened), (0, opened));
    assert!(
        pair.ends[0].poll_timeout().is_some_and(|at| at > pair.now + SECOND),
        "the pause goes on without a timer"
    );
}

#[test]
fn a_session_without_an_unfinished_download_has_no_timer_but_the_keep_alive() {
    let mut pair = started();
    let mut sender = Sender::new(&mut pair, 1, MIB);
    transfer(&mut pair, &mut sender, 5 * SECOND);
    pair.run(SECOND);
    let keep_alive = crate::Config::default().keep_alive;
    assert!(pair.ends[0].poll_timeout().is_some_and(|at| at >= pair.now + keep_alive - 2 * SECOND));
}
