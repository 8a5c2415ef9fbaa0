//! What a tiled viewing decided to load, as E3PO's `decision.json`: E3PO then evaluates it with its own video and pictures.
//!
//! The viewing is what `tributary stream play --json` prints. E3PO's tiles have numbers from 0, row by row, as here; its own
//! approaches have one quality, so a name tells the quality only if the caller asks for it. Its clock begins with the session, in
//! milliseconds. Source: bytedance/E3PO, `docs/Tutorial.md` and the files that its decision module writes.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why there are no decisions.
#[derive(Debug, Error)]
pub enum E3poError {
    /// The text is no viewing.
    #[error("line {line}, column {column}: {problem}; give what `tributary stream play --json` prints")]
    NoViewing {
        /// Counted from one.
        line: usize,
        /// Counted from one.
        column: usize,
        /// The reason.
        problem: String,
    },
    /// Nothing was loaded.
    #[error("the viewing loaded nothing, so there is no decision")]
    Nothing,
}

#[derive(Deserialize)]
struct Viewing {
    record: Record,
}

#[derive(Deserialize)]
struct Record {
    slots: Vec<Slot>,
}

#[derive(Deserialize)]
struct Slot {
    slot: u32,
    /// Tile and quality, 0 the finest.
    planned: Vec<(u16, u8)>,
    planned_ms: f64,
}

/// The tiles of one chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The chunk: here a GoP of the playback.
    pub chunk_idx: u32,
    /// What is loaded, and when.
    pub decision_data: DecisionData,
}

/// What is loaded, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecisionData {
    /// Milliseconds of the session.
    pub system_ts: u64,
    /// Names of the tiles, in the order of loading.
    pub tile_info: Vec<String>,
}

/// The decisions of a viewing; with `qualities` the names end in `_quality_0` (the finest), `_quality_1`, and so on.
///
/// # Errors
/// [`E3poError`] names line and column of the JSON.
pub fn decisions(json: &str, qualities: bool) -> Result<Vec<Decision>, E3poError> {
    let viewing: Viewing = serde_json::from_str(json).map_err(|error| E3poError::NoViewing {
        line: error.line(),
        column: error.column(),
        problem: error.to_string(),
    })?;
    let decision = |slot: &Slot| {
        let name = |(tile, quality): &(u16, u8)| {
            let name = format!("chunk_{:04}_tile_{tile:03}", slot.slot);
            if qualities { format!("{name}_quality_{quality}") } else { name }
        };
        let tile_info = slot.planned.iter().map(name).collect();
        let decision_data = DecisionData { system_ts: slot.planned_ms.max(0.0).round() as u64, tile_info };
        Decision { chunk_idx: slot.slot, decision_data }
    };
    let decided = viewing.record.slots.iter().filter(|slot| !slot.planned.is_empty());
    let mut decisions: Vec<Decision> = decided.map(decision).collect();
    decisions.sort_by_key(|decision| (decision.decision_data.system_ts, decision.chunk_idx));
    if decisions.is_empty() { Err(E3poError::Nothing) } else { Ok(decisions) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEWING: &str = r#"{"label":"FBDT","record":{"gop_ms":1000.0,"slots":[
        {"slot":1,"gop":1,"planned":[[3,0],[12,2]],"planned_ms":1000.4,"arrived":[]},
        {"slot":0,"gop":0,"planned":[[0,1]],"planned_ms":20.0,"arrived":[]},
        {"slot":2,"gop":2,"planned":[],"planned_ms":2000.0,"arrived":[]}]}}"#;

    #[test]
    fn decisions_are_those_of_the_slots_by_time() {
        let found = serde_json::to_value(decisions(VIEWING, false).unwrap()).unwrap();
        let wanted = serde_json::json!([
            { "chunk_idx": 0, "decision_data": { "system_ts": 20, "tile_info": ["chunk_0000_tile_000"] } },
            { "chunk_idx": 1, "decision_data": { "system_ts": 1000, "tile_info": ["chunk_0001_tile_003", "chunk_0001_tile_012"] } },
        ]);
        assert_eq!(found, wanted);
        let named = decisions(VIEWING, true).unwrap();
        assert_eq!(named[1].decision_data.tile_info[1], "chunk_0001_tile_012_quality_2");
    }

    #[test]
    fn what_is_no_viewing_is_refused_with_line_and_column() {
        let broken = VIEWING.replace("[[0,1]]", "[[0]]");
        let error = decisions(&broken, false).unwrap_err().to_string();
        assert!(
            error.starts_with("line 3, column ") && error.contains("tributary stream play --json"),
            "{error}"
        );
        let nothing = r#"{"record":{"slots":[]}}"#;
        assert!(decisions(nothing, false).unwrap_err().to_string().contains("loaded nothing"));
    }
}
