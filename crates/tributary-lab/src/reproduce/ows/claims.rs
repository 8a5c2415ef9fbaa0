//! The claims as inequalities, with paired intervals over viewings.

use tributary_report::{Claim, Expectation, Interval};
use tributary_video::rd::Concealment;

use super::clip::ClipInfo;
use super::figures::{Figures, Pair, Quality, Value, Where};
use super::matrix::{CHAIN, TRANSPORTS};
use super::scene::SCENES;
use super::viewing::Viewed;

use Expectation::{AtLeast, AtMost};

/// The paper's gain of OWS on FBDT over FIX on MPTCP, dB, by scene (OWS §6.3, figure 6f).
const PAPER_GAIN: [(&str, f64); 3] = [("los", 10.0), ("nlos", 13.0), ("mobility", 13.0)];
const BASE: Pair = CHAIN[0];
const EVERY_TILE: Pair = CHAIN[4];
const SKIPPING: Pair = CHAIN[5];
const WHOLE: Pair = CHAIN[6];

pub(super) fn judge(
    clips: &[ClipInfo],
    viewings: &[Viewed],
    connecting_ms: &[(&'static str, f64)],
) -> Vec<Claim> {
    let figures = Figures::new(viewings);
    let all: Vec<usize> = (0..clips.len()).collect();
    let moving: Vec<usize> = all.iter().copied().filter(|clip| clips[*clip].moving).collect();
    let mut claims = Vec::new();
    for (scene, label) in SCENES {
        let judge = Judge { figures: &figures, label };
        let at = Where { clips: &all, scene, concealment: Concealment::Freeze };
        claims.extend(GAINS.map(|gain| judge.gain(&at, gain)));
        let paper = PAPER_GAIN.iter().find(|(name, _)| *name == scene).map_or(f64::NAN, |(_, gain)| *gain);
        claims.push(judge.gain(&at, LEAVING_OUT).paper(paper));
        if !moving.is_empty() {
            claims.extend(MOVING.map(|gain| judge.gain(&Where { clips: &moving, ..at }, gain)));
        }
        claims.push(judge.gain(&Where { concealment: Concealment::Black, ..at }, BLACK));
    }
    claims.extend(everywhere(&figures, clips));
    claims.extend(late(&figures, &all));
    for (transport, ms) in connecting_ms {
        let text = format!("start-up over {transport}: connecting, in round trips; a GoP's time is added");
        let round_trips = Some(ms / ROUND_TRIP_MS);
        let claim = Claim::judge(&format!("start-up-{transport}"), &text, round_trips, AtMost(2.0));
        claims.push(claim.unit("RTT"));
    }
    claims
}

/// A gain over [`BASE`] that is claimed.
#[derive(Clone, Copy)]
struct Gain {
    id: &'static str,
    what: &'static str,
    pair: Pair,
    quality: Quality,
    at_least_db: f64,
}

const fn gain(id: &'static str, what: &'static str, of: (Pair, Quality, f64)) -> Gain {
    Gain { id, what, pair: of.0, quality: of.1, at_least_db: of.2 }
}

const GAINS: [Gain; 2] = [
    gain("every-tile-mean", "every tile sent, mean dB", (EVERY_TILE, Quality::Mean, 2.5)),
    gain("every-tile-pooled", "every tile sent, pooled", (EVERY_TILE, Quality::Pooled, 4.5)),
];
const LEAVING_OUT: Gain = gain("skipping-mean", "with leaving out, mean dB", (WHOLE, Quality::Mean, 4.5));
const MOVING: [Gain; 2] = [
    gain("moving-pooled", "moving clips, pooled", (WHOLE, Quality::Pooled, 7.0)),
    gain("moving-worst", "moving clips, worst 5 % of GoPs", (WHOLE, Quality::Worst, 10.0)),
];
const BLACK: Gain =
    gain("black-pooled", "black in place of freezing, pooled", (WHOLE, Quality::Pooled, 13.0));

/// Of all three scenes.
const ROUND_TRIP_MS: f64 = 5.0;

struct Judge<'a> {
    figures: &'a Figures<'a>,
    label: &'static str,
}

impl Judge<'_> {
    /// Over FIX on MPTCP.
    fn gain(&self, at: &Where<'_>, gain: Gain) -> Claim {
        let Gain { id, what, pair, quality, at_least_db } = gain;
        let value = self.figures.gain(quality, at, pair, BASE);
        let text = format!("{}: {} on {} over FIX on MPTCP, {what}", self.label, pair.1, pair.0);
        claim(&format!("{id}-{}", at.scene), &text, value, AtLeast(at_least_db)).unit("dB")
    }
}

fn claim(id: &str, text: &str, value: Option<Value>, expected: Expectation) -> Claim {
    let interval: Option<Interval> = value.and_then(|(_, interval)| interval);
    Claim::judge(id, text, value.map(|(value, _)| value), expected).interval(interval)
}

/// `ows` beside the fair baseline and beside the printed algorithm: the worst of every clip, scene and transport.
fn everywhere(figures: &Figures<'_>, clips: &[ClipInfo]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (rival, bound) in [("fix-q", -0.1), ("ows-paper", 0.0)] {
        for (quality, name) in [(Quality::Mean, "mean dB"), (Quality::Pooled, "pooled")] {
            let mut worst: Option<(Value, String)> = None;
            for (scene, label) in SCENES {
                for transport in TRANSPORTS {
                    for (clip, info) in clips.iter().enumerate() {
                        let at = Where { clips: &[clip], scene, concealment: Concealment::Freeze };
                        let Some(gain) = figures.gain(quality, &at, (transport, "ows"), (transport, rival))
                        else {
                            continue;
                        };
                        if worst.as_ref().is_none_or(|(least, _)| gain.0 < least.0) {
                            worst = Some((gain, format!("{}, {label}, {transport}", info.name)));
                        }
                    }
                }
            }
            let place = worst.as_ref().map_or("nowhere", |(_, place)| place.as_str());
            let text =
                format!("ows over {rival} on the same transport, {name}: the least anywhere ({place})");
            let id = format!("ows-over-{rival}-{}", name.split(' ').next().unwrap_or_default());
            claims.push(claim(&id, &text, worst.map(|(value, _)| value), AtLeast(bound)).unit("dB"));
        }
    }
    claims
}

fn late(figures: &Figures<'_>, all: &[usize]) -> Vec<Claim> {
    let at = Where { clips: all, scene: "mobility", concealment: Concealment::Freeze };
    let claims = [("late-mobility", WHOLE), ("late-mobility-one-plan", SKIPPING)].map(|(id, pair)| {
        let text =
            format!("mobility: share of the real viewport whose tiles came late, {} on {}", pair.1, pair.0);
        claim(id, &text, figures.mean(&at, pair, |viewed| viewed.late_percent), AtMost(0.5)).unit("%")
    });
    claims.into()
}
