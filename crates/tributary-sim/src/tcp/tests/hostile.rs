//! Invalid segments: they cause no panic, and no connection exceeds its bounds.

use core::time::Duration;

use proptest::prelude::*;
use tributary_cc::Siblings;
use tributary_types::Instant;

use super::wire::{Weather, Wire};
use crate::packet::{MAX_SACK_BLOCKS, SackBlock, TcpSegment};
use crate::tcp::{LossDetection, TcpConfig};

/// Numbers near those in use, and at the ends of the range.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0_u64..120_000, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn segment() -> impl Strategy<Value = TcpSegment> {
    let blocks = prop::collection::vec((number(), number()), MAX_SACK_BLOCKS);
    let flags = (any::<u8>(), any::<u8>());
    (number(), prop_oneof![0_u32..3000, any::<u32>()], number(), number(), number(), blocks, flags).prop_map(
        |(seq, length, ack, window, time, blocks, (flags, sack_count))| TcpSegment {
            seq,
            length,
            ack,
            window,
            // A reset or SYN ends the test case, so they are rare.
            is_reset: flags == 255,
            is_syn: flags & 0xf0 == 0xf0,
            is_fin: flags & 0x0c == 0x0c,
            is_ack: flags & 3 > 0,
            timestamp: Instant::from_nanos(time),
            echo: Instant::from_nanos(time / 2),
            sack: core::array::from_fn(|at| SackBlock { from: blocks[at].0, to: blocks[at].1 }),
            sack_count,
            ..TcpSegment::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn random_segments_break_nothing(
        segments in prop::collection::vec((segment(), 0_u64..400), 1..60),
        dup_ack in any::<bool>(),
        open in 0_u64..80,
    ) {
        let loss_detection = if dup_ack { LossDetection::DupAck } else { LossDetection::Rack };
        let config = TcpConfig { loss_detection, ..TcpConfig::default() };
        let mut wire = Wire::new(&config, "cubic", Weather::default(), 1);
        wire.flows[0].total = 1 << 40;
        wire.run(Duration::from_millis(open));
        for socket in &mut wire.ends {
            let mut now = wire.now;
            for (segment, pause) in &segments {
                now += Duration::from_millis(*pause);
                let view = [socket.controller_view()];
                socket.handle_segment(now, segment, Siblings::new(&view, 0));
                if socket.poll_timeout().is_some_and(|at| at <= now) {
                    socket.handle_timeout(now, Siblings::new(&view, 0));
                }
                // The buffers bound what one segment can trigger.
                let sent = (0..100_000).take_while(|_| socket.poll_transmit(now).is_some()).count();
                prop_assert!(sent < 100_000);
                let info = socket.info();
                prop_assert!(info.receive_held <= config.receive_buffer);
                prop_assert!(info.in_flight <= 2 * config.send_buffer + 2);
            }
        }
    }
}
