//! What a page's reports change. The requests are tested on sockets in `tests/client.rs`.

use super::*;
use crate::client::TransportPaths;
use tributary_net::transport::TransportConfig;

fn viewing() -> Viewing {
    let config = TransportConfig::new("tcp".parse().unwrap());
    let transport = TransportChoice::One(Box::new(TransportPaths { config, paths: Vec::new() }));
    let url = "http://video.example:8080/film/manifest.mpd?x=1".to_owned();
    Viewing::new(ViewingConfig { url, transport }, EventLog::new(None).unwrap()).unwrap()
}

fn report(viewing: u32, state: PlayerState) -> PlayerReport {
    PlayerReport {
        viewing,
        state,
        position_s: 1.0,
        duration_s: 16.0,
        buffer_s: 2.5,
        throughput_mbps: Some(4.0),
        rung: None,
        stalls: 0,
        stalled_s: 0.0,
        start_up_ms: None,
    }
}

fn said(viewing: &Viewing) -> Vec<String> {
    let text = |logged: Logged| serde_json::to_value(logged).unwrap()["event"].as_str().unwrap().to_owned();
    viewing.0.log.newest().into_iter().map(text).collect()
}

#[test]
fn the_path_of_the_manifest_keeps_its_query() {
    assert_eq!(viewing().manifest(), "/film/manifest.mpd?x=1");
}

#[test]
fn what_changes_in_the_player_is_an_event_once() {
    let viewing = viewing();
    let number = viewing.begin();
    let rung = Rung { index: 1, of: 3, kbps: 300.0, width: 640, height: 360 };
    let shown =
        PlayerReport { rung: Some(rung), start_up_ms: Some(812.0), ..report(number, PlayerState::Playing) };
    for state in [PlayerState::Playing, PlayerState::Playing, PlayerState::Stalled, PlayerState::Playing] {
        viewing.report(PlayerReport { state, ..shown.clone() }).unwrap();
    }
    assert_eq!(said(&viewing), ["begun", "first_picture", "quality", "stalled", "resumed"]);
    let status = serde_json::to_value(viewing.status()).unwrap();
    assert_eq!(status["start_up"]["start_up_ms"], 812.0);
    assert_eq!(status["player"]["rung"]["kbps"], 300.0);
    let conditions = viewing.conditions();
    assert_eq!((conditions.level, conditions.throughput), (Duration::from_millis(2500), Some(4e6)));
    // The next viewer has a start-up time of his own.
    viewing.begin();
    assert!(serde_json::to_value(viewing.status()).unwrap()["start_up"].is_null());
}

#[test]
fn impossible_reports_and_those_of_another_page_change_nothing() {
    let viewing = viewing();
    assert_eq!(viewing.report(report(0, PlayerState::Playing)), Err(ReportError::Superseded));
    let first = viewing.begin();
    let second = viewing.begin();
    assert_eq!(viewing.report(report(first, PlayerState::Playing)), Err(ReportError::Superseded));
    for buffer_s in [f64::NAN, f64::INFINITY, -1.0, 1e12] {
        let bad = PlayerReport { buffer_s, ..report(second, PlayerState::Playing) };
        assert_eq!(viewing.report(bad), Err(ReportError::Impossible), "{buffer_s}");
    }
    // The page that was superseded ends nothing.
    viewing.end(first);
    assert_eq!(viewing.report(report(second, PlayerState::Paused)), Ok(()));
    viewing.end(second);
    assert_eq!(viewing.report(report(second, PlayerState::Paused)), Err(ReportError::Superseded));
    assert_eq!(said(&viewing), ["begun", "begun", "left"]);
}

#[tokio::test]
async fn nobody_gets_a_file_before_a_viewer_has_begun() {
    let error = viewing().get("/film/manifest.mpd", &HeaderMap::new()).await.unwrap_err();
    assert!(matches!(error, CarryError::NoConnection(None)), "{error}");
}

#[test]
fn the_file_of_events_has_one_object_a_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let log = EventLog::new(Some(file.path())).unwrap();
    (0..60).for_each(|number| log.say(number, ViewingEvent::Begun));
    let text = std::fs::read_to_string(file.path()).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), log.newest().len()), (60, 50));
    assert!(lines[0]["t"].is_f64() && lines[0]["wall"].as_str().unwrap().ends_with('Z'));
}

/// Writing to `/dev/full` fails as on a full disk.
#[test]
fn a_full_disk_stops_the_file_of_events_and_is_said_once() {
    let said = tempfile::NamedTempFile::new().unwrap();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(std::sync::Mutex::new(said.reopen().unwrap()))
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let log = EventLog::new(Some(std::path::Path::new("/dev/full"))).unwrap();
        (0..3).for_each(|number| log.say(number, ViewingEvent::Begun));
        assert_eq!(log.newest().len(), 3, "the status has them all");
    });
    let said = std::fs::read_to_string(said.path()).unwrap();
    let stopped = "event log /dev/full stopped: No space left on device";
    assert_eq!((said.lines().count(), said.matches(stopped).count()), (1, 1), "{said}");
}
