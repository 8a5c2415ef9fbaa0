//! The shipped scenarios, compiled in so that their names resolve without any file.

use super::{Scenario, ScenarioError};

macro_rules! shipped {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../../../scenarios/fbdt/", $name, ".toml")))),*]
    };
}

/// `(name, text)`; the order in which they are listed and run.
const SHIPPED: [(&str, &str); 12] = shipped!(
    "los" "nlos" "mobility" "blackout" "onoff" "onoff-long" "dead-wigig"
    "normal" "loss-wifi" "loss-wigig" "delay-wifi" "delay-wigig"
);

impl Scenario {
    /// A shipped scenario.
    pub fn builtin(name: &str) -> Result<Self, ScenarioError> {
        match SHIPPED.iter().find(|(known, _)| *known == name) {
            Some((known, text)) => Self::parse(text, &format!("scenarios/fbdt/{known}.toml")),
            None => {
                let known = Self::builtin_names().collect::<Vec<_>>().join(", ");
                Err(ScenarioError::Unknown { name: name.to_owned(), known })
            }
        }
    }

    /// The names of all shipped scenarios.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }
}
