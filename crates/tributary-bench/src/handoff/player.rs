//! A live player's view of when data arrived: frames that came too late, times without data.

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
    pub bytes: usize,
    /// Seconds from one to the next.
    pub every: f64,
}

/// Plays frames in order, the first one `buffer` seconds after it is complete. `arrivals`: seconds and bytes.
pub(super) fn play(arrivals: &[(f64, usize)], frames: Frames, buffer: f64) -> Playback {
    let (mut complete, mut held) = (Vec::new(), 0);
    for (at, bytes) in arrivals {
        held += bytes;
        while held >= frames.bytes {
            held -= frames.bytes;
            complete.push(*at);
        }
    }
    let mut playback = Playback::default();
    let mut late_before = false;
    for frame in 0..frames.count as usize {
        let due = |first: &f64| first + buffer + frame as f64 * frames.every;
        let in_time = complete.first().map(due).zip(complete.get(frame)).is_some_and(|(due, at)| *at <= due);
        playback.discards += u32::from(!in_time);
        playback.underflows += u32::from(!in_time && !late_before);
        late_before = !in_time;
    }
    playback
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_within_the_buffer_is_not_noticed_and_a_longer_one_is() {
        let frames = Frames { count: 100, bytes: 10, every: 0.1 };
        // Frames arrive as they are made, but nothing between 3 s and `until`.
        let paused = |until: f64| {
            let at = |frame: u32| (f64::from(frame) * 0.1, 10);
            (0..100)
                .map(at)
                .map(|(at, n)| (if at >= 3.0 && at < until { until } else { at }, n))
                .collect::<Vec<_>>()
        };
        assert_eq!(play(&paused(0.0), frames, 1.0), Playback::default());
        assert_eq!(play(&paused(3.9), frames, 1.0), Playback::default());
        assert_eq!(play(&paused(4.55), frames, 1.0), Playback { discards: 6, underflows: 1 });
        let cut_short = &paused(0.0)[..90];
        assert_eq!(play(cut_short, frames, 1.0), Playback { discards: 10, underflows: 1 });
        assert_eq!(play(&[], frames, 1.0), Playback { discards: 100, underflows: 1 });
    }
}
