//! The claims as inequalities: the paper's, and the product's own promises, each for one congestion
//! control.

use super::{Condition, Settings, dead};
use crate::reproduce::runs::Runs;
use crate::result::RunResult;
use tributary_report::{Claim, Expectation, stats};

use Expectation::{AtLeast, AtMost};

/// What all claims of one congestion control look at.
struct Judge<'a> {
    runs: &'a Runs,
    congestion: &'a str,
    conditions: Vec<&'static Condition>,
    settings: &'a Settings,
    claims: Vec<Claim>,
}

pub(super) fn judge(
    runs: &Runs,
    planned: &[(&'static Condition, String)],
    settings: &Settings,
) -> Vec<Claim> {
    let mut names: Vec<&str> = Vec::new();
    for (_, congestion) in planned {
        if !names.contains(&congestion.as_str()) {
            names.push(congestion);
        }
    }
    let mut claims = Vec::new();
    for congestion in names {
        let conditions = planned.iter().filter(|(_, name)| name == congestion).map(|(c, _)| *c).collect();
        let mut judge = Judge { runs, congestion, conditions, settings, claims: Vec::new() };
        judge.sums();
        judge.rivals();
        judge.every_cell();
        judge.silences();
        judge.dying_radio();
        claims.append(&mut judge.claims);
    }
    claims
}

impl<'a> Judge<'a> {
    fn condition(&self, scenario: &str) -> Option<&'static Condition> {
        self.conditions.iter().find(|condition| condition.scenario == scenario).copied()
    }

    fn key<'b>(&'b self, scenario: &'b str, transport: &'b str) -> (&'b str, &'b str, &'b str) {
        (scenario, transport, self.congestion)
    }

    fn goodput(&self, scenario: &str, transport: &str) -> Option<f64> {
        self.runs.goodput(self.key(scenario, transport))
    }

    fn claim(&self, id: &str, text: &str, measured: Option<f64>, expected: Expectation) -> Claim {
        Claim::judge(
            &format!("{id}-{}", self.congestion),
            &format!("{text} ({})", self.congestion),
            measured,
            expected,
        )
    }

    /// Shares of the sum of the single radios and of link capacity.
    fn sums(&mut self) {
        let bounds = [("los", 0.97), ("nlos", 0.97), ("mobility", 1.0), ("onoff", 1.0), ("blackout", 1.0)];
        for (scenario, bound) in bounds {
            let Some(condition) = self.condition(scenario) else { continue };
            let (wifi, wigig) = (self.goodput(scenario, "wifi"), self.goodput(scenario, "wigig"));
            let sum = wifi.zip(wigig).map(|(a, b)| a + b);
            let ratio = self.goodput(scenario, "fbdt").zip(sum).map(|(ours, sum)| ours / sum);
            let text = format!("{}: fbdt over the sum of the single radios", condition.label);
            let mut claim = self.claim(&format!("{scenario}-of-sum"), &text, ratio, AtLeast(bound));
            if let Some(paper) = condition.paper_of_sum() {
                claim = claim.paper(paper);
            }
            let interval = sum.and_then(|sum| self.runs.interval(self.key(scenario, "fbdt"), sum));
            self.claims.push(claim.interval(interval));
            if bound >= 1.0 {
                self.capacity(condition);
            }
        }
    }

    fn capacity(&mut self, condition: &Condition) {
        let key = self.key(condition.scenario, "fbdt");
        let share = |run: &RunResult| Some(run.goodput.as_ref()?.share_of_capacity);
        let text = format!("{}: fbdt over link capacity", condition.label);
        let id = format!("{}-of-capacity", condition.scenario);
        let claim = self.claim(&id, &text, self.runs.median(key, share), AtLeast(0.90));
        let claim = claim.interval(self.runs.spread(key, share));
        self.claims.push(claim);
    }

    /// Beside kernel MPTCP under mobility and blackout.
    fn rivals(&mut self) {
        let bound = if self.congestion == "bbr" { 1.4 } else { 1.15 };
        for scenario in ["mobility", "blackout"] {
            let Some(condition) = self.condition(scenario) else { continue };
            let theirs = self.goodput(scenario, "mptcp");
            let ratio = self.goodput(scenario, "fbdt").zip(theirs).map(|(a, b)| a / b);
            let text = format!("{}: fbdt over kernel MPTCP", condition.label);
            let mut claim = self.claim(&format!("{scenario}-of-mptcp"), &text, ratio, AtLeast(bound));
            if let Some(paper) = condition.paper_of_mptcp() {
                claim = claim.paper(paper);
            }
            let interval = theirs.and_then(|by| self.runs.interval(self.key(scenario, "fbdt"), by));
            self.claims.push(claim.interval(interval));
            let worst = |transport| self.runs.worst_second(self.key(scenario, transport));
            // A rival that delivers nothing in a second makes every ratio infinite; 0.1 Mbit/s bounds it.
            let ratio = worst("fbdt").zip(worst("mptcp")).map(|(a, b)| a / b.max(0.1));
            let text = format!("{}: worst second of fbdt over kernel MPTCP's", condition.label);
            self.claims.push(self.claim(&format!("{scenario}-worst-second"), &text, ratio, AtLeast(5.0)));
        }
    }

    /// What must hold in all cells: the least or most favourable one is the measured value.
    fn every_cell(&mut self) {
        let least = |ratio: &dyn Fn(&str) -> Option<f64>| self.extreme(ratio, f64::total_cmp);
        let better = |s: &str| {
            let radios = self.goodput(s, "wifi").zip(self.goodput(s, "wigig"));
            Some(self.goodput(s, "fbdt")? / radios.map(|(a, b)| a.max(b))?)
        };
        let rival = |s: &str| Some(self.goodput(s, "fbdt")? / self.goodput(s, "mptcp")?);
        let second = |s: &str| self.least_second(s);
        let copies = |s: &str| self.runs.median(self.key(s, "fbdt"), |run| run.duplicates_percent);
        let rows = [
            ("never-below-better-radio", "fbdt over the better radio, least of all cells", least(&better)),
            ("never-below-mptcp", "fbdt over kernel MPTCP, least of all cells", least(&rival)),
            (
                "never-below-wifi",
                "fbdt over WiFi alone in the same second, least of all seconds",
                least(&second),
            ),
        ];
        let most = self.extreme(&copies, |a, b| b.total_cmp(a));
        let mut claims = Vec::new();
        for (id, text, found) in rows {
            claims.push(self.claim(id, &with_cell(text, &found), found.map(|(_, v)| v), AtLeast(1.0)));
        }
        let text = with_cell("bytes sent again, most of all cells", &most);
        claims.push(self.claim("duplicates", &text, most.map(|(_, v)| v), AtMost(3.0)).unit("%"));
        self.claims.append(&mut claims);
    }

    fn extreme(
        &self,
        value: &dyn Fn(&str) -> Option<f64>,
        order: impl Fn(&f64, &f64) -> core::cmp::Ordering,
    ) -> Option<(&'static str, f64)> {
        let all = self.conditions.iter().filter_map(|c| Some((c.label, value(c.scenario)?)));
        all.min_by(|a, b| order(&a.1, &b.1))
    }

    /// The least ratio of a second of fbdt to the same second of WiFi alone, seed by seed.
    fn least_second(&self, scenario: &str) -> Option<f64> {
        let ours = self.runs.of(self.key(scenario, "fbdt"));
        let wifi = self.runs.of(self.key(scenario, "wifi"));
        let mut ratios = Vec::new();
        for run in ours {
            let Some(alone) = wifi.iter().find(|alone| alone.seed == run.seed) else { continue };
            let (Some(a), Some(b)) = (&run.goodput, &alone.goodput) else { continue };
            ratios.extend(a.measured().iter().zip(b.measured()).map(|(a, b)| a / b.max(0.1)));
        }
        stats::minimum(&ratios)
    }

    /// Silences under blackout.
    fn silences(&mut self) {
        if self.condition("blackout").is_none() {
            return;
        }
        let lengths = |transport| -> Vec<f64> {
            let runs = self.runs.of(self.key("blackout", transport));
            runs.iter().filter_map(|run| run.longest_silence_ms).collect()
        };
        let (ours, theirs) = (lengths("fbdt"), lengths("mptcp"));
        let p99 = stats::percentile(&ours, 99.0);
        let interval = self.runs.spread(self.key("blackout", "fbdt"), |run| run.longest_silence_ms);
        let text = "blackout: longest in-order silence, p99 over the runs";
        let claim = self.claim("blackout-silence", text, p99, AtMost(120.0)).unit("ms").interval(interval);
        let ratio = stats::median(&ours).zip(stats::median(&theirs)).map(|(a, b)| a / b.max(1e-9));
        let text = "blackout: longest in-order silence over kernel MPTCP's";
        let beside = self.claim("blackout-silence-of-mptcp", text, ratio, AtMost(0.25));
        self.claims.extend([claim, beside]);
    }

    /// The radio that dies without notice.
    fn dying_radio(&mut self) {
        let Some(condition) = self.condition("dead-wigig") else { return };
        let key = self.key(condition.scenario, "fbdt");
        let limit = 3.0 * self.settings.rtt.as_secs_f64() * 1e3 + 50.0;
        let silence = self.runs.median(key, dead::silence_ms);
        let text = "WiGig dies silently: longest silence, at most 3 RTT + 50 ms";
        let first = self.claim("dead-silence", text, silence, AtMost(limit)).unit("ms");
        let first = first.interval(self.runs.spread(key, dead::silence_ms));
        let back = self.runs.median(key, dead::back_after);
        let text = "WiGig comes back: used again after";
        let second = self.claim("dead-used-again", text, back, AtMost(1.0)).unit("s");
        let second = second.interval(self.runs.spread(key, dead::back_after));
        let text = "WiGig dies silently: fbdt over WiFi alone, least of all seconds";
        let third = self.claim("dead-seconds", text, self.least_second(condition.scenario), AtLeast(1.0));
        self.claims.extend([first, second, third]);
    }
}

fn with_cell(text: &str, found: &Option<(&'static str, f64)>) -> String {
    match found {
        Some((cell, _)) => format!("{text}: {cell}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
