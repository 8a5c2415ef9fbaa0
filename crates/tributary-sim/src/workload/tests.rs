//! Workloads over an ideal wire of known rate and delay, so that the correct record is known exactly.

mod wire;

use super::*;
use crate::transport::Application;
use tributary_types::{Bitrate, DataSize};
use wire::Wire;

const DELAY: Duration = Duration::from_millis(10);
/// Bytes that the wire carries in a millisecond.
const PER_MS: u64 = 1000;

fn run(workloads: &[WorkloadSpec], end: Instant, terms: &Terms) -> Vec<FlowRecord> {
    let (mut client, mut server) = pair(workloads, terms);
    let mut wire = Wire::new(DELAY, PER_MS);
    wire.run(&mut client, &mut server, end);
    client.records(end)
}

fn always() -> Terms {
    Terms::always(Rng::new(7))
}

fn bytes(n: u64) -> DataSize {
    DataSize::from_bytes(n)
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn a_transfer_without_end_fills_the_wire() {
    let record = &run(&[WorkloadSpec::Bulk { size: None }], Instant::from_millis(2_000), &always())[0];
    assert_eq!(record.first_byte.unwrap().as_millis(), 20); // one way for the request, one for the first block
    let rates = record.arrivals.mbps_per_second();
    assert_eq!(rates.len(), 2);
    assert!((7.8..=8.0).contains(&rates[0]) && (7.99..=8.01).contains(&rates[1]), "{rates:?}");
    assert_eq!(record.arrivals.bins.iter().sum::<u64>(), record.bytes);
    assert!(record.arrivals.silences.is_empty(), "{:?}", record.arrivals.silences);
    assert_eq!((record.unfinished, record.completions.len()), (0, 0));
}

#[test]
fn a_transfer_stops_when_it_is_told_to() {
    let terms = Terms { from: Instant::from_millis(100), to: Instant::from_millis(500), ..always() };
    let record = &run(&[WorkloadSpec::Bulk { size: None }], Instant::from_millis(2_000), &terms)[0];
    let bins = &record.arrivals.bins;
    let (first, last) = (bins.iter().position(|b| *b > 0), bins.iter().rposition(|b| *b > 0));
    assert_eq!(first, Some(12));
    assert!((50..60).contains(&last.unwrap()), "{last:?}");
}

#[test]
fn objects_one_after_the_other() {
    let spec = WorkloadSpec::Object { size: bytes(30_000), count: 3, pause: millis(100) };
    let record = &run(std::slice::from_ref(&spec), Instant::from_millis(1_000), &always())[0];
    assert_eq!((record.completions.len(), record.unfinished, record.pending), (3, 0, None));
    for completion in &record.completions {
        assert_eq!(completion.size, 30_000);
        assert_eq!(completion.took.as_millis(), 50); // 10 ms each way and 30 ms of transmission
    }
    let record = &run(&[spec], Instant::from_millis(80), &always())[0]; // one object, then the pause
    assert_eq!((record.completions.len(), record.unfinished), (1, 2));
}

#[test]
fn a_request_under_way_at_the_end_is_a_lower_bound() {
    let spec = WorkloadSpec::Bulk { size: Some(bytes(1_000_000)) };
    let record = &run(&[spec], Instant::from_millis(500), &always())[0];
    assert_eq!((record.completions.len(), record.unfinished), (0, 1));
    assert_eq!(record.pending, Some(millis(500)));
}

#[test]
fn requests_draw_sizes_by_weight_and_think_exponentially() {
    let sizes = vec![(bytes(1_000), 3.0), (bytes(5_000), 1.0)];
    let spec = [WorkloadSpec::Request { sizes, think: millis(20) }];
    let record = &run(&spec, Instant::from_millis(60_000), &always())[0];
    let small = record.completions.iter().filter(|c| c.size == 1_000).count() as f64;
    let all = record.completions.len() as f64;
    assert!((0.70..0.80).contains(&(small / all)), "{small} of {all}");
    // 20 ms for both ways, 2 ms of transmission on average, 20 ms of thinking.
    assert!((60_000.0 / all - 42.0).abs() < 2.0, "{all} requests");
    assert_eq!(&run(&spec, Instant::from_millis(60_000), &always())[0], record);
    assert_ne!(&run(&spec, Instant::from_millis(60_000), &Terms::always(Rng::new(8)))[0], record);
}

#[test]
fn packets_at_a_constant_rate_arrive_at_it() {
    let spec = [WorkloadSpec::Constant { rate: Bitrate::from_bps(800_000), packet: bytes(500) }];
    let record = &run(&spec, Instant::from_millis(1_001), &always())[0];
    assert_eq!((record.made, record.latencies.len()), (201, 199)); // every 5 ms; two have not arrived
    assert!(record.latencies.iter().all(|l| l.as_micros() == 10_500), "{:?}", record.latencies[0]);
    assert!(record.arrivals.silences.is_empty());
}

#[test]
fn messages_have_priorities_and_deadlines() {
    let messages = |deadline| WorkloadSpec::Messages {
        per_second: 10.0,
        size: bytes(50_000),
        priority: 9,
        deadline: Some(deadline),
    };
    // Each takes 50 ms of transmission and 10 ms of delay.
    let record = &run(&[messages(millis(60))], Instant::from_millis(1_000), &always())[0];
    assert_eq!((record.made, record.latencies.len(), record.late), (11, 10, 0));
    assert!(record.latencies.iter().all(|l| l.as_millis() == 60));
    let record = &run(&[messages(millis(59))], Instant::from_millis(1_000), &always())[0];
    assert_eq!(record.late, 10);
    // Twice what the wire carries, so at the end half of the messages are late or missing.
    let many = [messages(millis(60)), messages(millis(60)), messages(millis(60)), messages(millis(60))];
    let late: u64 = run(&many, Instant::from_millis(2_000), &always()).iter().map(|r| r.late).sum();
    assert!(late > 70, "{late}");
}

#[test]
fn a_transport_that_opens_no_stream_is_retried_without_spinning() {
    let (mut client, mut server) = pair(&[WorkloadSpec::Bulk { size: None }], &always());
    let mut wire = Wire::new(DELAY, PER_MS).without_streams();
    wire.run(&mut client, &mut server, Instant::from_millis(100));
    assert_eq!(client.poll_timeout(), None);
    assert_eq!(client.records(Instant::from_millis(100))[0].bytes, 0);
    let spec = WorkloadSpec::Burst { size: bytes(10), every: millis(1) };
    let (mut client, mut server) = pair(&[spec], &always());
    wire.run(&mut client, &mut server, Instant::from_millis(100));
    assert_eq!(server.poll_timeout(), None);
}
