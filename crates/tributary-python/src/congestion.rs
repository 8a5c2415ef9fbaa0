//! Congestion controllers written in Python: what such a class is told, and its place below TCP, MPTCP and sessions.
//!
//! After each call its attributes `window`, `slow_start_threshold` and `pacing_rate` are read and checked.

use crate::failure::{Failure, class_name, defines, require};
use crate::options::Argument;
use core::fmt;
use pyo3::prelude::*;
use std::sync::Arc;
use tributary_cc::{
    Ack as TcpAck, CongestionController, Loss as TcpLoss, LossKind, Setup, SiblingView, Siblings,
};
use tributary_sim::own::MakeController;
use tributary_types::{Bitrate, Instant};

/// Name of the base class.
const BASE: &str = "CongestionController";
/// Largest window, bytes: more than any path holds.
const MOST_WINDOW: f64 = (1_u64 << 40) as f64;
/// Highest pacing rate, bit/s.
const MOST_RATE: f64 = 1e12;

/// What a controller may read of a subflow of its connection.
#[pyclass(frozen, get_all, module = "tributary")]
#[derive(Clone, Debug)]
pub(crate) struct Sibling {
    /// Window, bytes.
    window: u64,
    /// Maximum segment size, bytes.
    mss: u64,
    /// Smoothed round-trip time in seconds; zero before the first sample.
    srtt: f64,
    /// Least round-trip time in seconds; zero before the first sample.
    base_rtt: f64,
}

/// An acknowledgement. Times are in seconds, sizes in bytes, rates in bit/s.
#[pyclass(frozen, get_all, module = "tributary")]
#[derive(Debug)]
pub(crate) struct Ack {
    /// Time of arrival.
    now: f64,
    /// Bytes acknowledged for the first time.
    bytes: u64,
    /// Bytes in flight now.
    in_flight: u64,
    /// Round-trip sample; ``None`` when all were retransmitted.
    rtt: Option<f64>,
    /// Smoothed round-trip time.
    srtt: f64,
    /// Least round-trip time of the connection.
    min_rtt: f64,
    /// Delivery rate; ``None`` without a sample.
    rate: Option<f64>,
    /// Whether the window limited the sender.
    cwnd_limited: bool,
    /// Whether a loss is being recovered from, when the window must not grow.
    in_recovery: bool,
    /// Whether this is the first acknowledgement of a round trip.
    round_ended: bool,
    /// All subflows of the connection, its own included.
    siblings: Vec<Sibling>,
    /// Index of its own subflow in ``siblings``.
    own: usize,
}

/// A loss. Times are in seconds, sizes in bytes.
#[pyclass(frozen, get_all, module = "tributary")]
#[derive(Debug)]
pub(crate) struct Loss {
    /// Time of detection.
    now: f64,
    /// Whether the retransmission timer detected it, and not later acknowledgements.
    timeout: bool,
    /// Bytes detected as lost.
    bytes: u64,
    /// Bytes in flight before.
    in_flight: u64,
    /// All subflows of the connection, its own included.
    siblings: Vec<Sibling>,
    /// Index of its own subflow in ``siblings``.
    own: usize,
}

/// What is read from the object after each call.
#[derive(Clone, Copy, Debug)]
struct Decided {
    window: u64,
    threshold: u64,
    pacing: Option<Bitrate>,
}

/// An object of Python in the place of a controller.
struct Own {
    object: Option<Py<PyAny>>,
    class: String,
    failure: Failure,
    setup: Setup,
    decided: Decided,
    hears_recovery: bool,
    view: SiblingView,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(&self.class).field("decided", &self.decided).finish_non_exhaustive()
    }
}

/// A maker of the controllers that `factory` gives for a segment size, a first window and a seed.
pub(crate) fn maker(factory: Py<PyAny>, failure: Failure) -> Arc<MakeController> {
    Arc::new(move |setup| {
        let mut own = Own::absent(setup, failure.clone());
        failure.guard(|py| own.make(factory.bind(py)));
        Box::new(own)
    })
}

impl Own {
    fn absent(setup: Setup, failure: Failure) -> Self {
        Self {
            object: None,
            class: BASE.to_owned(),
            failure,
            decided: Decided { window: setup.initial_window, threshold: u64::MAX, pacing: None },
            hears_recovery: false,
            view: SiblingView { mss: setup.mss, ..SiblingView::default() },
            setup,
        }
    }

    fn make(&mut self, factory: &Bound<'_, PyAny>) -> PyResult<()> {
        let Setup { mss, initial_window, seed, .. } = self.setup;
        let object = factory.call1((mss, initial_window, seed))?;
        require(&object, "on_ack")?;
        require(&object, "on_loss")?;
        self.class = class_name(&object);
        self.hears_recovery = defines(&object, BASE, "on_recovery_end")?;
        self.decided = self.read(&object)?;
        self.object = Some(object.unbind());
        Ok(())
    }

    fn read(&self, object: &Bound<'_, PyAny>) -> PyResult<Decided> {
        let attribute = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
            Ok(object.getattr_opt(name)?.filter(|value| !value.is_none()))
        };
        let least = self.setup.mss as f64;
        let bytes = |name: &str| -> PyResult<Option<u64>> {
            let Some(value) = attribute(name)? else { return Ok(None) };
            let name = format!("{}.{name}", self.class);
            Ok(Some(Argument(&name, &value).number(least..=MOST_WINDOW)? as u64))
        };
        let pacing = match attribute("pacing_rate")? {
            Some(value) => {
                let name = format!("{}.pacing_rate", self.class);
                let rate = Argument(&name, &value).number(1.0..=MOST_RATE)?;
                Some(Bitrate::from_bps(rate as u64))
            }
            None => None,
        };
        let window = bytes("window")?.unwrap_or(self.setup.initial_window);
        Ok(Decided { window, threshold: bytes("slow_start_threshold")?.unwrap_or(u64::MAX), pacing })
    }

    fn tell(&mut self, call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<()>) {
        let Some(object) = &self.object else { return };
        let told = self.failure.guard(|py| {
            let object = object.bind(py);
            call(py, object)?;
            self.read(object)
        });
        self.decided = told.unwrap_or(self.decided);
    }
}

fn seen(siblings: Siblings<'_>) -> Vec<Sibling> {
    let one = |view: &SiblingView| Sibling {
        window: view.window,
        mss: view.mss,
        srtt: view.srtt.as_secs_f64(),
        base_rtt: view.base_rtt.as_secs_f64(),
    };
    siblings.iter().map(one).collect()
}

impl CongestionController for Own {
    fn name(&self) -> &'static str {
        "own"
    }

    fn window(&self) -> u64 {
        self.decided.window
    }

    fn slow_start_threshold(&self) -> u64 {
        self.decided.threshold
    }

    fn pacing_rate(&self) -> Option<Bitrate> {
        self.decided.pacing
    }

    fn view(&self) -> SiblingView {
        SiblingView { window: self.decided.window, ..self.view }
    }

    fn on_ack(&mut self, ack: &TcpAck, siblings: Siblings<'_>) {
        (self.view.srtt, self.view.base_rtt) = (ack.srtt, ack.min_rtt);
        self.view.since_loss += ack.bytes;
        let told = Ack {
            now: ack.now.as_secs_f64(),
            bytes: ack.bytes,
            in_flight: ack.in_flight,
            rtt: ack.rtt.map(|rtt| rtt.as_secs_f64()),
            srtt: ack.srtt.as_secs_f64(),
            min_rtt: ack.min_rtt.as_secs_f64(),
            rate: ack.rate.map(|sample| sample.rate.as_bps() as f64),
            cwnd_limited: ack.cwnd_limited,
            in_recovery: ack.in_recovery,
            round_ended: ack.round_ended,
            siblings: seen(siblings),
            own: siblings.own(),
        };
        self.tell(|py, object| object.call_method1("on_ack", (Py::new(py, told)?,)).map(|_| ()));
    }

    fn on_loss(&mut self, loss: &TcpLoss, siblings: Siblings<'_>) {
        (self.view.between_losses, self.view.since_loss) = (self.view.since_loss, 0);
        let told = Loss {
            now: loss.now.as_secs_f64(),
            timeout: loss.kind == LossKind::Timeout,
            bytes: loss.bytes,
            in_flight: loss.in_flight,
            siblings: seen(siblings),
            own: siblings.own(),
        };
        self.tell(|py, object| object.call_method1("on_loss", (Py::new(py, told)?,)).map(|_| ()));
    }

    fn on_recovery_end(&mut self, now: Instant) {
        if self.hears_recovery {
            self.tell(|_, object| object.call_method1("on_recovery_end", (now.as_secs_f64(),)).map(|_| ()));
        }
    }
}
