//! The built-in scenarios, compiled in so that their names work without files.

use super::{Scenario, ScenarioError};

macro_rules! shipped {
    ($($folder:literal: $($name:literal)*;)*) => {
        &[$($((
            $name,
            concat!("scenarios/", $folder, "/", $name, ".toml"),
            include_str!(concat!("../../scenarios/", $folder, "/", $name, ".toml")),
        )),*),*]
    };
}

/// `(name, file, text)`, in the order in which they are listed and run.
const SHIPPED: &[(&str, &str, &str)] = shipped!(
    "fbdt": "los" "los-varying" "nlos" "mobility" "deep-fade" "blackout" "onoff" "onoff-long" "dead-wigig"
        "blink-100" "blink-200" "blink-fade" "blink-random" "mobility-fast" "walks" "three-radios" "four-radios" "normal" "loss-wifi" "loss-wigig" "delay-wifi" "delay-wigig";
    "channel": "markov" "blockage-short" "blockage-long";
    "topology": "shared-bottleneck" "multi-hop";
    "handoff": "wifi-wifi-limited" "wifi-wifi-large" "wifi-lte";
    "tiled": "los-2k" "los-varying-2k" "nlos-2k" "mobility-2k" "deep-fade-2k";
);

impl Scenario {
    /// A built-in scenario.
    pub fn builtin(name: &str) -> Result<Self, ScenarioError> {
        match SHIPPED.iter().find(|(known, ..)| *known == name) {
            Some((_, file, text)) => Self::parse(text, file),
            None => {
                let known = Self::builtin_names().collect::<Vec<_>>().join(", ");
                Err(ScenarioError::Unknown { name: name.to_owned(), known })
            }
        }
    }

    /// The names of all built-in scenarios.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, ..)| *name)
    }
}
