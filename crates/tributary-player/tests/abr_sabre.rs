//! The rules choose the same qualities as Sabre in Sabre's network model, segment by segment.
//!
//! Sabre's decisions are in `../shared/data/abr-sabre-oracle`, beside the repository, and are not part of it.
//! Without them the test says so and checks nothing. Sabre: Spiteri, Sitaraman and Sparacio, MMSys 2018.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tributary_player::abr::{self, Finished, Ladder, Progress, Rule, ThroughputEstimate, View};
use tributary_types::Bitrate;

/// Sabre's play buffer, ms.
const BUFFER: f64 = 25_000.0;
/// Progress is checked after at least this many bits and this many ms.
const LOOK_BITS: f64 = 12_000.0;
const LOOK_MS: f64 = 50.0;
/// Share of a rule's decisions that must agree.
const AGREE: f64 = 0.98;

#[derive(Deserialize)]
struct Period {
    duration_ms: f64,
    bandwidth_kbps: f64,
    latency_ms: f64,
}

#[derive(Deserialize)]
struct Movie {
    segment_duration_ms: f64,
    bitrates_kbps: Vec<f64>,
    segment_sizes_bits: Vec<Vec<f64>>,
}

/// A trace played in a loop: rate by period, one latency for each request. Times in ms, sizes in bits.
struct Network<'a> {
    trace: &'a [Period],
    at: usize,
    left: f64,
}

impl<'a> Network<'a> {
    fn new(trace: &'a [Period]) -> Self {
        Self { trace, at: 0, left: trace[0].duration_ms }
    }

    fn next(&mut self) {
        self.at = (self.at + 1) % self.trace.len();
        self.left = self.trace[self.at].duration_ms;
    }

    fn wait(&mut self, mut time: f64) {
        while time > self.left {
            time -= self.left;
            self.next();
        }
        self.left -= time;
    }

    /// Time until the first byte.
    fn latency(&mut self) -> f64 {
        let (mut units, mut total) = (1.0, 0.0);
        loop {
            let latency = self.trace[self.at].latency_ms;
            let time = units * latency;
            if time <= self.left {
                self.left -= time;
                return total + time;
            }
            total += self.left;
            units -= self.left / latency;
            self.next();
        }
    }

    /// Time for all of `size`.
    fn transfer(&mut self, mut size: f64) -> f64 {
        let mut total = 0.0;
        while size > 0.0 {
            let rate = self.trace[self.at].bandwidth_kbps;
            if size <= self.left * rate {
                let time = size / rate;
                self.left -= time;
                return total + time;
            }
            total += self.left;
            size -= self.left * rate;
            self.next();
        }
        total
    }

    /// Progress of a transfer of `size` after at least `bits` and `time`: bits that arrived and time taken.
    fn step(&mut self, mut size: f64, mut bits: f64, mut time: f64) -> (f64, f64) {
        let (mut arrived, mut elapsed) = (0.0, 0.0);
        while size > 0.0 && (bits > 0.0 || time > 0.0) {
            let rate = self.trace[self.at].bandwidth_kbps;
            let wanted = bits.max(time * rate);
            let possible = self.left * rate;
            let (got, took);
            if rate > 0.0 && size <= wanted && size <= possible {
                (got, took) = (size, size / rate);
                self.left -= took;
            } else if rate > 0.0 && wanted <= possible {
                (got, took) = (wanted, wanted / rate);
                (bits, time) = (0.0, 0.0);
                self.left -= took;
            } else if rate > 0.0 || bits > 0.0 || time > self.left {
                (got, took) = (possible, self.left);
                self.next();
            } else {
                (got, took) = (0.0, time);
                self.left -= took;
            }
            arrived += got;
            elapsed += took;
            size -= got;
            bits -= got;
            time -= took;
        }
        (arrived, elapsed)
    }
}

/// A download: bits, time in ms, time to the first byte in ms, and the quality for which it was abandoned.
struct Download {
    bits: f64,
    time: f64,
    first_byte: f64,
    abandoned_to: Option<usize>,
}

struct Session<'a> {
    movie: &'a Movie,
    ladder: Ladder,
    network: Network<'a>,
    rule: Box<dyn Rule>,
    estimate: ThroughputEstimate,
    abandons: bool,
    /// Media in the buffer, ms.
    level: f64,
    next: usize,
}

fn ms(value: f64) -> Duration {
    Duration::from_secs_f64(value.max(0.0) / 1000.0)
}

impl<'a> Session<'a> {
    fn new(movie: &'a Movie, trace: &'a [Period], rule: &str, abandons: bool) -> Self {
        let rates = movie.bitrates_kbps.iter().map(|kbps| Bitrate::from_bps((kbps * 1000.0) as u64));
        let ladder =
            Ladder::new(ms(movie.segment_duration_ms), rates.collect()).expect("a ladder of Sabre's");
        let rule = abr::rule(rule).expect("a known rule");
        let (network, estimate) = (Network::new(trace), ThroughputEstimate::default());
        Self { movie, ladder, network, rule, estimate, abandons, level: 0.0, next: 0 }
    }

    fn view(&self, level: f64) -> View<'_> {
        View {
            ladder: &self.ladder,
            level: ms(level),
            capacity: ms(BUFFER),
            next: self.next,
            remaining: Some(self.movie.segment_sizes_bits.len() - self.next),
            estimate: self.estimate.estimate(),
        }
    }

    /// Asks the rule with the present view.
    fn ask<T>(&mut self, level: f64, question: impl FnOnce(&mut dyn Rule, &View<'_>) -> T) -> T {
        let mut rule = std::mem::replace(&mut self.rule, Box::new(abr::Bba::default()));
        let answer = question(rule.as_mut(), &self.view(level));
        self.rule = rule;
        answer
    }

    fn download(&mut self, quality: usize) -> Download {
        let size = self.movie.segment_sizes_bits[self.next][quality];
        let first_byte = self.network.latency();
        if !self.abandons || self.next == 0 {
            let time = first_byte + self.network.transfer(size);
            return Download { bits: size, time, first_byte, abandoned_to: None };
        }
        let (mut bits, mut time) = (0.0, first_byte);
        let mut wait = LOOK_MS - first_byte;
        while bits < size {
            let (got, took) = self.network.step(size - bits, LOOK_BITS, wait);
            bits += got;
            time += took;
            wait = LOOK_MS;
            if bits < size {
                let progress =
                    Progress { quality, size, arrived: bits, elapsed: ms(time), first_byte: ms(first_byte) };
                let level = (self.level - time).max(0.0);
                let to = self.ask(level, |rule, view| rule.abandon(view, &progress));
                if to.is_some() {
                    return Download { bits, time, first_byte, abandoned_to: to };
                }
            }
        }
        Download { bits, time, first_byte, abandoned_to: None }
    }

    /// The qualities of all segments.
    fn run(mut self) -> Vec<usize> {
        let mut chosen = Vec::new();
        while self.next < self.movie.segment_sizes_bits.len() {
            let mut quality = 0;
            if self.next > 0 {
                let full = self.level + self.movie.segment_duration_ms - BUFFER;
                if full > 0.0 {
                    self.level -= full;
                    self.network.wait(full);
                    self.rule.waited(ms(full));
                }
                let decision = self.ask(self.level, |rule, view| rule.choose(view));
                let delay = decision.delay.as_secs_f64() * 1000.0;
                self.level = (self.level - delay).max(0.0);
                self.network.wait(delay);
                quality = decision.quality;
            }
            let done = self.download(quality);
            self.level = (self.level - done.time).max(0.0);
            if done.abandoned_to.is_none() {
                self.level += self.movie.segment_duration_ms;
                chosen.push(quality);
            }
            let finished = Finished { quality, elapsed: ms(done.time), abandoned_to: done.abandoned_to };
            if self.next > 0 {
                self.ask(self.level, |rule, view| rule.finished(view, &finished));
            }
            if done.abandoned_to.is_none() {
                let transfer = ms(done.time - done.first_byte);
                let segment = self.ladder.segment();
                self.estimate.add(done.bits, transfer, ms(done.first_byte), segment);
                self.next += 1;
            }
        }
        chosen
    }
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data")
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Sabre's qualities by trace, movie and whether downloads may be abandoned.
fn decisions(rule: &str) -> BTreeMap<(String, String, bool), Vec<usize>> {
    let path = data().join("abr-sabre-oracle").join(format!("{}.csv", rule.replace('-', "")));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut sessions: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let key = (fields[0].to_owned(), fields[1].to_owned(), fields[2] == "on");
        sessions.entry(key).or_default().push(fields[4].parse().expect("a quality"));
    }
    sessions
}

fn trace_of(movie: &str, trace: &str) -> PathBuf {
    let set = if movie == "bbb" { "net-3g-riiser13" } else { "net-4g-ghent16" };
    data().join(set).join(format!("{trace}.json"))
}

#[test]
fn the_rules_choose_what_sabre_chose() {
    if tributary_testing::data("abr-sabre-oracle").is_none() {
        return;
    }
    for rule in ["throughput", "bola", "bola-e", "dynamic"] {
        let (mut equal, mut all) = (0, 0);
        for ((trace, movie, abandons), expected) in decisions(rule) {
            let periods: Vec<Period> = read(&trace_of(&movie, &trace));
            let title: Movie = read(&data().join(format!("rd-dash-ladders/sabre/{movie}.json")));
            let chosen = Session::new(&title, &periods, rule, abandons).run();
            assert_eq!(chosen.len(), expected.len(), "{rule} {trace}");
            equal += chosen.iter().zip(&expected).filter(|(ours, sabre)| ours == sabre).count();
            all += expected.len();
        }
        println!("{rule}: {equal} of {all} decisions equal Sabre's");
        assert!(all > 10_000, "{rule}: only {all} decisions were read");
        assert!(equal as f64 >= AGREE * all as f64, "{rule}: {equal} of {all} decisions equal Sabre's");
    }
}
