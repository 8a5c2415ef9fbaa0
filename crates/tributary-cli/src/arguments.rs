//! Arguments that several commands of both programs have.

use crate::quantity;
use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;
use tributary_net::Limits;
use tributary_stream::viewing::ViewerConfig;
use tributary_types::Bitrate;
use tributary_video::rd::Concealment;

/// The viewer.
#[derive(Debug, Args)]
pub struct ViewerArguments {
    /// Allocator, which chooses quality and order of tiles: ows, ows-no-skip, ows-paper, fix, fix-q, two-class, …
    #[arg(long, default_value = "ows")]
    pub allocator: String,
    /// Choose qualities by exact dynamic programming
    #[arg(long)]
    pub exact: bool,
    /// Head movement; without it the viewer looks straight ahead
    #[arg(long, value_name = "FILE")]
    pub head: Option<PathBuf>,
    /// Format of the head movement: plain (a header with time_s,yaw_deg,pitch_deg), plain:time_s=NAME,yaw_deg=NAME for other names, nasrabadi19, jin22 or wu17
    #[arg(long, default_value = "plain")]
    pub head_format: String,
    /// Head movement of another viewer of this video, to predict with; repeatable
    #[arg(long, value_name = "FILE", requires = "head")]
    pub crowd: Vec<PathBuf>,
    /// Concealment of missing tiles
    #[arg(long, default_value = "freeze", value_parser = ["freeze", "black"])]
    pub concealment: String,
    /// Rate assumed before anything has arrived, in Mbit/s, or with a unit: 1.5Gbit/s
    #[arg(long, value_name = "RATE", default_value = "10", value_parser = quantity::mbps_in(1..=100_000))]
    pub assumed_rate: u64,
    /// Plans per GoP while it is sent [default: 8 with ows and ows-no-skip, else 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=50))]
    pub plans: Option<u16>,
    /// Field of view in degrees, width × height
    #[arg(long, default_value = "110x90")]
    pub field: String,
    /// Width of the measured viewport in pixels
    #[arg(long, default_value_t = 720)]
    pub viewport_width: usize,
}

impl ViewerArguments {
    /// The viewer as the command line describes it.
    ///
    /// # Errors
    /// The field of view is not two numbers.
    pub fn config(&self, seconds: Option<u32>) -> Result<ViewerConfig> {
        let sides = self.field.split_once(['x', '×']);
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let field = sides.and_then(|(across, upwards)| Some((number(across)?, number(upwards)?)));
        let Some(field) = field else { bail!("field of view `{}` is not WIDTHxHEIGHT", self.field) };
        Ok(ViewerConfig {
            allocator: self.allocator.clone(),
            exact: self.exact,
            head: self.head.clone().map(|path| (path, self.head_format.clone())),
            crowd: self.crowd.clone(),
            concealment: match self.concealment.as_str() {
                "black" => Concealment::Black,
                _ => Concealment::Freeze,
            },
            seconds,
            plans: self.plans,
            assumed: Bitrate::from_bps(self.assumed_rate * 1_000_000),
            field,
            width: self.viewport_width,
            record: false,
            low_resolution: false,
        })
    }
}

/// Memory limit of a server.
#[derive(Clone, Debug, Args)]
pub struct MemoryArguments {
    /// Memory for all sessions together: 512MiB, 2GiB [default: 8GiB]
    ///
    /// Half of it is reserved for the minimum that each session needs, 4 MiB: 8 GiB are enough for the limit of 1024
    /// sessions. The other half is shared by sessions that need more, up to about 117 MiB each. A session may not
    /// take more than what then remains free. The kernel's socket buffers are not counted. Sessions only: kernel
    /// transports and QUIC have limits on connections instead.
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes_in(Limits::LEAST_MEMORY..=1 << 44))]
    pub memory: Option<u64>,
}

impl MemoryArguments {
    /// The limits with this memory.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let limits = Limits::default();
        Limits { memory: self.memory.unwrap_or(limits.memory), ..limits }
    }
}
