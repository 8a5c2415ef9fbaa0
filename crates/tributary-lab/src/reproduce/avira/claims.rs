//! The claims as inequalities, seed by seed: AVIRA's over the others' on the same seed. A claim is
//! significant when its 95 % interval lies on one side of one.

use tributary_report::{Claim, Expectation, Interval, stats};

use super::messages::SCENARIOS;
use super::{Form, Messages, Run};

use Expectation::{AtLeast, AtMost};

/// AVIRA's throughput gain over the default (AVIRA §IV).
const PAPER_GAIN: f64 = 1.034;
/// Less than one by more than rounding.
const LESS: f64 = 0.9995;

pub(super) fn judge(runs: &[Run], messages: &[Messages]) -> Vec<Claim> {
    let mut claims = order(runs, Form::Printed);
    claims.extend(cost(runs));
    claims.push(prioritised_packets(runs, Form::Printed));
    for form in &Form::ALL[1..] {
        claims.extend(order(runs, *form));
        claims.push(prioritised_packets(runs, *form));
    }
    claims.extend(SCENARIOS.iter().flat_map(|scenario| prioritised(messages, scenario)));
    claims
}

/// `of` for this scheduler, by ascending seed.
pub(super) fn series(runs: &[Run], form: Form, scheduler: &str, of: fn(&Run) -> f64) -> Vec<f64> {
    runs.iter().filter(|run| run.form == form && run.scheduler == scheduler).map(of).collect()
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

/// Mean round-trip times: AVIRA's below every other's.
fn order(runs: &[Run], form: Form) -> Vec<Claim> {
    let rtt: fn(&Run) -> f64 = |run| run.measured.rtt_ms;
    let [others @ .., ours] = form.compared();
    let ours_rtt = series(runs, form, ours.scheduler, rtt);
    others
        .iter()
        .map(|other| {
            let values = ratios(&ours_rtt, &series(runs, form, other.scheduler, rtt));
            let (text, id) = match form {
                Form::Printed => (String::new(), format!("rtt-{}", other.scheduler)),
                form => (format!("{}: ", form.label()), format!("rtt-{}-{}", form.id(), other.scheduler)),
            };
            let text = format!("{text}mean RTT of AVIRA over {}'s", other.name);
            claim(&id, &text, &values, AtMost(LESS)).paper(ours.rtt_ms / other.rtt_ms)
        })
        .collect()
}

/// What it costs; as printed.
fn cost(runs: &[Run]) -> Vec<Claim> {
    let again: fn(&Run) -> f64 = |run| run.measured.retransmitted_percent;
    let [default, .., ours] = Form::Printed.compared().map(|compared| compared.scheduler);
    let series = |scheduler, of| series(runs, Form::Printed, scheduler, of);
    let throughput: fn(&Run) -> f64 = |run| run.measured.throughput_mbps;
    let values = ratios(&series(ours, throughput), &series(default, throughput));
    let text = "throughput of AVIRA over Default's";
    let mut claims = vec![claim("throughput", text, &values, AtLeast(1.0)).paper(PAPER_GAIN)];
    let pairs = series(ours, again).into_iter().zip(series(default, again));
    let difference: Vec<f64> = pairs.map(|(ours, theirs)| (ours - theirs).abs()).collect();
    let text = "retransmissions, percentage points between AVIRA and Default";
    let interval = stats::mean_interval(&difference);
    let claim_again = Claim::judge("retransmissions", text, stats::mean(&difference), AtMost(0.1));
    claims.push(claim_again.interval(interval).paper(0.07));
    claims
}

/// Mean latency of a run's prioritised packets.
pub(super) fn packet_ms(run: &Run) -> f64 {
    stats::mean(&run.measured.prioritised_ms).unwrap_or(f64::NAN)
}

/// What it does for the packets it is for.
fn prioritised_packets(runs: &[Run], form: Form) -> Claim {
    let [default, .., ours] = form.compared().map(|compared| compared.scheduler);
    let values = ratios(&series(runs, form, ours, packet_ms), &series(runs, form, default, packet_ms));
    let (text, id) = match form {
        Form::Printed => (String::new(), "prioritised-latency".to_owned()),
        form => (format!("{}: ", form.label()), format!("prioritised-latency-{}", form.id())),
    };
    let text = format!("{text}latency of prioritised packets of AVIRA over Default's");
    claim(&id, &text, &values, AtMost(LESS))
}

fn prioritised(messages: &[Messages], scenario: &str) -> [Claim; 2] {
    let series = |transport: &str, of: fn(&Messages) -> f64| -> Vec<f64> {
        let these = messages.iter().filter(|run| run.scenario == scenario && run.transport == transport);
        these.map(of).collect()
    };
    let p99 = ratios(&series("avira+fbdt", |m| m.all.p99_ms), &series("mptcp", |m| m.all.p99_ms));
    let bulk = ratios(&series("avira+fbdt", |m| m.bulk_mbps), &series("fbdt", |m| m.bulk_mbps));
    let latency = format!("{scenario}: p99 of messages under avira+fbdt over MPTCP's default");
    let cost = format!("{scenario}: goodput of bulk beside them under avira+fbdt over fbdt's");
    [
        claim(&format!("messages-p99-{scenario}"), &latency, &p99, AtMost(0.5)),
        claim(&format!("messages-bulk-{scenario}"), &cost, &bulk, AtLeast(0.98)),
    ]
}
