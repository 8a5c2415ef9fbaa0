//! The player in virtual time, against a link of one rate and one latency.

use std::collections::BTreeMap;

use tributary_types::Bitrate;

use super::*;
use crate::abr::{self, Ladder};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// Bytes that arrive at once.
const PIECE: u64 = 1500;

fn at(seconds: f64) -> Instant {
    Instant::from_nanos((seconds * 1e9) as u64)
}

fn title(segments: usize) -> Title {
    let rates = [100, 300, 1000, 3000].map(|kbps| Bitrate::from_bps(kbps * 1000)).to_vec();
    Title {
        ladder: Ladder::new(4 * SECOND, rates).unwrap(),
        later: Vec::new(),
        segments: vec![4 * SECOND; segments],
    }
}

/// A link that serves one request at a time, and its results.
struct World {
    player: Player,
    now: Instant,
    /// Rates in bit/s, each valid from its time on.
    rates: Vec<(Instant, f64)>,
    latency: Duration,
    /// The request in flight, when its next bytes arrive, and how many have arrived.
    transfer: Option<(Request, Instant, u64)>,
    /// Bytes of each segment and quality, by byte range.
    received: BTreeMap<(usize, usize), Vec<(u64, u64)>>,
    aborted: usize,
    events: Vec<Event>,
    /// The number of responses, from the next one on, that end after a quarter of their bytes.
    cut: usize,
}

impl World {
    fn new(rule: &str, segments: usize, rates: &[(f64, f64)]) -> Self {
        Self::of(title(segments), rule, rates)
    }

    fn of(title: Title, rule: &str, rates: &[(f64, f64)]) -> Self {
        let settings = Settings::default();
        let player = Player::new(settings, title, abr::rule(rule).unwrap(), at(0.0));
        let rates = rates.iter().map(|(from, rate)| (at(*from), *rate)).collect();
        let (received, events) = (BTreeMap::new(), Vec::new());
        let (now, latency) = (at(0.0), 50 * MS);
        Self { player, now, rates, latency, transfer: None, received, aborted: 0, events, cut: 0 }
    }

    fn size(request: &Request) -> u64 {
        [50_000, 150_000, 500_000, 1_500_000][request.quality]
    }

    fn rate(&self) -> f64 {
        self.rates.iter().rev().find(|(from, _)| *from <= self.now).map_or(0.0, |(_, rate)| *rate)
    }

    fn commands(&mut self) {
        while let Some(command) = self.player.poll_command() {
            match command {
                Command::Abort(id) => {
                    self.aborted += 1;
                    if self.transfer.is_some_and(|(request, ..)| request.id == id) {
                        self.transfer = None;
                    }
                }
                Command::Request(request) => {
                    assert!(self.transfer.is_none(), "two requests at once");
                    self.player.handle_sent();
                    self.transfer = Some((request, self.now + self.latency, request.from));
                }
            }
        }
        while let Some(event) = self.player.poll_event() {
            self.events.push(event);
        }
    }

    /// The next arrival of bytes.
    fn arrive(&mut self) {
        let Some((request, _, had)) = self.transfer.take() else { return };
        let (id, now, size) = (request.id, self.now, Self::size(&request));
        if had == request.from {
            self.player.handle_headers(now, id, Some(size));
        }
        let bytes = PIECE.min(size - had);
        self.received.entry((request.segment, request.quality)).or_default().push((had, had + bytes));
        let have = had + bytes;
        let cut = self.cut > 0 && have > size / 4;
        if have < size && !cut {
            let next = now + Duration::from_secs_f64(PIECE as f64 * 8.0 / self.rate().max(1.0));
            self.transfer = Some((request, next, have));
        }
        self.player.handle_data(now, id, bytes);
        if cut || have == size {
            self.cut -= usize::from(cut);
            self.player.handle_end(now, id);
        }
    }

    /// Runs until `until`, or the end.
    fn run(&mut self, until: f64) -> &mut Self {
        self.commands();
        while !self.player.is_over(self.now) {
            let arrival = self.transfer.map(|(_, at, _)| at);
            let Some(next) = [arrival, self.player.poll_timeout()].into_iter().flatten().min() else { break };
            if next > at(until) {
                self.now = at(until);
                break;
            }
            self.now = next.max(self.now);
            if arrival.is_some_and(|arrival| arrival <= self.now) {
                self.arrive();
            }
            self.player.handle_timeout(self.now);
            self.commands();
        }
        self
    }

    /// Every loaded segment consists of all its bytes, each once.
    fn assert_whole(&self) {
        for loaded in self.player.qoe(self.now).segments {
            let mut end = 0;
            for (from, to) in &self.received[&(loaded.segment, loaded.quality)] {
                assert_eq!(*from, end, "segment {}", loaded.segment);
                end = *to;
            }
            assert_eq!(end, loaded.bytes);
        }
    }

    fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| wanted(event)).count()
    }
}

#[test]
fn a_fast_link_plays_all_of_a_title_in_a_high_quality_with_every_rule() {
    for rule in abr::names() {
        let mut world = World::new(rule, 40, &[(0.0, 20e6)]);
        world.run(1000.0).assert_whole();
        let qoe = world.player.qoe(world.now);
        assert_eq!(world.events.last(), Some(&Event::Ended), "{rule}");
        assert_eq!((qoe.stalls, qoe.abandoned, qoe.failed), (0, 0, 0), "{rule}");
        assert_eq!(qoe.played_s, 160.0, "{rule}");
        // 400 kbit at 20 Mbit/s after one latency.
        assert!((qoe.start_up_s.unwrap() - 0.07).abs() < 0.001, "{rule}: {:?}", qoe.start_up_s);
        // BBA takes the top quality above 90 % of the buffer; before a request of 4 s it holds 26 of 30 s at most.
        let best = if rule == "bba" { 2 } else { 3 };
        assert_eq!(qoe.segments.last().unwrap().quality, best, "{rule}");
        assert!(qoe.seconds.iter().all(|second| second.buffer_s <= 30.0), "{rule}: above the capacity");
        assert_eq!(qoe.bytes, qoe.segments.iter().map(|loaded| loaded.bytes).sum::<u64>());
    }
}

#[test]
fn segments_are_requested_from_the_ladder_of_their_period_with_every_rule() {
    for rule in abr::names() {
        let whole = title(30);
        let rates = vec![Bitrate::from_bps(100_000)];
        let one = Ladder::new(4 * SECOND, rates).unwrap();
        let later = vec![(10, one), (20, whole.ladder.clone())];
        let mut world = World::of(Title { later, ..whole }, rule, &[(0.0, 20e6)]);
        world.run(300.0).assert_whole();
        let qoe = world.player.qoe(world.now);
        assert_eq!((qoe.segments.len(), qoe.played_s), (30, 120.0), "{rule}");
        assert!(qoe.segments[10..20].iter().all(|loaded| loaded.quality == 0), "{rule}");
        assert!(qoe.segments[20..].iter().any(|loaded| loaded.quality > 0), "{rule}: it rises again");
        let entered = |event: &Event| matches!(event, Event::NewLadder { segment: 10 | 20, .. });
        assert_eq!(world.count(entered), 2, "{rule}");
        assert_eq!(
            world.count(|event| matches!(event, Event::Switched { segment: 10 | 20, .. })),
            0,
            "{rule}"
        );
    }
}

#[test]
fn a_missing_segment_is_left_out_and_playback_goes_on() {
    for missing in [2, 4] {
        let mut title = title(5);
        title.segments[missing] = 20 * MS;
        let mut player = Player::new(Settings::default(), title, abr::rule("dynamic").unwrap(), at(0.0));
        let mut now = at(0.0);
        while !player.is_over(now) {
            while let Some(Command::Request(request)) = player.poll_command() {
                if request.segment == missing {
                    player.handle_missing(now, request.id, "404");
                } else {
                    player.handle_headers(now, request.id, Some(1000));
                    player.handle_data(now, request.id, 1000);
                    player.handle_end(now, request.id);
                }
            }
            let Some(next) = player.poll_timeout() else { break };
            now = next.max(now);
            player.handle_timeout(now);
        }
        let qoe = player.qoe(now);
        assert_eq!((qoe.played_s, qoe.segments.len(), qoe.failed), (16.0, 4, 0), "segment {missing}");
        assert_eq!((player.given_up(), player.loaded()), (None, 5), "segment {missing}");
        let events: Vec<Event> = std::iter::from_fn(|| player.poll_event()).collect();
        let noted = |event: &Event| matches!(event, Event::Missing { segment, .. } if *segment == missing);
        assert!(events.iter().any(noted), "{events:?}");
    }
}

#[test]
fn a_server_that_sends_other_bytes_first_is_not_silent() {
    let mut world = World::new("bba", 3, &[(0.0, 1e6)]);
    world.commands();
    let (request, ..) = world.transfer.take().expect("a request");
    for second in 1..30 {
        world.player.handle_alive(at(f64::from(second)), request.id);
        world.player.handle_timeout(at(f64::from(second)));
        assert!(world.player.is_loading(request.id), "after {second} s");
    }
}

#[test]
fn a_link_below_the_lowest_quality_stalls_and_the_time_adds_up() {
    // The 34 pieces of a segment of 4 s take 33 × 0.24 s and a latency.
    let mut world = World::new("throughput", 5, &[(0.0, 50e3)]);
    world.run(1000.0).assert_whole();
    let qoe = world.player.qoe(world.now);
    assert_eq!(qoe.stalls, 4);
    assert!((qoe.stalled_s - 4.0 * 3.97).abs() < 0.01, "{}", qoe.stalled_s);
    let total = qoe.start_up_s.unwrap() + qoe.played_s + qoe.stalled_s;
    assert!((total - world.now.saturating_since(at(0.0)).as_secs_f64()).abs() < 0.001);
    assert_eq!((qoe.switches, qoe.played_s), (0, 20.0));
    assert_eq!(world.count(|event| *event == Event::Stalled), 4);
    assert_eq!(world.count(|event| *event == Event::Resumed), 4);
}

#[test]
fn a_download_that_became_too_slow_is_abandoned_for_a_lower_quality() {
    for rule in ["throughput", "dynamic"] {
        let mut world = World::new(rule, 30, &[(0.0, 8e6), (9.0, 200e3)]);
        world.run(1000.0).assert_whole();
        let qoe = world.player.qoe(world.now);
        assert!(qoe.abandoned > 0 && qoe.wasted_bytes > 0, "{rule}: {} abandoned", qoe.abandoned);
        assert_eq!(world.aborted, qoe.abandoned);
        assert_eq!(qoe.played_s, 120.0, "{rule}");
    }
}

#[test]
fn a_cut_response_is_continued_and_no_byte_is_received_twice() {
    let mut world = World::new("bola-e", 20, &[(0.0, 5e6)]);
    world.cut = 5;
    world.run(1000.0).assert_whole();
    let qoe = world.player.qoe(world.now);
    assert_eq!((qoe.failed, qoe.played_s), (5, 80.0));
    assert_eq!(world.count(|event| matches!(event, Event::Failed { .. })), 5);
}

#[test]
fn a_replaced_transport_continues_after_the_bytes_that_arrived() {
    let mut world = World::new("dynamic", 20, &[(0.0, 2e6)]);
    for moment in [3.3, 7.7, 15.1] {
        world.run(moment);
        world.player.handle_moved(world.now);
        world.commands();
    }
    world.run(1000.0).assert_whole();
    let qoe = world.player.qoe(world.now);
    assert_eq!((qoe.stalls, qoe.played_s, qoe.failed), (0, 80.0, 0));
    let moved = world.count(|event| matches!(event, Event::Moved { from: 1.., .. }));
    assert!(moved > 0, "no download was in progress: {:?}", world.events);
}

#[test]
fn a_silent_server_is_tried_again_and_then_given_up() {
    let mut world = World::new("bba", 3, &[(0.0, 1e6)]);
    world.latency = Duration::from_secs(100_000);
    world.run(1000.0);
    let given_up = world.player.given_up().expect("nothing came").clone();
    assert_eq!((given_up.segment, given_up.times), (0, Settings::default().tries));
    assert!(given_up.to_string().contains("no byte for 10s"), "{given_up}");
    assert!(world.player.is_over(world.now));
    assert_eq!(world.player.poll_timeout(), None);
    // Six silences, and pauses of 250 ms that double each time.
    assert!((world.now.saturating_since(at(0.0)).as_secs_f64() - (60.0 + 0.25 * 31.0)).abs() < 0.01);
}

#[test]
fn bytes_of_aborted_downloads_and_wrong_lengths_do_not_count() {
    let mut world = World::new("throughput", 3, &[(0.0, 1e6)]);
    world.commands();
    let first = world.transfer.unwrap().0;
    world.player.handle_moved(at(0.1));
    world.player.handle_data(at(0.2), first.id, 1000);
    world.player.handle_end(at(0.2), first.id);
    world.commands();
    let second = world.transfer.unwrap().0;
    assert_eq!((second.segment, second.from), (0, 0));
    world.player.handle_headers(at(0.3), second.id, Some(10));
    world.player.handle_data(at(0.3), second.id, 11);
    world.player.handle_end(at(0.3), second.id);
    world.transfer = None;
    world.player.handle_timeout(at(1.0));
    world.commands();
    assert_eq!(world.transfer.unwrap().0.from, 0, "all of it is fetched again");
    assert!(world.player.qoe(at(1.0)).segments.is_empty());
}

#[test]
fn the_first_request_says_that_it_is_urgent_and_a_stall_is_reported_once() {
    let mut world = World::new("throughput", 5, &[(0.0, 50e3)]);
    world.run(0.01);
    let request = world.transfer.unwrap().0;
    assert_eq!(
        world.player.cmcd(&request, world.now).value(),
        "bl=0,br=100,d=4000,dl=0,ot=v,sf=d,st=v,su,tb=3000"
    );
    world.run(12.5);
    // Playback stalled during the second segment, so the third request reports it, and only the third.
    assert!(world.player.cmcd(&request, world.now).starved);
    world.run(16.5);
    assert!(!world.player.cmcd(&request, world.now).starved);
}

/// A download of which a quarter of the bytes can be read, and as many again have arrived after a gap.
fn half_in_order(counting: Counting) -> Player {
    let settings = Settings { counting, ..Settings::default() };
    let mut player = Player::new(settings, title(2), abr::rule("throughput").unwrap(), at(0.0));
    // 50 kB in 0.5 s: 800 kbit/s, for which 300 kbit/s are sustainable.
    player.handle_headers(at(0.0), 1, Some(50_000));
    player.handle_data(at(0.5), 1, 50_000);
    player.handle_end(at(0.5), 1);
    let id = std::iter::from_fn(|| player.poll_command()).last();
    assert_eq!(id, Some(Command::Request(Request { id: 2, segment: 1, quality: 1, from: 0 })));
    player.handle_headers(at(0.6), 2, Some(150_000));
    // After 3 s a quarter: the whole would take 12 s, above 1.8 segments of 4 s. With the rest of what arrived, 6 s.
    player.handle_unread(at(3.6), 2, 37_500);
    player.handle_data(at(3.6), 2, 37_500);
    player
}

#[test]
fn bytes_after_a_gap_keep_a_download_unless_only_those_in_order_count() {
    let mut player = half_in_order(Counting::Received);
    assert_eq!((player.poll_command(), player.qoe(at(3.6)).abandoned), (None, 0));
    let mut player = half_in_order(Counting::InOrder);
    assert_eq!(player.poll_command(), Some(Command::Abort(2)));
    let qoe = player.qoe(at(3.6));
    assert_eq!(
        (qoe.abandoned, qoe.wasted_bytes),
        (1, 75_000),
        "what arrived after the gap is discarded, too"
    );
}

#[test]
fn a_download_that_is_abandoned_during_a_stall_is_requested_in_a_lower_quality() {
    let settings = Settings { capacity: 8 * SECOND, ..Settings::default() };
    let mut player = Player::new(settings, title(4), abr::rule("throughput").unwrap(), at(0.0));
    for (id, bytes, end) in [(1, 50_000, 0.5), (2, 150_000, 1.0)] {
        player.handle_headers(at(end - 0.4), id, Some(bytes));
        player.handle_data(at(end), id, bytes);
        player.handle_end(at(end), id);
    }
    // The buffer is full until the first segment has been shown, and empty from 8.5 s on.
    player.handle_timeout(at(4.5));
    player.handle_headers(at(8.6), 3, Some(150_000));
    player.handle_data(at(9.6), 3, 1000);
    assert_eq!(player.state(at(9.6)), PlayState::Stalled);
    let commands: Vec<Command> = std::iter::from_fn(|| player.poll_command()).collect();
    let lower = Request { id: 4, segment: 2, quality: 0, from: 0 };
    assert_eq!(commands[3..], [Command::Abort(3), Command::Request(lower)]);
}
