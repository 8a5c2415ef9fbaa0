//! Every known form is recognised, and a file of no known form is refused with its line and the way out.

use super::*;

fn read(text: &str) -> KnownForm {
    KnownForm::read(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// Form, then name, mean rates in bit/s and period in milliseconds of each path.
fn told(text: &str) -> (&'static str, Vec<(String, u64, u128)>) {
    let form = read(text);
    let paths = form.traces.iter();
    let paths =
        paths.map(|path| (path.name.clone(), path.down.mean().as_bps(), path.down.period().as_millis()));
    (form.name, paths.collect())
}

#[test]
fn published_forms_are_recognised() {
    let one = |name, rate, period| (name, vec![(String::new(), rate, period)]);
    assert_eq!(told("1\n2\n2\n4\n"), one("Mahimahi", 12_000_000, 4));
    assert_eq!(
        told(
            "[{\"duration_ms\": 500, \"bandwidth_kbps\": 2000, \"latency_ms\": 20},\n {\"duration_ms\": 500, \"bandwidth_kbps\": 4000, \"latency_ms\": 20}]"
        ),
        one("Sabre", 3_000_000, 1000)
    );
    assert_eq!(
        told("[{\"duration_ms\": 1000, \"throughput_MBps\": 1.5, \"rtt_ms\": 57.5}]"),
        one("E3PO", 12_000_000, 1000)
    );
    assert_eq!(
        told(
            "run_num,seq_num,movingSpeed,nrStatus,Throughput\n1,1,3,CONNECTED,100\n1,2,3,CONNECTED,300\n2,1,0,NOT,200\n"
        ),
        one("Lumos5G", 200_000_000, 3000)
    );
    assert_eq!(
        told(
            "time,throughput,speed,latitude\n2023-04-28 16:02:11 CDT,3.74,25,45\n2023-04-29 16:02:12 CDT,4.74,24,45\n"
        ),
        one("Starlink (5GTracker)", 4_240_000, 2000)
    );
    assert_eq!(
        told(
            "Timestamp,Speed,DL_bitrate,UL_bitrate\n2019.12.16_13.40.04,0,1000,0\n2019.12.16_13.40.05,0,3000,0\n"
        ),
        one("UCC 5G", 2_000_000, 2000)
    );
    assert_eq!(told("0.5 4.0\n1.0 6.0\n"), one("two columns", 5_000_000, 1000));
    assert_eq!(told("0\t4\n1\t6\n"), one("two columns", 5_000_000, 2000));
    assert_eq!(told("time (ms),rate (kbit/s)\n0,4000\n500,2000\n"), one("two columns", 3_000_000, 1000));
    let three = "seq_num,Sprint_throughput_mbps,TMobile_throughput_mbps\n1,10,20\n2,30,40\n";
    let paths = vec![("Sprint".to_owned(), 20_000_000, 2000), ("TMobile".to_owned(), 30_000_000, 2000)];
    assert_eq!(told(three), ("CSV", paths));
}

#[test]
fn round_trip_times_are_kept_where_a_file_has_them() {
    let ms = Duration::from_millis;
    let form = read(
        "[{\"duration_ms\": 741, \"throughput_MBps\": 1.8, \"rtt_ms\": 57},\
         {\"duration_ms\": 1000, \"throughput_MBps\": 4.8, \"rtt_ms\": 57},\
         {\"duration_ms\": 1000, \"throughput_MBps\": 4.8, \"rtt_ms\": 52}]",
    );
    assert_eq!(form.traces[0].rtt, [(ms(0), ms(57)), (ms(1741), ms(52))]);
    assert!(read("1\n2\n").traces[0].rtt.is_empty());
}

#[test]
fn unknown_forms_are_refused_with_their_line_and_the_way_out() {
    for (text, line, parts) in [
        ("", 1, vec!["no data"]),
        ("# only a comment\n", 1, vec!["no data"]),
        ("[]", 1, vec!["empty"]),
        ("[1, 2]", 1, vec!["Sabre"]),
        ("[{\"duration_ms\": 1, \"speed\": 3}]", 1, vec!["`speed`", "bandwidth_kbps", "throughput_MBps"]),
        ("[{\"duration_ms\": 1,\n \"bandwidth_kbps\": }]", 2, vec!["column"]),
        ("[{\"duration_ms\": 1, \"bandwidth_kbps\": 3, \"latency_ms\": -1}]", 1, vec!["entry 1", "-1 ms"]),
        ("1,2,3\n4,5,6\n", 1, vec!["3 columns", "heading"]),
        ("time,speed,place\n1,2,3\n", 1, vec!["`speed`", "Mbit/s", "scenario file"]),
        ("who,wifi_mbps,place\n1,2,3\n", 1, vec!["`who`", "is a time"]),
        ("\n1\nx\n", 3, vec!["`x`", "whole number"]),
        ("time,wifi_mbps,lte_mbps\n0,1,2\n1,1,?\n", 3, vec!["column `lte_mbps`", "`?`"]),
        ("\u{0}\u{1}\u{2}", 1, vec!["scenario file"]),
    ] {
        let error = KnownForm::read(text).expect_err(text);
        assert_eq!(error.line, line, "{text:?}: {error}");
        for part in parts {
            assert!(error.problem.contains(part), "{text:?}: {error}");
        }
    }
}
