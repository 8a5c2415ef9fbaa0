//! Tables of every layout, their errors, and traces that are written and read again.

use super::*;
use crate::{CotagChannel, RateSpec};
use proptest::prelude::*;

const LAYOUTS: [TableLayout; 6] = [
    TableLayout::Separated,
    TableLayout::Comma,
    TableLayout::Semicolon,
    TableLayout::Tab,
    TableLayout::Blank,
    TableLayout::Json,
];

fn named(name: &str) -> Column {
    Column::Named(name.to_owned())
}

fn spans(text: &str, table: &TraceTable) -> Vec<(u64, u64)> {
    let trace = Trace::parse_table(text, table).unwrap_or_else(|error| panic!("{error}"));
    trace.iter().map(|(end, rate)| (end.as_millis() as u64, rate.as_bps())).collect()
}

#[test]
fn columns_are_chosen_by_heading() {
    let text = "when,who,\"down, kbit/s\"\n100.5,a,10\n101,b,7\n101.5,a,20\n101.5,a,40\n102,a,\n102,a,-\n103.5,a,5\n";
    let mut table = TraceTable::new(named("when"), named("down, kbit/s"));
    table.value = TraceValue::Rate(named("down, kbit/s"), Bitrate::from_bps(1000));
    table.only = vec![(named("who"), "a".to_owned())];
    assert_eq!(spans(text, &table), [(1000, 10_000), (3000, 30_000), (5000, 5_000)]);
    table.hold = Some(Duration::from_secs(1));
    assert_eq!(spans(text, &table)[1..], [(2000, 30_000), (3000, 0), (4000, 5_000), (5000, 0)]);
}

#[test]
fn units_in_the_heading_of_a_csv_are_used() {
    let spans = |text: &str| {
        let trace = Trace::parse_csv(text).unwrap_or_else(|error| panic!("{error}"));
        trace.iter().map(|(end, rate)| (end.as_millis() as u64, rate.as_bps())).collect::<Vec<_>>()
    };
    assert_eq!(spans("time (ms),rate (kbit/s)\n0,4000\n500,2000\n"), [(500, 4_000_000), (1000, 2_000_000)]);
    assert_eq!(spans("seconds,mbit/s\n0,4\n1,2\n"), spans("0,4\n1,2\n"));
    let error = Trace::parse_csv("time,rate (pps)\n0,1\n").unwrap_err();
    assert!(error.line == 1 && error.problem.contains("`pps`"), "{error}");
}

#[test]
fn a_csv_that_was_cut_short_is_refused() {
    let error = Trace::parse_csv("seconds,mbit/s\n0,4\n1,2\n2,").unwrap_err();
    assert!(error.line == 4 && error.problem.contains("cut short"), "{error}");
    assert!(Trace::parse_csv("0,4\n1,2\n2,\n").is_ok(), "a rate that is missing");
    assert!(Trace::parse_csv("0,4\n1,2").is_ok(), "only the end of the line is missing");
}

/// The spans of the short form.
fn csv(text: &str) -> Vec<(u64, u64)> {
    let trace = Trace::parse_csv(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    trace.iter().map(|(end, rate)| (end.as_millis() as u64, rate.as_bps())).collect()
}

#[test]
fn both_forms_of_a_table_read_what_spreadsheets_and_scripts_write() {
    let three = [(3000, 20_000_000)];
    for text in [
        "time (s),rate (Mbit/s)\n0,20\n1,20\n2,20\n",
        "\u{feff}time (s),rate (Mbit/s)\r\n0,20\r\n1,20\r\n2,20\r\n",
        "time (s);rate (Mbit/s)\n0;20\n1;20\n2;20\n",
        "time (s)\trate (Mbit/s)\n0\t20\n1\t20\n2\t20\n",
        "\"time (s)\",\"rate (Mbit/s)\"\n\n# c\n0,20\n\n1,20\n2,20",
        "time (s),rate (Mbit/s)\r0,20\r1,20\r2,20\r",
        "time\u{a0}(s),rate (Mbit/s)\n1.5e1,2e1\n1.6e1,2.0E+01\n17,20\n",
        "time (s),rate (Mbit/s)\n0,20\n1,10\n1,30\n2,20\n",
        "time (s),rate (Mbit/s)\n1700000000,20\n1700000001,20\n1700000002,-\n1700000002,20\n",
        "time (s),rate (Mbit/s)\n-1,20\n0,20\n1,20\n",
    ] {
        assert_eq!(csv(text), three, "{text:?}");
        assert_eq!(
            spans(text, &TraceTable::new(named("time (s)"), named("rate (Mbit/s)"))),
            three,
            "{text:?}"
        );
    }
    assert_eq!(csv("\u{feff}0,20\n1,20\n2,20\n"), three, "without a heading");
    assert_eq!(csv("5;20\n6;20\n7;20\n"), three);
    let numbered = TraceTable::new(Column::Numbered(1), Column::Numbered(3));
    assert_eq!(spans("\u{feff}0;-70;20\n1;-71;20\n2;-71;20\n", &numbered), three);
}

#[test]
fn marks_are_no_part_of_the_other_forms() {
    let trace = Trace::parse_mahimahi("\u{feff}1\r\n2\r\n\r\n3\r\n").expect("a trace");
    assert_eq!(trace, Trace::parse_mahimahi("1\n2\n3\n").expect("a trace"));
    let mut table = TraceTable::new(named("t"), named("r"));
    table.layout = TableLayout::Json;
    assert_eq!(spans("\u{feff}[{\"t\": 9, \"r\": 1}, {\"t\": 10, \"r\": 1}]", &table), [(2000, 1_000_000)]);
    table.layout = TableLayout::Blank;
    assert_eq!(spans("\u{feff}t r\n9 1\n10 1\n", &table), [(2000, 1_000_000)]);
    table = TraceTable { layout: TableLayout::Blank, ..TraceTable::new(named("t (s)"), named("r (Mbit/s)")) };
    assert_eq!(spans("t (s)\tr (Mbit/s)\n9\t1\n10\t1\n", &table), [(2000, 1_000_000)], "tabs alone");
}

#[test]
fn equal_times_are_a_mean_and_a_dense_log_is_not() {
    assert_eq!(csv("0,10\n1,20\n1,40\n2,0\n"), [(1000, 10_000_000), (2000, 30_000_000), (3000, 0)]);
    // A row every 5 µs for 50 µs: a rate every 10 µs.
    let dense: String = (0..10).map(|n| format!("0.0000{:02},{n}\n", 5 * n)).collect();
    let trace = Trace::parse_csv(&dense).expect("a trace");
    let found: Vec<(u64, f64)> = trace.spans().iter().map(|(end, rate)| (*end, rate.as_mbps_f64())).collect();
    assert_eq!(found, [(10_000, 0.5), (20_000, 2.5), (30_000, 4.5), (40_000, 6.5), (50_000, 8.5)]);
}

#[test]
fn errors_name_the_column_and_the_way_out() {
    let table = TraceTable::new(named("time"), named("rate"));
    for (text, said) in [
        ("when,rate\n0,1\n", "no column is called `time`; there are `when`, `rate`"),
        ("time\u{301},rate\n0,1\n", "no column is called `time`"),
        ("time,rate,rate\n0,1,2\n", "columns 2 and 3 are both called `rate`; rename one"),
        ("time,rate\n0,\u{200b}x\n", "line 2: column `rate`: `\\u{200b}x` is not a number"),
        ("time;rate\n0;1,5\n", "column `rate`: `1,5` is not a number; write numbers with a decimal point"),
        ("time,rate\n2,1\n1,1\n", "line 3: column `time`: time goes backwards: sort the table"),
    ] {
        let error = Trace::parse_table(text, &table).expect_err(text).to_string();
        assert!(error.contains(said), "{error} should say {said}");
    }
    for (text, said) in [
        ("0,20,-70\n", "has 3 columns and not the two `seconds,mbit/s`; name the columns: { file"),
        ("0;20,5\n1;3\n", "could be separated by comma or semicolon"),
        ("0,5;20,5\n", "line 1"),
        ("", "no line"),
    ] {
        let error = Trace::parse_csv(text).expect_err(text).to_string();
        assert!(error.contains(said), "{error} should say {said}");
    }
    let numbered = TraceTable::new(Column::Numbered(1), Column::Numbered(2));
    let error = Trace::parse_table("time (ms),r\n0,1\n", &numbered).expect_err("a heading").to_string();
    assert!(error.contains("if line 1 is a heading, name the columns"), "{error}");
    let error = Trace::parse_mahimahi("1\n2.5\n").expect_err("a fraction").to_string();
    assert!(error.contains("line 2") && error.contains("Mahimahi"), "{error}");
}

#[test]
fn columns_are_chosen_by_number_in_blank_separated_text() {
    let table = TraceTable {
        layout: TableLayout::Blank,
        ..TraceTable::new(Column::Numbered(1), Column::Numbered(2))
    };
    assert_eq!(spans("# t r\n0.0\t20.8\n1.01\t 4.88\n", &table), [(1010, 20_800_000), (2020, 4_880_000)]);
    let error = Trace::parse_table("0.0\t1\n1.0\n", &table).unwrap_err();
    assert_eq!((error.line, error.problem.contains("no column 2")), (2, true));
}

#[test]
fn a_json_list_is_a_table() {
    let text = "[\n {\"duration_ms\": 110, \"kbps\": 0},\n {\"duration_ms\": 890, \"kbps\": 33766}\n]";
    let mut table = TraceTable::new(named("x"), named("kbps"));
    table.layout = TableLayout::Json;
    table.time = TraceTime::Lasting(named("duration_ms"), TimeUnit::Millis);
    table.value = TraceValue::Rate(named("kbps"), Bitrate::from_bps(1000));
    assert_eq!(spans(text, &table), [(110, 0), (1000, 33_766_000)]);
    for (bad, line) in [
        ("", 1),
        ("[1]", 1),
        ("[\n{\"duration_ms\": -1, \"kbps\": 1}]", 2),
        ("[{\"kbps\": 1}]", 1),
        ("[\n{\"duration_ms\": 1,\n\"kbps\": \"x\"}]", 2),
        ("[\n{\"duration_ms\": 1", 2),
    ] {
        assert_eq!(Trace::parse_table(bad, &table).unwrap_err().line, line, "{bad}");
    }
}

#[test]
fn dates_steps_and_bytes_are_times_and_rates() {
    let mut table = TraceTable::new(named("t"), named("v"));
    table.time = TraceTime::At(named("t"), TimeUnit::Date);
    let text = "t,v\n2020.02.28_23.59.59,1\n2020.02.29_00.00.00,2\n2020-03-01 00:00:01.5,3\n";
    assert_eq!(spans(text, &table)[..2], [(1000, 1_000_000), (86_402_500, 2_000_000)]);
    assert!(Trace::parse_table("t,v\n2020.13.01_00.00.00,1\n", &table).is_err());

    table.time = TraceTime::Every(Duration::from_millis(250));
    assert_eq!(spans("v\n1\n1\n2\n", &table), [(500, 1_000_000), (750, 2_000_000)]);

    table.time = TraceTime::At(named("t"), TimeUnit::Millis);
    table.value = TraceValue::Bytes(named("v"), Duration::from_millis(100));
    table.sort = true;
    let text = "t,v\n1000,1250\n1350,2500\n1050,1250\n";
    assert_eq!(spans(text, &table), [(100, 200_000), (300, 0), (400, 200_000)]);
}

#[test]
fn bad_tables_are_refused_with_their_line() {
    let table = TraceTable::new(named("t"), named("r"));
    for (bad, line, word) in [
        ("", 1, "heading"),
        ("a,r\n", 1, "`t`"),
        ("t,r\n", 1, "no row"),
        ("t,r\n0,1\n2,1\n1,1\n", 4, "backwards"),
        ("t,r\n0,-1\n", 2, "not between"),
        ("t,r\n0,1e99\n", 2, "not between"),
        ("t,r\n0,fast\n", 2, "not a number"),
        ("t,r\nsoon,1\n", 2, "not a number"),
        ("t,r\n0,1\n1e9,1\n", 3, "week"),
        ("t,r\n0\n", 2, "no column"),
    ] {
        let error = Trace::parse_table(bad, &table).expect_err(bad);
        assert!(error.line == line && error.problem.contains(word), "{bad:?}: {error}");
    }
}

#[test]
fn generated_traces_repeat_and_are_unchanged_by_writing_and_reading() {
    let spec = CotagChannel::paper(0.2, 0.67).rate(1);
    let minute = Duration::from_secs(60);
    let trace = Trace::generate(&spec, 7, minute).expect("a minute is not too long");
    assert_eq!(Some(&trace), Trace::generate(&spec, 7, minute).as_ref());
    assert_ne!(Some(&trace), Trace::generate(&spec, 8, minute).as_ref());
    assert_eq!(trace.period(), minute);
    let again = Trace::parse_csv(&trace.to_csv()).expect("it was written for this");
    assert_eq!(again, trace);
    // Last spans of other lengths than the one before, even and odd.
    for nanos in [29_999_u64, 30_000, 30_001, 700_000_000, 1_234_567_891, 5_000_000_000] {
        let spans =
            vec![(2_000_000_000, Bitrate::from_mbps(3)), (2_000_000_000 + nanos, Bitrate::from_mbps(5))];
        for spans in [spans.clone(), spans[..1].to_vec()] {
            let trace = Trace { spans };
            let again = Trace::parse_csv(&trace.to_csv()).expect("it was written for this");
            assert_eq!(again == trace, nanos >= 30_000 || trace.spans.len() == 1, "{nanos} ns");
        }
    }
    assert_eq!(Trace::generate(&spec, 7, Duration::ZERO), None);
}

#[test]
fn mahimahi_text_keeps_the_mean_and_the_outages() {
    let mbps = Bitrate::from_mbps;
    let turns = vec![(Duration::from_millis(100), mbps(24)), (Duration::from_millis(50), mbps(0))];
    let trace = Trace::generate(&RateSpec::Turns(turns), 1, Duration::from_millis(1_500)).expect("short");
    let text = trace.to_mahimahi();
    assert!(text.starts_with("1\n1\n2\n2\n3\n"), "{text}");
    let again = Trace::parse_mahimahi(&text).expect("it was written for this");
    // The text ends with the last packet, so the same bytes pass in less time.
    let (short, long) = (again.mean().as_bps() * 1_450, trace.mean().as_bps() * 1_500);
    assert!(short.abs_diff(long) < 1_500, "{short} and {long}");
    assert!(text.lines().all(|line| {
        let ms: u64 = line.parse().unwrap();
        (ms - 1) % 150 < 100
    }));
}

proptest! {
    #[test]
    fn no_table_panics(text in "([a-z]{1,2}|[0-9.,e\" \t\n{}:\\[\\]-]){0,80}", layout in 0..6_usize, bin in 0..3_u64) {
        let layout = LAYOUTS[layout];
        for column in [Column::Numbered(1), named("t")] {
            let mut table = TraceTable { layout, sort: true, ..TraceTable::new(column.clone(), Column::Numbered(2)) };
            let _ = Trace::parse_table(&text, &table);
            table.value = TraceValue::Bytes(Column::Numbered(2), Duration::from_micros(bin * 10));
            table.hold = Some(Duration::from_micros(bin));
            let _ = Trace::parse_table(&text, &table);
            table.time = TraceTime::Lasting(column, TimeUnit::Date);
            let _ = Trace::parse_table(&text, &table);
        }
    }

    #[test]
    fn spans_of_a_table_ascend_and_are_not_too_short(
        rows in prop::collection::vec((0.0..20.0, 0.0..5_000.0), 1..60), hold in 1..4_000_000_u64
    ) {
        let text = rows.iter().map(|(at, rate): &(f64, f64)| format!("{at},{rate}\n")).collect::<String>();
        let hold = Some(Duration::from_nanos(hold * 10 + 10_000));
        let table = TraceTable {
            sort: true,
            hold,
            ..TraceTable::new(Column::Numbered(1), Column::Numbered(2))
        };
        let trace = Trace::parse_table(&text, &table).unwrap();
        let ends: Vec<u64> = core::iter::once(0).chain(trace.spans().iter().map(|span| span.0)).collect();
        prop_assert!(ends.windows(2).all(|pair| pair[1] - pair[0] >= MIN_SPAN), "{ends:?}");
    }
}
