//! The page reports the measured results, including bad and missing ones.

use super::*;

fn row<'a>(transport: &'a str, flows: &'a [MessageRecord]) -> Row<'a> {
    Row { transport, label: transport.to_owned(), flows, played_mbps: 20.0, stalls: 1 }
}

fn flows(ms: f64) -> Vec<MessageRecord> {
    let took: Vec<f64> = (1..=100).map(|i| ms * f64::from(i)).collect();
    vec![MessageRecord::new("imu", &took, &[]), MessageRecord::new("audio", &took, &[])]
}

#[test]
fn the_headline_has_both_numbers_whichever_is_better() {
    let (fast, slow) = (flows(1.0), flows(10.0));
    let ahead = |rows: &[Row<'_>]| cards(rows)[1].ahead;
    let good = [row("mptcp", &slow), row("avira+fbdt", &fast)];
    assert!(headline(&good).contains("99 ms over avira+fbdt and within 990 ms"), "{}", headline(&good));
    assert_eq!(ahead(&good), Some(true));
    let bad = [row("mptcp", &fast), row("avira+fbdt", &slow)];
    assert!(headline(&bad).contains("990 ms over avira+fbdt and within 99 ms"), "{}", headline(&bad));
    assert_eq!(ahead(&bad), Some(false));
}

#[test]
fn a_transport_without_messages_has_no_latency() {
    let (some, none) = (flows(1.0), vec![MessageRecord::new("imu", &[], &[])]);
    let rows = [row("mptcp", &none), row("avira+fbdt", &some)];
    assert!(headline(&rows).contains("did not arrive") && cards(&rows).is_empty());
    assert!(table(&rows).to_text().contains('–'));
    let page = render(&rows, &RunInfo::default());
    assert!(page.contains("did not arrive") && page.contains("avira+fbdt"));
}
