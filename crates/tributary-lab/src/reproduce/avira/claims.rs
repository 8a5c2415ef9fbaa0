//! The claims as inequalities, seed by seed: AVIRA's over the others' on the same seed. A claim is
//! significant when its 95 % interval lies on one side of one.

use tributary_report::{Claim, Expectation, Interval, stats};

use super::{COMPARED, Messages, Run};

use Expectation::{AtLeast, AtMost};

/// AVIRA's throughput gain over the default (AVIRA §IV).
const PAPER_GAIN: f64 = 1.034;
/// Less than one by more than rounding.
const LESS: f64 = 0.9995;

pub(super) fn judge(runs: &[Run], messages: &[Messages]) -> Vec<Claim> {
    let mut claims = paper(runs);
    claims.extend(prioritised(messages));
    claims
}

/// `of` for this scheduler, by ascending seed.
fn series(runs: &[Run], scheduler: &str, of: fn(&Run) -> f64) -> Vec<f64> {
    runs.iter().filter(|run| run.scheduler == scheduler).map(of).collect()
}

fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs.max(1e-9)).collect()
}

fn claim(id: &str, text: &str, values: &[f64], expected: Expectation) -> Claim {
    let interval = stats::mean_interval(values);
    let significance = match interval {
        Some(Interval { low, high }) if low > 1.0 || high < 1.0 => "significant",
        _ => "not significant",
    };
    let text = format!("{text} ({significance} at 5 %)");
    Claim::judge(id, &text, stats::mean(values), expected).interval(interval)
}

fn paper(runs: &[Run]) -> Vec<Claim> {
    let rtt: fn(&Run) -> f64 = |run| run.measured.rtt_ms;
    let throughput: fn(&Run) -> f64 = |run| run.measured.throughput_mbps;
    let again: fn(&Run) -> f64 = |run| run.measured.retransmitted_percent;
    let latency: fn(&Run) -> f64 = |run| stats::mean(&run.measured.prioritised_ms).unwrap_or(f64::NAN);
    let (ours, ours_rtt) = ("avira", series(runs, "avira", rtt));
    let published = COMPARED[3].2;
    let mut claims = Vec::new();
    for (scheduler, name, paper_rtt, _) in &COMPARED[..3] {
        let values = ratios(&ours_rtt, &series(runs, scheduler, rtt));
        let text = format!("mean RTT of AVIRA over {name}'s");
        let id = format!("rtt-{scheduler}");
        claims.push(claim(&id, &text, &values, AtMost(LESS)).paper(published / paper_rtt));
    }
    let default = COMPARED[0].0;
    let values = ratios(&series(runs, ours, throughput), &series(runs, default, throughput));
    let text = "throughput of AVIRA over Default's";
    claims.push(claim("throughput", text, &values, AtLeast(1.0)).paper(PAPER_GAIN));
    let difference: Vec<f64> = series(runs, ours, again)
        .iter()
        .zip(series(runs, default, again))
        .map(|(ours, theirs)| (ours - theirs).abs())
        .collect();
    let text = "retransmissions, percentage points between AVIRA and Default";
    let interval = stats::mean_interval(&difference);
    let claim_again = Claim::judge("retransmissions", text, stats::mean(&difference), AtMost(0.1));
    claims.push(claim_again.interval(interval).paper(0.07));
    let values = ratios(&series(runs, ours, latency), &series(runs, default, latency));
    let text = "latency of prioritised packets of AVIRA over Default's";
    claims.push(claim("prioritised-latency", text, &values, AtMost(LESS)));
    claims
}

fn prioritised(messages: &[Messages]) -> Vec<Claim> {
    let series = |transport: &str, of: fn(&Messages) -> f64| -> Vec<f64> {
        messages.iter().filter(|run| run.transport == transport).map(of).collect()
    };
    let p99 = ratios(&series("avira+fbdt", |m| m.p99_ms), &series("mptcp", |m| m.p99_ms));
    let bulk = ratios(&series("avira+fbdt", |m| m.bulk_mbps), &series("fbdt", |m| m.bulk_mbps));
    vec![
        claim(
            "messages-p99",
            "mobility: p99 of messages under avira+fbdt over MPTCP's default",
            &p99,
            AtMost(0.5),
        ),
        claim(
            "messages-bulk",
            "mobility: goodput of bulk beside them under avira+fbdt over fbdt's",
            &bulk,
            AtLeast(0.98),
        ),
    ]
}
