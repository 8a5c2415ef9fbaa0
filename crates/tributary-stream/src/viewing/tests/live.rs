//! Live sources, served and played over loopback sockets; ffmpeg is real.

use tributary_net::transport::TransportError;
use tributary_tiles::live::{Input, Live};

use super::*;
use crate::tiled::{End, LiveEnd, TiledRecord};

fn live(source: &str) -> Live {
    let settings = Settings {
        grid: TileGrid::new(4, 2, Projection::Equirectangular).unwrap(),
        qps: vec![24, 40],
        size: None,
        seconds: None,
        rate: None,
        eyes: Eyes::Left,
        any_aspect: false,
        preset: "ultrafast".to_owned(),
        sound: false,
        jobs: None,
    };
    let input: Input = source.parse().unwrap();
    Live::new(input, settings, 0.5).unwrap()
}

/// A file of five seconds with ten pictures a second.
fn film(directory: &Path) -> String {
    let path = directory.join("film.mp4");
    let pattern = "testsrc2=size=256x128:rate=10:duration=5";
    let made = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", pattern, "-pix_fmt", "yuv420p"])
        .arg(&path)
        .status();
    assert!(made.unwrap().success());
    path.to_str().unwrap().to_owned()
}

async fn server(video: &LiveVideo) -> Result<(TileServer<LiveVideo>, PlayConfig), TransportError> {
    let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = TileServer::bind(transport_config("session"), &[listen], video.clone()).await?;
    let path = format!("127.0.0.1={}", server.addresses()[0]).parse().unwrap();
    Ok((server, PlayConfig { transport: transport_config("session"), paths: vec![path] }))
}

async fn played(config: &PlayConfig) -> Result<TiledRecord, ViewError> {
    let viewpoint = Viewpoint::new(ViewerConfig { seconds: None, ..viewer("ows", None) })?;
    Ok(viewpoint.view(config, None, &mut |_, _| ()).await?.result.record)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_source_is_seen_until_its_last_gop() {
    let directory = tempfile::tempdir().unwrap();
    let source = live(&film(directory.path()));
    let video = LiveVideo::new(&source).unwrap();
    let (server, config) = server(&video).await.unwrap();
    assert_eq!(video.status().state, "waiting");
    video.begin(source).await.unwrap();
    let viewers = server.viewers();
    let serving = tokio::spawn(server.run(|_, served| assert!(served.outcome.is_ok(), "{served:?}")));
    let record = played(&config).await.unwrap();
    assert_eq!(video.ended().await, LiveEnd::Complete);
    viewers.empty().await;
    let status = video.status();
    assert_eq!((status.state, &record.end), ("ended", &End::Complete), "{record:?}");
    // The viewer saw GoPs in order, up to the last one; on a loaded machine some were left out.
    let gops: Vec<u32> = record.slots.iter().map(|slot| slot.gop).collect();
    assert!(gops.is_sorted_by(|a, b| a < b), "{gops:?}");
    assert_eq!(gops.last(), Some(&(status.gops as u32 - 1)), "{gops:?} {status:?}");
    assert!(gops.len() >= 3, "{gops:?} {status:?}");
    let in_time = |slot: &crate::tiled::SlotRecord| slot.arrived.iter().filter(|tile| tile.in_time).count();
    assert!(record.slots.iter().map(in_time).sum::<usize>() >= 8, "{record:?}");
    assert!(record.account.is_some(), "{record:?}");
    serving.abort();
}

#[tokio::test]
async fn a_source_that_cannot_be_opened_says_why() {
    let source = live("rtmp://127.0.0.1:1/live/a");
    let video = LiveVideo::new(&source).unwrap();
    let error = video.begin(source).await.unwrap_err();
    assert!(error.starts_with("the source rtmp://127.0.0.1:1/live/a failed: "), "{error}");
    assert_eq!(video.status().state, "failed");
    // Viewers get the same words.
    let (server, config) = server(&video).await.unwrap();
    let serving = tokio::spawn(server.run(|_, _| ()));
    let refused = played(&config).await.unwrap_err().to_string();
    assert!(refused.contains(&error[..40]), "{refused}");
    serving.abort();
}
