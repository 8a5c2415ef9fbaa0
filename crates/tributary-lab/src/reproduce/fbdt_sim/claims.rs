//! The claims as inequalities, at the paper's own rates: the paper's, and the product's own promises.

use super::{Condition, Settings};
use crate::sweep::{Group, Row};
use tributary_report::{Claim, Expectation, Interval, stats};

use Expectation::{AtLeast, AtMost};

/// Rounds and seed of the bootstrap.
const BOOTSTRAP: (u32, u64) = (1000, 1);

/// What all claims of one congestion control look at.
struct Judge<'a> {
    groups: Vec<Group<'a>>,
    congestion: &'a str,
    conditions: Vec<&'static Condition>,
    claims: Vec<Claim>,
}

/// A number of a run.
type Number = fn(&Row) -> Option<f64>;

const GOODPUT: Number = |row| row.measured.goodput_mbps;
const P10: Number = |row| row.measured.p10_mbps;
const WORST: Number = |row| row.measured.worst_second_mbps;
const SILENCE: Number = |row| row.measured.longest_silence_ms;

pub(super) fn judge(
    rows: &[Row],
    planned: &[(&'static Condition, String)],
    settings: &Settings,
) -> Vec<Claim> {
    let mut claims = Vec::new();
    for congestion in &settings.congestion {
        let mut groups = Group::of(rows);
        groups.retain(|group| group.head().congestion == *congestion);
        let conditions = planned.iter().filter(|(_, name)| name == congestion).map(|(c, _)| *c).collect();
        let mut judge = Judge { groups, congestion, conditions, claims: Vec::new() };
        judge.sums();
        judge.rivals();
        judge.every_cell();
        judge.silences();
        claims.append(&mut judge.claims);
    }
    claims
}

impl<'a> Judge<'a> {
    fn rows(&self, scenario: &str, transport: &str) -> &[&'a Row] {
        let same =
            |group: &&Group<'_>| group.head().scenario == scenario && group.head().transport == transport;
        self.groups.iter().find(same).map_or(&[], |group| &group.rows)
    }

    fn mean(&self, scenario: &str, transport: &str, of: Number) -> Option<f64> {
        let values: Vec<f64> = self.rows(scenario, transport).iter().filter_map(|row| of(row)).collect();
        stats::mean(&values)
    }

    /// `ours` over the sum of `others`, seed by seed.
    fn ratios(&self, scenario: &str, ours: &str, others: &[&str], of: Number) -> Vec<f64> {
        let by_seed = |transport: &str, seed: u64| {
            self.rows(scenario, transport).iter().find(|row| row.seed == seed).and_then(|row| of(row))
        };
        let ratio = |row: &&'a Row| {
            let sum: Option<f64> = others.iter().map(|other| by_seed(other, row.seed)).sum();
            Some(of(row)? / sum?.max(0.1)) // a rival at zero makes no ratio infinite
        };
        self.rows(scenario, ours).iter().filter_map(ratio).collect()
    }

    fn add(&mut self, (id, text): (&str, &str), values: &[f64], expected: Expectation, paper: Option<f64>) {
        let (measured, interval) = (stats::mean(values), bootstrap(values));
        self.push((id, text), (measured, interval), expected, paper);
    }

    fn push(
        &mut self,
        (id, text): (&str, &str),
        (measured, interval): (Option<f64>, Option<Interval>),
        expected: Expectation,
        paper: Option<f64>,
    ) {
        let (id, text) = (format!("sim-{id}-{}", self.congestion), format!("{text} ({})", self.congestion));
        let claim = Claim::judge(&id, &text, measured, expected).interval(interval);
        self.claims.push(paper.map_or(claim.clone(), |paper| claim.paper(paper)));
    }

    fn condition(&self, scenario: &str) -> Option<&'static Condition> {
        self.conditions.iter().find(|condition| condition.scenario == scenario).copied()
    }

    fn sums(&mut self) {
        for (scenario, bound) in
            [("los", 0.97), ("nlos", 0.97), ("mobility", 1.0), ("onoff", 1.0), ("blackout", 1.0)]
        {
            let Some(condition) = self.condition(scenario) else { continue };
            let ratios = self.ratios(scenario, "fbdt", &["wifi", "wigig"], GOODPUT);
            let text = format!("{}: fbdt over the sum of the single radios", condition.label);
            self.add(
                (&format!("{scenario}-of-sum"), &text),
                &ratios,
                AtLeast(bound),
                condition.paper_of_sum(),
            );
            let rows = self.rows(scenario, "fbdt").iter();
            let shares: Vec<f64> = rows.filter_map(|row| row.measured.share_of_capacity).collect();
            let text = format!("{}: fbdt over link capacity", condition.label);
            self.add((&format!("{scenario}-of-capacity"), &text), &shares, AtLeast(0.90), None);
        }
    }

    fn rivals(&mut self) {
        for (scenario, bound) in [("los", 1.0), ("nlos", 1.0), ("mobility", 1.15), ("blackout", 1.15)] {
            let Some(condition) = self.condition(scenario) else { continue };
            let ratios = self.ratios(scenario, "fbdt", &["mptcp"], GOODPUT);
            let text = format!("{}: fbdt over MPTCP", condition.label);
            self.add(
                (&format!("{scenario}-of-mptcp"), &text),
                &ratios,
                AtLeast(bound),
                condition.paper_of_mptcp(),
            );
        }
        // FBDT, section 6: MuSher equals it in LoS, has 814 of 1300 Mbit/s in nLoS, and 2.5 times less moving.
        for (scenario, published) in [("los", 1.0), ("nlos", 1300.0 / 814.0), ("mobility", 2.5)] {
            let Some(condition) = self.condition(scenario) else { continue };
            let ratios = self.ratios(scenario, "fbdt", &["musher"], GOODPUT);
            let text = format!("{}: fbdt over MuSher", condition.label);
            self.add((&format!("{scenario}-of-musher"), &text), &ratios, AtLeast(0.99), Some(published));
        }
        for scenario in ["mobility", "blackout"] {
            let Some(condition) = self.condition(scenario) else { continue };
            let ratio = self.mean(scenario, "fbdt", WORST).zip(self.mean(scenario, "mptcp", WORST));
            let ratio = ratio.map(|(ours, theirs)| ours / theirs.max(1.0));
            let text =
                format!("{}: worst second of fbdt over MPTCP's, means over the seeds", condition.label);
            self.push((&format!("{scenario}-worst-second"), &text), (ratio, None), AtLeast(5.0), None);
            self.best_of_all(condition);
        }
    }

    /// The tenth percentile beside the best of all other schedulers.
    fn best_of_all(&mut self, condition: &'static Condition) {
        let others = self.groups.iter().map(Group::head).filter(|head| {
            head.scenario == condition.scenario
                && !["fbdt", "wifi", "wigig"].contains(&head.transport.as_str())
        });
        let best = others.filter_map(|head| {
            Some((head.transport.clone(), self.mean(condition.scenario, &head.transport, P10)?))
        });
        let Some((name, _)) = best.max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
        let ratios = self.ratios(condition.scenario, "fbdt", &[&name], P10);
        let text = format!("{}: p10 of fbdt over the best other's, {name}", condition.label);
        self.add((&format!("{}-p10-of-best", condition.scenario), &text), &ratios, AtLeast(1.0), None);
    }

    /// What must hold in all conditions: the least favourable one is the measured value.
    fn every_cell(&mut self) {
        let better = |c: &Condition| {
            let ours = self.mean(c.scenario, "fbdt", GOODPUT)?;
            let radios = [self.mean(c.scenario, "wifi", GOODPUT)?, self.mean(c.scenario, "wigig", GOODPUT)?];
            Some(ours / radios[0].max(radios[1]).max(0.1))
        };
        let rival = |c: &Condition| {
            Some(self.mean(c.scenario, "fbdt", GOODPUT)? / self.mean(c.scenario, "mptcp", GOODPUT)?.max(0.1))
        };
        let second = |c: &Condition| self.least_second(c.scenario);
        let copies = |c: &Condition| {
            let rows = self.rows(c.scenario, "fbdt").iter();
            stats::mean(&rows.filter_map(|row| row.measured.reinjected_percent).collect::<Vec<_>>())
        };
        let found = [
            (
                "never-below-better-radio",
                "fbdt over the better radio, least of all conditions",
                self.least(&better),
            ),
            ("never-below-mptcp", "fbdt over MPTCP, least of all conditions", self.least(&rival)),
            (
                "never-below-wifi",
                "fbdt over WiFi alone in the same second, least of all seconds",
                self.least(&second),
            ),
        ];
        let most = self.least(&|c| copies(c).map(|percent| -percent));
        for (id, text, least) in found {
            let text = least.map_or(text.to_owned(), |(label, _)| format!("{text}: {label}"));
            self.push((id, &text), (least.map(|(_, value)| value), None), AtLeast(1.0), None);
        }
        let text = most.map_or(String::new(), |(label, _)| format!(": {label}"));
        let text = format!("per cent of bytes sent again, most of all conditions{text}");
        self.push(("duplicates", &text), (most.map(|(_, value)| -value), None), AtMost(3.0), None);
    }

    fn least(&self, value: &dyn Fn(&Condition) -> Option<f64>) -> Option<(&'static str, f64)> {
        let all = self.conditions.iter().filter_map(|c| Some((c.label, value(c)?)));
        all.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn least_second(&self, scenario: &str) -> Option<f64> {
        let mut ratios = Vec::new();
        for row in self.rows(scenario, "fbdt") {
            let wifi = self.rows(scenario, "wifi").iter().find(|alone| alone.seed == row.seed)?;
            let pairs = row.measured_seconds().iter().zip(wifi.measured_seconds());
            ratios.extend(pairs.map(|(ours, alone)| ours / alone.max(0.1)));
        }
        stats::minimum(&ratios)
    }

    fn silences(&mut self) {
        if self.condition("blackout").is_none() {
            return;
        }
        let lengths = |transport| -> Vec<f64> {
            self.rows("blackout", transport).iter().filter_map(|row| SILENCE(row)).collect()
        };
        let (ours, theirs) = (lengths("fbdt"), lengths("mptcp"));
        let p99 = stats::percentile(&ours, 99.0);
        let spread =
            stats::minimum(&ours).zip(stats::maximum(&ours)).map(|(low, high)| Interval { low, high });
        let text = "blackout: ms of the longest in-order silence, p99 over the seeds";
        self.push(("blackout-silence", text), (p99, spread), AtMost(120.0), None);
        let ratio = stats::median(&ours).zip(stats::median(&theirs)).map(|(a, b)| a / b.max(1e-9));
        let text = "blackout: longest in-order silence over MPTCP's, medians";
        self.push(("blackout-silence-of-mptcp", text), (ratio, None), AtMost(0.25), None);
    }
}

fn bootstrap(values: &[f64]) -> Option<Interval> {
    (values.len() > 1)
        .then(|| stats::bootstrap_interval(values, stats::mean, BOOTSTRAP.0, BOOTSTRAP.1))
        .flatten()
}
