//! Measured networks as scenario files: what a recording or a converted trace writes, for simulator and emulator.
//!
//! Not here: measuring, and reading traces ([`crate::Trace`]).

use crate::{DelaySpec, LossSpec, QueueSpec, Trace};
use core::fmt::Write as _;
use core::time::Duration;
use tributary_types::{Bitrate, DataSize};

/// One direction of a measured path.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredLink {
    /// Its rate over time.
    pub rate: Trace,
    /// Its delay over time.
    pub delay: DelaySpec,
    /// Its random loss over time.
    pub loss: LossSpec,
}

/// A measured path.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredPath {
    /// Its name: 1 to 15 of `a-z`, `0-9` and `-`.
    pub name: String,
    /// Server to client.
    pub down: MeasuredLink,
    /// Client to server; `None`: as `down`.
    pub up: Option<MeasuredLink>,
}

/// A measured network.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredNetwork {
    /// Its name.
    pub name: String,
    /// One sentence: where it comes from.
    pub description: String,
    /// What was not measured, or how; written as comments.
    pub notes: Vec<String>,
    /// Length of the measurement.
    pub duration: Duration,
    /// The paths.
    pub paths: Vec<MeasuredPath>,
}

/// Queue of every measured link: measurements of rate do not show it. 100 ms at the present rate is between a WiFi driver's
/// queue (tens of ms) and a mobile network's (hundreds of ms).
const QUEUE: QueueSpec =
    QueueSpec::Time { time: Duration::from_millis(100), floor: DataSize::from_bytes(150_000) };

impl MeasuredNetwork {
    /// The queue that its links have in the file.
    #[must_use]
    pub const fn queue() -> QueueSpec {
        QUEUE
    }

    /// As a scenario file. A link without any capacity is written as a dead path.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let _ = writeln!(text, "name = {}", quoted(&self.name));
        if !self.description.is_empty() {
            let _ = writeln!(text, "description = {}", quoted(&self.description));
        }
        for line in self.notes.iter().flat_map(|note| note.lines()) {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "duration = \"{}\"", time(self.duration));
        for path in &self.paths {
            let _ = writeln!(text, "\n[[path]]\nname = {}", quoted(&path.name));
            if path.down.rate.max() == Bitrate::ZERO {
                text.push_str("dead = [[\"0 %\", \"100 %\"]]\n");
            }
            link(&mut text, "down", &path.down);
            if let Some(up) = &path.up {
                link(&mut text, "up", up);
            }
        }
        text
    }
}

fn link(text: &mut String, direction: &str, link: &MeasuredLink) {
    let _ = writeln!(text, "[path.{direction}]");
    if link.rate.max() == Bitrate::ZERO {
        text.push_str("rate = \"1 Mbit/s\"\n");
    } else {
        text.push_str("rate = { trace = { lasting = 1, rate = 2, text = \"\"\"\n");
        let mut from = Duration::ZERO;
        for (until, rate) in link.rate.iter() {
            let (lasts, bps) = (until - from, rate.as_bps());
            let (mega, rest) = (bps / 1_000_000, bps % 1_000_000);
            let _ = writeln!(text, "{}.{:09},{mega}.{rest:06}", lasts.as_secs(), lasts.subsec_nanos());
            from = until;
        }
        text.push_str("\"\"\" } }\n");
    }
    let DelaySpec { base, jitter, changes } = &link.delay;
    let _ = write!(text, "delay = {{ base = \"{}\"", time(*base));
    if !jitter.is_zero() {
        let _ = write!(text, ", jitter = \"{}\"", time(*jitter));
    }
    if !changes.is_empty() {
        let change =
            |(since, base): &(Duration, Duration)| format!("[\"{}\", \"{}\"]", time(*since), time(*base));
        let changes: Vec<String> = changes.iter().map(change).collect();
        let _ = write!(text, ", changes = [{}]", changes.join(", "));
    }
    text.push_str(" }\n");
    match &link.loss {
        LossSpec::None => {}
        LossSpec::Bernoulli(share) => _ = writeln!(text, "loss = {share:.6}"),
        LossSpec::Steps(steps) => {
            let step = |(since, share): &(Duration, f64)| format!("[\"{}\", {share:.6}]", time(*since));
            let steps: Vec<String> = steps.iter().map(step).collect();
            let _ = writeln!(text, "loss = {{ steps = [{}] }}", steps.join(", "));
        }
        LossSpec::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
            let _ = writeln!(
                text,
                "loss = {{ to_bad = {to_bad:.6}, to_good = {to_good:.6}, loss_good = {loss_good:.6}, loss_bad = {loss_bad:.6} }}"
            );
        }
    }
    let QueueSpec::Time { time: queue, floor } = QUEUE else { return };
    let _ = writeln!(text, "queue = {{ time = \"{}\", floor = \"{} B\" }}", time(queue), floor.as_bytes());
}

/// A time as scenario files have it, exact to the nanosecond.
fn time(time: Duration) -> String {
    let whole = format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
    format!("{} s", whole.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkSpec, RateSpec, Scenario};
    use std::sync::Arc;

    fn measured(csv: &str, delay: DelaySpec, loss: LossSpec) -> MeasuredLink {
        MeasuredLink { rate: Trace::parse_csv(csv).unwrap(), delay, loss }
    }

    #[test]
    fn a_file_reads_back_as_the_network_that_was_measured() {
        let ms = Duration::from_millis;
        let delay = DelaySpec { base: ms(20), jitter: ms(1), changes: vec![(ms(1500), ms(35))] };
        let down = measured(
            "0,12.345678\n0.1,0\n2,7\n2.0000101,8\n",
            delay,
            LossSpec::Steps(vec![(ms(0), 0.0125), (ms(700), 0.5)]),
        );
        let up = measured("0,3\n1,3\n", DelaySpec::default(), LossSpec::Bernoulli(0.25));
        let network = MeasuredNetwork {
            name: "a \"walk\"".to_owned(),
            description: "from here\\to there\nand back".to_owned(),
            notes: vec!["position: absent\n= 3".to_owned()],
            duration: ms(2500),
            paths: vec![
                MeasuredPath { name: "wlan0".to_owned(), down: down.clone(), up: Some(up.clone()) },
                MeasuredPath { name: "wwan0".to_owned(), down: up.clone(), up: None },
            ],
        };
        let text = network.to_toml();
        let read = Scenario::parse(&text, "walk.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!((&read.name, &read.description), (&network.name, &network.description));
        assert_eq!((read.duration, read.path_names()), (ms(2500), vec!["wlan0", "wwan0"]));
        let spec = |link: &MeasuredLink| LinkSpec {
            rate: RateSpec::Trace(Arc::new(link.rate.clone())),
            delay: link.delay.clone(),
            loss: link.loss.clone(),
            queue: QUEUE,
        };
        assert_eq!((&read.paths[0].down, &read.paths[0].up), (&spec(&down), &spec(&up)));
        assert_eq!(read.paths[1].up, spec(&up));
    }

    #[test]
    fn a_radio_that_never_carried_anything_is_a_dead_path() {
        let table = crate::TraceTable::new(crate::Column::Numbered(1), crate::Column::Numbered(2));
        let silent = Trace::parse_table("0,0\n1,0\n", &table).unwrap();
        let down = MeasuredLink { rate: silent, delay: DelaySpec::default(), loss: LossSpec::None };
        let paths = vec![MeasuredPath { name: "wwan0".to_owned(), down, up: None }];
        let network = MeasuredNetwork {
            name: "walk".to_owned(),
            description: String::new(),
            notes: Vec::new(),
            duration: Duration::from_secs(2),
            paths,
        };
        let read = Scenario::parse(&network.to_toml(), "walk.toml").unwrap();
        assert_eq!(read.paths[0].dead.len(), 1);
    }
}
