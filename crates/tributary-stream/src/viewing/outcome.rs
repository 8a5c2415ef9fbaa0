//! The results of one viewing, with all its conditions.

use crate::tiled::{SlotRecord, TiledRecord};
use serde::{Deserialize, Serialize};
use tributary_report::{Column, Table, TableCell};
use tributary_tiles::TiledVideo;
use tributary_video::metrics::{MOST_DB, Summary};
use tributary_video::rd::Concealment;

use super::measure::{GopQuality, Measured};
use super::motion::Motion;

/// The capacity estimate on which plans were based.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Knowledge {
    /// The rate assumed for the first GoP, Mbit/s.
    pub assumed_mbps: f64,
    /// GoPs planned with the assumed rate, because nothing was measured yet.
    pub gops_assumed: u32,
    /// Mean number of measured samples in the other plans.
    pub mean_samples: f64,
    /// Mean of the measured samples, Mbit/s.
    pub mean_mbps: f64,
}

/// Amounts of media requested and received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Media requested, Mbit/s of playing time.
    pub planned_mbps: f64,
    /// Media received in time, Mbit/s of playing time.
    pub in_time_mbps: f64,
    /// Everything received, including headers and late tiles, Mbit/s of playing time.
    pub arrived_mbps: f64,
    /// Tiles requested, as counted by the server, or by the player if the server sent no counts.
    pub tiles_planned: u64,
    /// Number of these that arrived in time.
    pub tiles_in_time: u64,
    /// Number of these that arrived late.
    pub tiles_late: u64,
    /// The rest: dropped by the server, or incomplete.
    pub tiles_dropped: u64,
    /// Tiles that the plan left out.
    pub tiles_left_out: u64,
}

/// Quality of the view, with the mean of dB and the dB of the mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// PSNR of the viewport's luma: mean of per-GoP dB, PSNR of the mean MSE, worst 5 % of GoPs.
    pub viewport: Summary,
    /// WS-PSNR of the whole panorama.
    pub ws: Summary,
    /// S-PSNR of the whole panorama, one picture per GoP.
    pub s: Summary,
    /// Share of the view whose tiles were requested but not in time, in per cent.
    pub late_percent: f64,
    /// Share of the view whose tiles were not requested, in per cent.
    pub left_out_percent: f64,
    /// The slot with the worst viewport.
    pub worst_slot: u32,
    /// Motion to high quality.
    pub motion: Motion,
    /// Slot by slot.
    pub gops: Vec<GopQuality>,
}

/// One viewing with its conditions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TiledResult {
    /// The transport, for display.
    pub transport: String,
    /// The allocator's name.
    pub allocator: String,
    /// Number of plans per GoP.
    pub plans: u16,
    /// Concealment of missing tiles.
    pub concealment: Concealment,
    /// Description of the clip, its grid and QPs.
    pub clip: String,
    /// Description of the head movement; includes whether the trace ended before the viewing.
    pub head: String,
    /// The capacity estimate.
    pub knowledge: Knowledge,
    /// Paths in use at the start.
    pub paths_up: usize,
    /// From requesting the start to the first picture, milliseconds.
    pub start_up_ms: Option<f64>,
    /// One round trip at the start, milliseconds.
    pub rtt_ms: f64,
    /// GoP duration, milliseconds.
    pub gop_ms: f64,
    /// Amounts of media.
    pub load: Load,
    /// The quality; `None` without the source to compare with.
    pub quality: Option<Quality>,
    /// Plan and arrivals of every slot.
    pub record: TiledRecord,
}

impl Knowledge {
    /// The capacity estimates in a viewing whose player first assumed this rate.
    #[must_use]
    pub fn of(record: &TiledRecord, assumed_mbps: f64) -> Self {
        let measured: Vec<&SlotRecord> =
            record.slots.iter().filter(|slot| slot.capacity_samples > 0).collect();
        let count = measured.len().max(1) as f64;
        let to_mbps = 8.0 / 1e3 / record.gop_ms.max(1.0);
        Self {
            assumed_mbps,
            gops_assumed: (record.slots.len() - measured.len()) as u32,
            mean_samples: measured.iter().fold(0.0, |sum, slot| sum + f64::from(slot.capacity_samples))
                / count,
            mean_mbps: measured.iter().fold(0.0, |sum, slot| sum + slot.capacity_mean) / count * to_mbps,
        }
    }
}

impl Load {
    /// The load of a viewing.
    #[must_use]
    pub fn of(record: &TiledRecord) -> Self {
        let seconds = record.slots.len() as f64 * record.gop_ms.max(1.0) / 1e3;
        let mbps = |bytes: u64| bytes as f64 * 8.0 / 1e6 / seconds.max(1e-9);
        let slots = || record.slots.iter();
        let arrived = |in_time: bool| {
            slots().flat_map(|slot| &slot.arrived).filter(|tile| tile.in_time == in_time).count() as u64
        };
        let planned = || slots().map(|slot| slot.planned.len() as u64).sum::<u64>();
        let tiles_planned = record.account.map_or_else(planned, |account| account.asked);
        let (tiles_in_time, tiles_late) = (arrived(true), arrived(false));
        Self {
            planned_mbps: mbps(slots().map(|slot| slot.planned_bytes).sum()),
            in_time_mbps: mbps(slots().map(SlotRecord::bytes_in_time).sum()),
            arrived_mbps: mbps(record.bytes),
            tiles_planned,
            tiles_in_time,
            tiles_late,
            tiles_dropped: tiles_planned.saturating_sub(tiles_in_time + tiles_late),
            tiles_left_out: slots().map(|slot| u64::from(slot.left_out)).sum(),
        }
    }
}

impl Quality {
    /// The quality from measured slots; `None` if there are none.
    #[must_use]
    pub fn of(measured: &Measured) -> Option<Self> {
        let gops = measured.gops.clone();
        let errors = |of: fn(&GopQuality) -> f64| gops.iter().map(of).collect::<Vec<_>>();
        let viewport = Summary::of(&errors(|gop| gop.viewport_mse))?;
        let ws = Summary::of(&errors(|gop| gop.ws_mse))?;
        let s = Summary::of(&errors(|gop| gop.s_mse))?;
        let percent = |of: fn(&GopQuality) -> f64| 100.0 * errors(of).iter().sum::<f64>() / gops.len() as f64;
        let (late_percent, left_out_percent) =
            (percent(|gop| gop.late_share), percent(|gop| gop.left_out_share));
        let worst = gops.iter().max_by(|a, b| a.viewport_mse.total_cmp(&b.viewport_mse));
        let worst_slot = worst.map_or(0, |gop| gop.slot);
        Some(Self {
            viewport,
            ws,
            s,
            late_percent,
            left_out_percent,
            worst_slot,
            motion: measured.motion,
            gops,
        })
    }
}

/// Description of a clip: size, grid, QPs.
#[must_use]
pub fn clip(video: &TiledVideo, slots: u32) -> String {
    let ((width, height), grid) = (video.size(), video.grid());
    let seconds = video.table().duration_s();
    let played = f64::from(slots) * video.table().layout().gop_duration_s;
    let again = if played > seconds + 1e-9 { format!(", repeated for {played:.0} s") } else { String::new() };
    format!(
        "{} {width}×{height}, {seconds:.0} s{again}, {}×{} tiles, QP {:?}",
        video.source().name,
        grid.columns(),
        grid.rows(),
        video.qps()
    )
}

impl TiledResult {
    /// A sentence with the main result.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Some(quality) = &self.quality else {
            return format!(
                "{} of {} tiles were in time over {}; quality was not measured because the source was not given.",
                self.load.tiles_in_time, self.load.tiles_planned, self.transport
            );
        };
        format!(
            "{} on {}: viewport PSNR {:.1} dB (mean of GoPs), {:.1} dB pooled, {:.1} dB in the worst 5 % of GoPs; {:.2} % of the view late.",
            self.allocator,
            self.transport,
            quality.viewport.mean_db,
            quality.viewport.pooled_db,
            quality.viewport.worst_db,
            quality.late_percent
        )
    }

    /// Clip, head and concealment in a few lines.
    #[must_use]
    pub fn conditions(&self) -> String {
        let missing = concealment(self.concealment);
        let cap = if self.quality.is_some() { format!("\n{}", psnr_cap()) } else { String::new() };
        format!("clip: {}\nhead: {}\nmissing tiles: {missing}{cap}", self.clip, self.head)
    }

    /// Media requested and received, in one line.
    #[must_use]
    pub fn load_words(&self) -> String {
        let Load { planned_mbps, tiles_planned, tiles_in_time, tiles_late, tiles_dropped, .. } = self.load;
        format!(
            "{} on {}: {planned_mbps:.1} Mbit/s requested, {} plans per GoP; {tiles_planned} tiles, {tiles_in_time} in time, \
             {tiles_late} late, {tiles_dropped} dropped; capacity {}",
            self.allocator,
            self.transport,
            self.plans,
            self.capacity_words()
        )
    }

    /// Description of the capacity estimate.
    #[must_use]
    pub fn capacity_words(&self) -> String {
        let Knowledge { assumed_mbps, gops_assumed, mean_samples, mean_mbps } = self.knowledge;
        format!(
            "measured ({mean_samples:.0} samples, mean {mean_mbps:.1} Mbit/s), {assumed_mbps:.0} Mbit/s assumed for the \
             first {}",
            if gops_assumed == 1 { "GoP".to_owned() } else { format!("{gops_assumed} GoPs") }
        )
    }
}

/// The PSNR shown in tables for a picture without error.
#[must_use]
pub fn psnr_cap() -> String {
    format!("PSNR: pictures without error count as {MOST_DB:.0} dB")
}

/// A table of viewings.
#[must_use]
pub fn table(results: &[&TiledResult]) -> Table {
    let mut table = Table::new("").columns([
        Column::left("allocator"),
        Column::left("transport"),
        Column::left("missing is"),
        Column::right("mean").unit("dB"),
        Column::right("pooled").unit("dB"),
        Column::right("worst 5 %").unit("dB"),
        Column::right("late view").unit("%"),
        Column::right("left out").unit("%"),
        Column::right("WS mean").unit("dB"),
        Column::right("asked").unit("Mbit/s"),
        Column::right("in time").unit("Mbit/s"),
        Column::right("start-up").unit("ms"),
        Column::right("to good").unit("ms"),
    ]);
    for result in results {
        let quality = result.quality.as_ref();
        let number = |of: fn(&Quality) -> f64, digits| TableCell::optional_number(quality.map(of), digits);
        table.push([
            TableCell::text(&result.allocator),
            TableCell::text(&result.transport),
            TableCell::text(concealment(result.concealment)),
            number(|q| q.viewport.mean_db, 1).strong(),
            number(|q| q.viewport.pooled_db, 1),
            number(|q| q.viewport.worst_db, 1),
            number(|q| q.late_percent, 2),
            number(|q| q.left_out_percent, 2),
            number(|q| q.ws.mean_db, 1),
            TableCell::number(result.load.planned_mbps, 1),
            TableCell::number(result.load.in_time_mbps, 1),
            TableCell::optional_number(result.start_up_ms, 0),
            TableCell::optional_number(quality.and_then(|q| q.motion.mean_ms), 0),
        ]);
    }
    table
}

/// Name of the concealment.
#[must_use]
pub fn concealment(concealment: Concealment) -> &'static str {
    match concealment {
        Concealment::Freeze => "frozen",
        Concealment::Black => "black",
    }
}

/// The concealment of this name, as on the command line.
#[must_use]
pub fn concealment_name(concealment: Concealment) -> &'static str {
    match concealment {
        Concealment::Freeze => "freeze",
        Concealment::Black => "black",
    }
}
