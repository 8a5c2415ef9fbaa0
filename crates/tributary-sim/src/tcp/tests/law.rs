//! Against theory: the loss–rate law of Reno (Padhye et al., SIGCOMM 1998, equation 30, with one segment of growth
//! per acknowledged window: Linux counts bytes, so delayed acknowledgements do not slow growth), the cost of small
//! queues, and the conservation of packets. `cargo test -p tributary-sim --lib tcp::tests::law -- --nocapture` prints
//! the ratios.

use tributary_link::LossSpec;

use super::pair::PairSettings;
use crate::tcp::TcpConfig;

/// Goodput of a flow of `seconds` in bytes a second.
fn goodput(setting: &PairSettings, seconds: u64) -> f64 {
    let pair = setting.run(1 << 40, seconds);
    let read = pair.peer(pair.server).read;
    let info = pair.info(pair.client);
    // Every packet sent has arrived, was lost, or is in flight.
    let link = pair.world.link_stats(pair.links[0]);
    let sent = (info.sent + info.retransmitted) / 1448;
    assert!(link.offered.packets.abs_diff(sent) < 100, "{sent} segments, {} packets", link.offered.packets);
    read as f64 / seconds as f64
}

#[test]
fn reno_follows_the_loss_rate_law() {
    for (loss, seconds) in [(0.001, 300), (0.005, 200), (0.02, 200)] {
        let config = TcpConfig { receive_buffer: 64 << 20, send_buffer: 64 << 20, ..TcpConfig::default() };
        let setting = PairSettings { loss: LossSpec::Bernoulli(loss), config, ..PairSettings::new(200, 50) };
        let measured = goodput(&setting, seconds);
        let (rtt, timeout) = (0.05, 0.25);
        let halvings = rtt * (2.0 * loss / 3.0_f64).sqrt();
        let timeouts =
            timeout * (3.0 * (3.0 * loss / 8.0_f64).sqrt()).min(1.0) * loss * (1.0 + 32.0 * loss * loss);
        let law = 1448.0 / (halvings + timeouts);
        println!(
            "loss {loss}: {:.2} Mbit/s, law {:.2}, ratio {:.3}",
            measured * 8e-6,
            law * 8e-6,
            measured / law
        );
        assert!((0.85..1.1).contains(&(measured / law)), "{loss}: {measured} against {law}");
    }
}

#[test]
fn a_queue_below_the_bandwidth_delay_product_costs_what_halving_predicts() {
    // Reno's window moves between W/2 and W, and with half a buffer the pipe stays full: at least three
    // quarters.
    for (buffer, least, most) in [(0.1, 0.72, 0.9), (1.0, 0.97, 1.01)] {
        let mut setting = PairSettings::new(50, 40);
        let bytes = (50.0 * 40.0 * 125.0 * buffer) as u64;
        setting.queue = tributary_link::QueueSpec::Bytes(tributary_types::DataSize::from_bytes(bytes));
        setting.config.segmentation_offload = false;
        let share = goodput(&setting, 100) * 8.0 / (50e6 * 1448.0 / 1500.0);
        println!("buffer {buffer} products: {share:.3} of the rate");
        assert!((least..most).contains(&share), "{buffer}: {share}");
    }
}
