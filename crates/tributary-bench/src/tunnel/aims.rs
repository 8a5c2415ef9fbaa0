//! The values that the tunnel has to reach.

use super::{BARE, COTAG, CUBIC, ContestantReport, MPTCP, StreamReport};
use crate::{Aim, Expectation, Judged, bounds};
use tributary_nodes::Coding;
use tributary_report::Table;

/// Goodput without shaped links, Gbit/s.
const SPEED: Expectation = Expectation::AtLeast(2.0);
/// Coding on over coding off, without shaped links.
const CODING: Expectation = Expectation::AtLeast(0.9);
/// COTAG over the best peer, with loss and latency.
const LOSSY: Expectation = Expectation::AtLeast(2.0);
/// The same without loss and latency.
const CLEAN: Expectation = Expectation::AtLeast(0.95);
/// Share of a stream that arrives at 5 % loss on each link.
const STREAM: Expectation = Expectation::AtLeast(0.99);
/// Time-outs of TCP through the tunnel while each link is blocked in turn.
const TIMEOUTS: Expectation = Expectation::AtMost(0.0);
/// A rival's goodput beside COTAG over the same beside CUBIC.
const RIVAL: Expectation = Expectation::AtLeast(0.9);

/// Added delay of the stream, ms: T and 1 ms.
fn delay() -> Expectation {
    Expectation::AtMost(Coding::default().interval_ms as f64 + 1.0)
}

/// Every aim whose conditions were measured.
pub(super) fn aims(contestants: &[ContestantReport], streams: &[StreamReport]) -> Vec<Aim> {
    let of = |condition, name| {
        let same = |known: &&ContestantReport| known.condition == condition && known.name == name;
        contestants.iter().find(same)
    };
    let rates = |condition, name| of(condition, name).map_or(&[][..], |known| known.mbps.as_slice());
    let best = |condition| -> Vec<f64> {
        let peers = rates(condition, CUBIC).iter().zip(rates(condition, MPTCP));
        // A round that was left out has no best.
        let left_out = |(cubic, mptcp): &(&f64, &f64)| cubic.is_nan() || mptcp.is_nan();
        peers.map(|peer| if left_out(&peer) { f64::NAN } else { peer.0.max(*peer.1) }).collect()
    };
    let (on, off) = (rates("bare", BARE[0].0), rates("bare", BARE[1].0));
    let gbps: Vec<f64> = on.iter().map(|mbps| mbps / 1e3).collect();
    let timeouts = of("blocked", COTAG).map(|cotag| cotag.timeouts.iter().filter(|count| count.is_finite()));
    let timeouts = timeouts.map_or(f64::NAN, Iterator::sum);
    let rival = |name| of("shared", name).map_or(&[][..], |known| known.rival.as_slice());
    let stream = |name| streams.iter().find(|stream| stream.name == name);
    let delivered = stream("coding on").map_or(&[][..], |stream| stream.delivered.as_slice());
    let p99 = |name| stream(name).map_or(&[][..], |stream| stream.delay_p99.as_slice());
    let added: Vec<f64> = p99("coding on").iter().zip(p99("coding off")).map(|(on, off)| on - off).collect();
    let aim = |what: &str, value| Aim { what: what.to_owned(), value };
    let over_best = |condition, wanted| Judged::ratio(rates(condition, COTAG), &best(condition), wanted);
    let all = vec![
        aim("tunnel without links, Gbit/s", Judged::median(&gbps, SPEED)),
        aim("coding on over coding off, without links", Judged::ratio(on, off, CODING)),
        aim("COTAG over the best peer, lossy links", over_best("lossy", LOSSY)),
        aim("COTAG over the best peer, clean links", over_best("clean", CLEAN)),
        aim(
            "share of a stream delivered, 5 % loss on each link, redundancy 0.3",
            Judged::median(delivered, STREAM),
        ),
        aim("its p99 delay, coding on less coding off, ms", Judged::median(&added, delay())),
        aim("COTAG's TCP time-outs, links blocked in turn, all rounds", Judged::count(timeouts, TIMEOUTS)),
        aim(
            "rival beside COTAG over rival beside CUBIC over both",
            Judged::ratio(rival(COTAG), rival(CUBIC), RIVAL),
        ),
    ];
    all.into_iter().filter(|aim| aim.value.value.is_finite()).collect()
}

pub(super) fn table(aims: &[Aim]) -> Table {
    let rows = aims.iter().map(|aim| (aim.what.as_str(), &aim.value, 3));
    bounds("Aims; medians of the rounds", ["what", "here"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    fn contestant(condition: &'static str, name: &'static str, mbps: [f64; 5]) -> ContestantReport {
        ContestantReport {
            condition,
            name,
            mbps: mbps.to_vec(),
            timeouts: vec![0.0, 1.0, 0.0, 0.0, 0.0],
            ..ContestantReport::default()
        }
    }

    #[test]
    fn an_aim_is_judged_from_all_rounds() {
        let contestants = [
            contestant("lossy", COTAG, [600.0, 900.0, 610.0, 590.0, 605.0]),
            contestant("lossy", CUBIC, [300.0, 200.0, 300.0, 301.0, 299.0]),
            contestant("lossy", MPTCP, [200.0, 300.0, 200.0, 200.0, 200.0]),
            contestant("blocked", COTAG, [1.0; 5]),
        ];
        let aims = aims(&contestants, &[]);
        let find = |what: &str| aims.iter().find(|aim| aim.what.contains(what)).expect("an aim").value;
        let lossy = find("lossy");
        // The best peer differs from round to round; one round is below 2.
        assert!((lossy.value - 605.0 / 299.0).abs() < 1e-9, "{lossy:?}");
        assert_eq!(lossy.verdict, Verdict::Undecided);
        assert_eq!(find("time-outs").verdict, Verdict::Fails, "one time-out in five rounds");
        assert!(!aims.iter().any(|aim| aim.what.contains("clean")), "not measured");
        assert_eq!(table(&aims).len(), aims.len());
    }

    #[test]
    fn a_round_with_an_invalid_audit_counts_nowhere() {
        let mut cubic = contestant("lossy", CUBIC, [300.0; 5]);
        cubic.mbps.push(3000.0);
        cubic.leave_out();
        let mut cotag = contestant("lossy", COTAG, [900.0; 5]);
        cotag.mbps.push(900.0);
        let mut mptcp = contestant("lossy", MPTCP, [200.0; 5]);
        mptcp.mbps.push(200.0);
        let aims = aims(&[cotag, cubic, mptcp], &[]);
        let lossy = aims.iter().find(|aim| aim.what.contains("lossy")).expect("an aim").value;
        assert_eq!((lossy.value, lossy.verdict), (3.0, Verdict::Holds));
    }
}
