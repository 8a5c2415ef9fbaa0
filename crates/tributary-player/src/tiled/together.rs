//! First plans of several viewers' slots, decided as one problem by whoever knows all of them, such as their server.
//!
//! The viewers of a live video begin their GoPs at nearly the same time. When the first of them plans, the slots that the others
//! begin within half a GoP are decided too, within the capacity that all of them have measured. Each player requests its part
//! when its own plan is due. Later plans of a slot are each player's own. Source: the OWS paper §4.1, which has the allocation at
//! the server, with the statistics of all clients.

use core::time::Duration;

use tributary_types::{Bitrate, Instant};
use tributary_video::allocation::{Allocation, Capacity, Sharing, together};

use super::planner::ARRIVAL;
use super::player::plans::{Upcoming, samples};
use super::player::{PlayError, Player};
use crate::capacity::CapacityMeter;

/// Decides the next slot of all players, if one of them has to plan it at `now`. Players whose viewing is over still count with what they
/// measured.
///
/// # Errors
/// [`PlayError::Problem`], such as for videos with different numbers of qualities.
pub fn plan_together(now: Instant, players: &mut [&mut Player], sharing: Sharing) -> Result<(), PlayError> {
    if players.iter().any(|player| player.is_undecided(now)) {
        for (viewer, slot, allocation) in decide(now, players, sharing)? {
            players[viewer].give(slot, allocation);
        }
    }
    Ok(())
}

/// The decisions: viewer, slot and allocation.
fn decide(
    now: Instant,
    players: &[&mut Player],
    sharing: Sharing,
) -> Result<Vec<(usize, u32, Allocation)>, PlayError> {
    let upcoming =
        players.iter().enumerate().filter_map(|(viewer, player)| Some((viewer, player.upcoming(now)?)));
    let watching: Vec<(usize, Upcoming<'_>)> = upcoming.collect();
    let assumed = Bitrate::from_bps(watching.iter().map(|(_, next)| next.assumed.as_bps()).sum());
    let viewers = watching.len() as f64;
    let due: Vec<(usize, Upcoming<'_>)> =
        watching.into_iter().filter(|(_, next)| next.at <= now + next.gop / 2).collect();
    let Some((_, first)) = due.first() else { return Ok(Vec::new()) };
    let within = due.iter().map(|(_, next)| next.within).sum::<Duration>() / due.len() as u32;
    let mut meter = CapacityMeter::joined(now, players.iter().filter_map(|player| player.meter()));
    let (bytes, _) = samples(meter.as_mut(), assumed, (now, within));
    // Viewers who are planned at another time keep their share.
    let share = due.len() as f64 / viewers;
    let capacity = Capacity::from_paths(&[bytes.into_iter().map(|bytes| share * bytes).collect()])?;
    let tiles: Vec<_> = due.iter().map(|(_, next)| next.tiles.clone()).collect();
    let decided = together(&tiles, &capacity, ARRIVAL, (first.allocator, sharing))?;
    Ok(due.iter().zip(decided).map(|((viewer, next), made)| (*viewer, next.slot, made)).collect())
}
