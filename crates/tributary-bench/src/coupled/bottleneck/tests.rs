//! What is read from samples of connections.

use super::*;

/// Two subflows and the stranger after `seconds`, with these rates in Mbit/s.
fn sample(begin: Instant, seconds: u32, [first, second, stranger]: [u32; 3]) -> Sample {
    let line = |host: &str, control: &str, mbps: u32| {
        let (acked, busy) = (1000 + mbps * seconds * 125_000, seconds * 1000 + 7);
        format!(
            "0 0 {host}:4000 10.77.1.1:5000 {control} cwnd:{} unacked:9 notsent:1 bytes_retrans:{} bytes_acked:{acked} busy:{busy}ms rwnd_limited:{}ms(1%)\n",
            mbps * 4,
            mbps * seconds * 1250,
            seconds * 100,
        )
    };
    let text = [
        line("10.77.1.2", "b1_lia", first),
        line("10.77.2.2%line", "b1_lia", second),
        line("10.77.3.2", "reno", stranger),
    ];
    (begin + Duration::from_secs(seconds.into()), subflows::parse(&text.concat()))
}

#[test]
fn rates_shares_and_limits_come_from_the_first_and_the_last_sample() {
    let begin = Instant::now();
    let samples: Vec<Sample> = (0..=10).map(|second| sample(begin, second, [6, 4, 9])).collect();
    let run = read(&samples, "b1_lia").unwrap();
    assert!((run.mbps - 10.0).abs() < 1e-9 && (run.stranger_mbps - 9.0).abs() < 1e-9, "{run:?}");
    assert!((run.smaller - 0.4).abs() < 1e-9, "{run:?}");
    let limits = run.limits.unwrap();
    assert!((limits.receiver - 0.1).abs() < 1e-9 && limits.buffer == 0.0, "{limits:?}");
    assert!((limits.again - 0.01).abs() < 1e-9 && (limits.stranger_again - 0.01).abs() < 1e-9, "{limits:?}");
    assert_eq!((limits.window, limits.stranger_window, limits.application), (20.0, 36.0, 0.0));
}

#[test]
fn another_congestion_control_is_an_error_and_another_connection_leaves_the_run_out() {
    let begin = Instant::now();
    let mut samples = vec![sample(begin, 0, [6, 4, 9]), sample(begin, 10, [6, 4, 9])];
    let error = read(&samples, "b1_olia").unwrap_err().to_string();
    assert!(error.contains("10.77.1.2:4000 does not run `b1_olia`"), "{error}");
    samples[0].1.remove(1);
    let run = read(&samples, "b1_lia").unwrap();
    assert!(run.mbps.is_nan() && run.invalid[0].contains("10.77.2.2%line:4000 was replaced"), "{run:?}");
    samples[1].1.remove(1);
    samples[1].1.pop();
    let run = read(&samples, "b1_lia").unwrap();
    assert!(run.invalid[0].contains("a connection ended"), "{run:?}");
    assert!(read(&samples[..1], "b1_lia").is_err());
}
