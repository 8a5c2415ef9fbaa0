//! What a player of the live stream notices: the player of `tributary-player`, fed with the arrivals of a recording.

use core::time::Duration;

use tributary_player::progressive::{Film, Player, Settings};
use tributary_types::{Bitrate, Instant};

/// A live player does not stop: it is as far behind the source at the end as at the beginning.
const PATIENCE: Duration = Duration::from_secs(86_400);

/// What a viewer would have noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Playback {
    /// Frames that were not complete when they were to be shown.
    pub discards: u32,
    /// Times that the player ran out of frames: runs of discarded ones.
    pub underflows: u32,
}

/// The stream as the server sent it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
    pub count: u32,
    pub bytes: u32,
    pub per_second: u32,
}

/// Plays frames in order, the first one when `buffer` of them is complete. `arrivals`: seconds and bytes.
pub(super) fn play(arrivals: &[(f64, usize)], frames: Frames, buffer: Duration) -> Playback {
    let all = Playback { discards: frames.count, underflows: 1 };
    let Some((first, _)) = arrivals.first() else { return all };
    let film = Film {
        bitrate: Bitrate::from_bps(8 * u64::from(frames.bytes) * u64::from(frames.per_second)),
        pictures_per_second: frames.per_second,
        group: 1,
        intra: 1,
        pictures: frames.count.into(),
    };
    let at = |seconds: f64| Instant::ZERO + Duration::from_secs_f64((seconds - first).max(0.0));
    let settings = Settings { caching: buffer, ahead: None, patience: PATIENCE };
    let mut player = Player::new(film, settings, at(*first));
    for (seconds, bytes) in arrivals {
        player.handle_data(at(*seconds), *bytes as u64);
    }
    let record = player.record(at(*first) + PATIENCE);
    if record.start_up.is_none() {
        return all;
    }
    // Neither is more than the number of frames.
    Playback { discards: record.discards as u32, underflows: record.underflows as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_within_the_buffer_is_not_noticed_and_a_longer_one_is() {
        let frames = Frames { count: 100, bytes: 10, per_second: 10 };
        let play = |arrivals: &[(f64, usize)]| play(arrivals, frames, Duration::from_secs(1));
        // Frames arrive as they are made, but nothing between 3 s and `until`. The first is shown with the tenth, at 0.9 s.
        let paused = |until: f64| {
            let at = |frame: u32| (f64::from(frame) * 0.1, 10);
            (0..100)
                .map(at)
                .map(|(at, n)| (if at >= 3.0 && at < until { until } else { at }, n))
                .collect::<Vec<_>>()
        };
        assert_eq!(play(&paused(0.0)), Playback::default());
        assert_eq!(play(&paused(3.85)), Playback::default());
        assert_eq!(play(&paused(4.55)), Playback { discards: 7, underflows: 1 });
        let cut_short = &paused(0.0)[..90];
        assert_eq!(play(cut_short), Playback { discards: 10, underflows: 1 });
        assert_eq!(play(&[]), Playback { discards: 100, underflows: 1 });
        assert_eq!(play(&[(0.0, 50)]), Playback { discards: 100, underflows: 1 });
    }
}
