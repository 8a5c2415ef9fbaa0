//! The paper's conditions and figures (FBDT, section 6), in Mbit/s, divided by ten as our links are.

/// Where a condition comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Human blockage and mobility.
    First,
    /// The traffic controller: loss and delay.
    Second,
    /// Not in the paper: a radio that dies without notice.
    Ours,
}

/// One condition with the paper's mean goodputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Name for people.
    pub label: &'static str,
    /// Where it comes from.
    pub experiment: Experiment,
    wifi: Option<f64>,
    wigig: Option<f64>,
    mptcp: Option<f64>,
    fbdt: Option<f64>,
}

impl Condition {
    const fn new(scenario: &'static str, label: &'static str, experiment: Experiment) -> Self {
        Self { scenario, label, experiment, wifi: None, wigig: None, mptcp: None, fbdt: None }
    }

    const fn with(mut self, wifi: Option<f64>, wigig: Option<f64>, mptcp: Option<f64>) -> Self {
        (self.wifi, self.wigig, self.mptcp) = (wifi, wigig, mptcp);
        self
    }

    const fn fbdt(mut self, mbps: f64) -> Self {
        self.fbdt = Some(mbps);
        self
    }

    /// The paper's goodput of a transport in Mbit/s.
    #[must_use]
    pub fn paper(&self, transport: &str) -> Option<f64> {
        match transport {
            "wifi" => self.wifi,
            "wigig" => self.wigig,
            "mptcp" => self.mptcp,
            "fbdt" | "fbdt-paper" => self.fbdt,
            _ => None,
        }
    }

    /// The paper's FBDT over the sum of its single radios.
    #[must_use]
    pub fn paper_of_sum(&self) -> Option<f64> {
        Some(self.fbdt? / (self.wifi? + self.wigig?))
    }

    /// The paper's FBDT over its MPTCP.
    #[must_use]
    pub fn paper_of_mptcp(&self) -> Option<f64> {
        Some(self.fbdt? / self.mptcp?)
    }
}

/// All conditions. The paper's on/off figures were never stated as means, nor FBDT's in the second experiment.
pub const CONDITIONS: [Condition; 11] = {
    use Experiment::{First, Ours, Second};
    let wifi = Some(47.0);
    [
        Condition::new("los", "LoS", First).with(wifi, Some(140.0), Some(155.0)).fbdt(192.0),
        Condition::new("nlos", "nLoS", First).with(wifi, Some(75.0), Some(93.0)).fbdt(130.0),
        Condition::new("mobility", "mobility", First).with(wifi, Some(105.5), Some(98.0)).fbdt(138.0),
        Condition::new("onoff", "on/off blockage", First),
        Condition::new("blackout", "blackout", First),
        Condition::new("dead-wigig", "WiGig dies silently", Ours),
        Condition::new("normal", "normal", Second).with(Some(63.0), Some(180.0), Some(220.0)),
        Condition::new("loss-wigig", "5 % loss on WiGig", Second).with(None, Some(3.0), Some(14.7)),
        Condition::new("loss-wifi", "5 % loss on WiFi", Second),
        Condition::new("delay-wigig", "+500 ms on WiGig", Second).with(None, None, Some(3.0)),
        Condition::new("delay-wifi", "+500 ms on WiFi", Second),
    ]
};
