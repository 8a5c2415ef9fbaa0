//! Decisions about prioritised segments allocate no memory. A counting allocator checks this.

use core::time::Duration;

use tributary_proto::scheduler::{NumberedStream, Scheduler, SchedulerEvent, SubflowView, create};
use tributary_types::{Bitrate, Instant, PathId, Rng, SubflowId};

const SUBFLOWS: u32 = 8;
const SEGMENT: u64 = 1448;

fn view(id: u32, rng: &mut Rng) -> SubflowView {
    let rtt = Duration::from_micros(5_000 + rng.below(50_000));
    SubflowView {
        id: SubflowId(id),
        path: PathId(id as u8),
        room: 1 << 20,
        srtt: rtt,
        rttvar: rtt / 8,
        min_rtt: rtt,
        least_delay: rtt,
        usual_blockage: Duration::ZERO,
        cwnd: 1 << 16,
        in_flight: rng.below(1 << 18),
        delivered: 0,
        rate: Some(Bitrate::from_mbps(10 + rng.below(400))),
        long_rate: None,
        sustained_rate: None,
        oldest_sent: None,
        silent: false,
        rank: id as u8,
    }
}

/// Allocations of 1000 decisions, each with all histories extended, after the histories are full.
fn allocations(name: &str, of_a_stream: bool) -> u64 {
    let mut rng = Rng::new(1);
    let mut scheduler: Box<dyn Scheduler> = create(name, rng.child("scheduler")).expect("it is known");
    let mut now = Instant::from_millis(1);
    for id in 0..SUBFLOWS {
        scheduler.on_event(now, SchedulerEvent::SubflowUp(SubflowId(id)));
    }
    let mut stream = NumberedStream::new(64 << 20);
    stream.prioritise_every(u64::from(!of_a_stream));
    stream.prioritise(u8::from(of_a_stream));
    stream.allow(u64::MAX / 4);
    let (mut counted, mut decided) = (0, 0);
    for round in 0..1200 {
        now += Duration::from_millis(6);
        let views: Vec<_> = (0..SUBFLOWS).map(|id| view(id, &mut rng)).collect();
        stream.write(SEGMENT);
        loop {
            let mut assignment = None;
            let window = stream.view(1 << 20);
            let info = allocation_counter::measure(|| assignment = scheduler.assign(now, &window, &views));
            if round >= 200 {
                counted += info.count_total;
            }
            if let Some(assignment) = assignment {
                decided += u32::from(scheduler.take_decision().is_some());
                let extent = stream.extent(assignment.segment).expect("it is held");
                stream.sent(now, assignment.segment, assignment.subflow, 0);
                stream.acknowledge(extent.0 + u64::from(extent.1));
                break;
            }
            let load = scheduler.load(now, &window, &views).expect("there is room and something to send");
            let (first, end) = stream.load(load, SEGMENT as usize);
            assert!(first < end);
            scheduler.on_event(now, SchedulerEvent::Loaded { first, end });
        }
    }
    assert!(decided >= 1200, "{name}: {decided} decisions");
    counted
}

#[test]
fn decisions_allocate_nothing() {
    assert_eq!(allocations("avira", false), 0);
    for bulk in ["round-robin", "fbdt", "linux-default"] {
        assert_eq!(allocations(&format!("avira+{bulk}"), true), 0, "{bulk}");
    }
}
