//! Tables survive writing and reading; every error names its place.

use proptest::prelude::*;

use super::*;
use crate::projection::Projection;

fn layout() -> TableLayout {
    let grid = TileGrid::new(2, 1, Projection::Equirectangular).expect("a grid");
    TableLayout { grid, width: 64, height: 32, gop_duration_s: 1.0, qps: vec![22, 34] }
}

fn cell(bytes: [u64; 2], mse: [f64; 2]) -> TileCells {
    TileCells { bytes: bytes.to_vec(), mse: mse.to_vec(), freeze_mse: 90.5, black_mse: 9000.0 }
}

fn table() -> RdTable {
    let cells = vec![
        cell([500, 100], [1.25, 20.0]),
        cell([400, 90], [0.1, 3.0]),
        cell([700, 50], [2.0, 8.0]),
        cell([30, 40], [5.0, 4.0]),
    ];
    RdTable::new(layout(), cells).expect("a table")
}

fn csv_fault(text: &str) -> String {
    RdTable::read_csv(text.as_bytes(), layout()).expect_err("the text is faulty").to_string()
}

#[test]
fn both_forms_round_trip() {
    let (mut json, mut lines) = (Vec::new(), Vec::new());
    table().write_json(&mut json).expect("memory takes all");
    table().write_csv(&mut lines).expect("memory takes all");
    assert_eq!(RdTable::read_json(&json[..]).expect("what was written"), table());
    assert_eq!(RdTable::read_csv(&lines[..], layout()).expect("what was written"), table());
    assert_eq!((table().gops(), table().duration_s()), (2, 2.0));
}

#[test]
fn non_monotone_tables_are_refused_by_name() {
    assert_eq!(table().not_monotone(10), [NotMonotone { gop: 1, tile: 1, qp: 34 }]);
    assert!(table().not_monotone(0).is_empty());
}

#[test]
fn menus_follow_concealment() {
    let outlook = [TileOutlook { seen: 0.5, share: 0.2 }, TileOutlook { seen: 1.0, share: 0.8 }];
    let frozen = table().menus(1, &outlook, Concealment::Freeze);
    assert_eq!((frozen[0].weight, frozen[1].seen, frozen[0].concealed_mse), (0.2, 1.0, 90.5));
    assert_eq!(frozen[0].choices[1], Choice { bytes: 50, mse: 8.0 });
    assert_eq!(table().menus(1, &outlook, Concealment::Black)[0].concealed_mse, 9000.0);
}

#[test]
fn faulty_lines_are_named() {
    let faults = [
        ("", "line 1 is ``; a table opens with gop,tile"),
        ("0,0,22,1,1,1,x\n", "line 2, field black_mse: `x` is not a number"),
        ("1,0,22,1,1,1,1\n", "GoP 0, tile 0, QP 22 is missing"),
        ("gop,tile,qp\n", "line 1 is `gop,tile,qp`"),
        ("0,0,22,1\n", "line 2 has 4 fields"),
        ("0,0,22,1,NaN,1,1\n", "line 2, field mse: `NaN` is negative or not finite"),
        ("0,0,22,-1,1,1,1\n", "line 2, field bytes: `-1` is not a whole number"),
        ("0,2,22,1,1,1,1\n", "line 2, field tile: `2` is no tile"),
        ("0,0,23,1,1,1,1\n", "line 2, field qp: `23` is no QP"),
        ("99999999999,0,22,1,1,1,1\n", "line 2, field gop: `99999999999` is more"),
        ("0,0,22,1,1,1,1\n0,0,22,1,1,1,1\n", "line 3 gives GoP 0, tile 0, QP 22 a second time"),
        ("0,0,22,1,1,1,1\n0,0,34,1,1,1,1\n0,1,34,1,1,1,1\n", "GoP 0, tile 1, QP 22 is missing"),
        ("0,0,22,1,70000,1,1\n", "is missing"),
    ];
    for (lines, message) in faults {
        let header = "gop,tile,qp,bytes,mse,freeze_mse,black_mse\n";
        let own = lines.is_empty() || lines.starts_with("gop");
        let text = if own { lines.to_owned() } else { format!("{header}{lines}") };
        let found = csv_fault(&text);
        assert!(found.contains(message), "{found} should say {message}");
    }
}

#[test]
fn faulty_json_is_named() {
    let mut json = Vec::new();
    table().write_json(&mut json).expect("memory takes all");
    let good = String::from_utf8(json).expect("JSON is text");
    let faults = [
        ("tributary-rd-1", "tributary-rd-9", "the table's format is `tributary-rd-9`"),
        ("[500,100]", "[500]", "GoP 0, tile 0: 1 values of bytes, 2 expected"),
        ("1.25", "-1.25", "GoP 0, tile 0, mse at QP 22: -1.25 is not in"),
        ("1.25", "null", "cannot be read"),
        ("[22,34]", "[34,22]", "qps is [34, 22]"),
        ("\"gop_duration_s\":1.0", "\"gop_duration_s\":0.0", "gop_duration_s is 0"),
        ("\"width\":64", "\"width\":1", "the picture's size is 1x32"),
        ("\"columns\":2", "\"columns\":0", "a grid of 0×1 tiles"),
        ("\"columns\":2", "\"columns\":3", "GoP 0, tile 2: 2 values of tiles, 3 expected"),
    ];
    for (from, to, message) in faults {
        assert!(good.contains(from), "{from}");
        let found =
            RdTable::read_json(good.replacen(from, to, 1).as_bytes()).expect_err("faulty").to_string();
        assert!(found.contains(message), "{found} should say {message}");
    }
    assert!(RdTable::read_json(&good.as_bytes()[..good.len() / 2]).is_err(), "a truncated table");
}

proptest! {
    #[test]
    fn no_text_panics(text in "[-0-9,.\nNaxe]{0,200}") {
        let header = "gop,tile,qp,bytes,mse,freeze_mse,black_mse\n";
        let _ = RdTable::read_csv(format!("{header}{text}").as_bytes(), layout());
        let _ = RdTable::read_json(text.as_bytes());
    }
}
