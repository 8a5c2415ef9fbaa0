//! A real clip over loopback sockets: served, played, decoded and measured.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};

use tributary_net::transport::TransportConfig;
use tributary_net::{Common, Key};
use tributary_tiles::FrameRate;
use tributary_tiles::ingest::{Prepared, Progress, Settings};
use tributary_tiles::layout::LOW;
use tributary_tiles::source::Eyes;
use tributary_types::Bitrate;
use tributary_video::projection::Projection;
use tributary_video::rd::Concealment;
use tributary_video::tiles::TileGrid;

mod live;

use super::*;
use crate::tiled::Account;
use tributary_tiles::TiledVideo;

/// A directory of tiles, deleted with its last user.
struct Clip(tempfile::TempDir);

impl Clip {
    fn path(&self) -> PathBuf {
        self.0.path().join("tiles")
    }
}

/// Two seconds of a moving pattern in 4×2 tiles; tests that run at the same time share it.
fn clip() -> Arc<Clip> {
    static CLIP: Mutex<Weak<Clip>> = Mutex::new(Weak::new());
    let mut shared = CLIP.lock().unwrap();
    shared.upgrade().unwrap_or_else(|| {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("clip.mp4");
        let pattern = "testsrc2=size=256x128:rate=10:duration=2";
        let made = Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", pattern, "-f", "lavfi"])
            .args(["-i", "sine=f=880:d=2", "-pix_fmt", "yuv420p"])
            .arg(&source)
            .status();
        assert!(made.unwrap().success());
        let settings = Settings {
            grid: TileGrid::new(4, 2, Projection::Equirectangular).unwrap(),
            qps: vec![20, 32, 44],
            size: None,
            seconds: None,
            rate: Some(FrameRate::new(10, 1).unwrap()),
            eyes: Eyes::Left,
            any_aspect: false,
            preset: "ultrafast".to_owned(),
            sound: true,
            jobs: None,
        };
        let tiles = directory.path().join("tiles");
        let prepared = Prepared::of(&source, &settings).unwrap();
        prepared.make(&tiles, &|_: Progress| ()).unwrap();
        prepared.low().unwrap().make(&tiles.join(LOW), &|_: Progress| ()).unwrap();
        let clip = Arc::new(Clip(directory));
        *shared = Arc::downgrade(&clip);
        clip
    })
}

fn viewer(allocator: &str, head: Option<PathBuf>) -> ViewerConfig {
    ViewerConfig {
        allocator: allocator.to_owned(),
        exact: false,
        head: head.map(|path| (path, "plain".to_owned())),
        crowd: Vec::new(),
        concealment: Concealment::Freeze,
        seconds: Some(3),
        assumed: Bitrate::from_bps(20_000_000),
        plans: None,
        field: (110.0, 90.0),
        width: 96,
        record: true,
        low_resolution: false,
    }
}

fn transport_config(name: &str) -> TransportConfig {
    TransportConfig::new(name.parse().unwrap()).with_common(Common::new(Key::from_bytes([7; 32])))
}

/// Serves the clip and plays it over the same transport.
async fn view(transport: &str, config: ViewerConfig, directory: &Path) -> Result<Viewed, ViewError> {
    let video = DiskSource(Arc::new(TiledVideo::open(directory).unwrap()));
    let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = TileServer::bind(transport_config(transport), &[listen], video).await.unwrap();
    let path = format!("127.0.0.1={}", server.addresses()[0]).parse().unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let serving = tokio::spawn(server.run(move |_, served| {
        let _ = tell.send((served.account, served.outcome.as_ref().map_err(ToString::to_string).err()));
    }));
    let config_play = PlayConfig { transport: transport_config(transport), paths: vec![path] };
    let viewpoint = Viewpoint::new(config)?;
    let viewed = viewpoint.view(&config_play, Some(directory), &mut |_, _| ()).await;
    if let Ok(viewed) = &viewed {
        // The server's counts equal the viewer's.
        let (account, error) = told.recv().await.unwrap();
        assert_eq!((account, error), (viewed.result.record.account, None), "{transport}");
        let Account { asked, in_time, late } = account.expect(transport);
        let load = viewed.result.load;
        assert_eq!((asked, in_time, late), (load.tiles_planned, load.tiles_in_time, load.tiles_late));
        assert_eq!(account.unwrap().dropped(), load.tiles_dropped);
    }
    serving.abort();
    viewed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_on_loopback_sees_the_video_over_every_transport() {
    let directory = tempfile::tempdir().unwrap();
    let head = directory.path().join("head.csv");
    std::fs::write(&head, "time_s,yaw_deg,pitch_deg\n0,0,0\n1,90,10\n1.2,100,0\n").unwrap();
    let transports = [("session", "ows"), ("tcp", "fix"), ("quic", "fix")];
    let clip = clip();
    let tiles = clip.path();
    let views = transports
        .map(|(transport, allocator)| view(transport, viewer(allocator, Some(head.clone())), &tiles));
    let [session, tcp, quic] = views;
    let (session, tcp, quic) = tokio::join!(session, tcp, quic);
    let (session, tcp, quic) = (session.unwrap(), tcp.unwrap(), quic.unwrap());
    // A reader who knows no allocator can read the legend, unless allocators are what is compared.
    let drawn = figure(&[&session.result, &tcp.result]);
    assert!(drawn.contains(">Tributary<") && !drawn.contains("ows on"), "{drawn}");
    let other = TiledResult { allocator: "ows".to_owned(), ..tcp.result.clone() };
    let drawn = figure(&[&tcp.result, &other]);
    for allocator in ["fix", "ows"] {
        assert!(drawn.contains(&format!(">{allocator} on {}<", tcp.result.transport)), "{drawn}");
    }
    for mut viewed in [session, tcp, quic] {
        let result = viewed.result.clone();
        assert_eq!(result.record.slots.len(), 3);
        assert!(result.load.tiles_in_time > 0, "{:?}", result.load);
        assert!(result.head.contains("ends at 1.2 s, its last pose is held"), "{}", result.head);
        assert!(result.clip.contains("repeated for"), "{}", result.clip);
        let quality = result.quality.as_ref().unwrap();
        assert_eq!(quality.gops.len(), 3);
        // On a loaded machine some tiles may be late; the result is far better than without tiles.
        assert!(quality.viewport.pooled_db > 12.0, "{quality:?}");
        assert!(quality.viewport.mean_db >= quality.viewport.worst_db - 1e-9);
        let moments = viewed.moments().unwrap();
        assert!(moments.iter().all(|m| m.images.len() == 2 && m.images[0].bytes.starts_with(&[0xff, 0xd8])));
        let video = viewed.video().unwrap().expect("the view was recorded");
        let page =
            page("test", &[&result], Some(&video), &moments, &tributary_report::machine::run_info("test"));
        assert!(
            page.contains("data:video/mp4") && page.contains("data:image/jpeg") && page.contains("worst 5 %")
        );
        let json = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<TiledResult>(&json).unwrap().load, result.load);
        assert!(table(&[&result]).to_text().contains("frozen"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_gets_the_low_resolution_stream_instead_of_tiles_if_the_video_has_one() {
    let clip = clip();
    let low = || ViewerConfig { low_resolution: true, record: false, ..viewer("ows", None) };
    let viewed = view("session", low(), &clip.path()).await.unwrap();
    let (record, quality) = (&viewed.result.record, viewed.result.quality.as_ref().unwrap());
    assert!(record.slots.iter().all(|slot| slot.planned == [(0, 0)] && slot.sound.is_some()), "{record:?}");
    assert!(quality.viewport.pooled_db > 12.0, "{quality:?}");
    let directory = tempfile::tempdir().unwrap();
    let without = directory.path().join("tiles");
    let copied = Command::new("cp").args(["-r"]).arg(clip.path()).arg(&without).status().unwrap();
    assert!(copied.success());
    std::fs::remove_dir_all(without.join(LOW)).unwrap();
    let error = view("session", low(), &without).await.map(drop).unwrap_err().to_string();
    assert!(error.contains("no low-resolution stream; ask for its tiles"), "{error}");
}

#[test]
fn only_tiles_that_arrived_in_time_are_measured() {
    let clip = clip();
    let video = TiledVideo::open(&clip.path()).unwrap();
    let viewpoint = Viewpoint::new(viewer("fix", None)).unwrap();
    let tiles = video.grid().tiles() as u16;
    // Tiles are the finest in slot 0, the coarsest in slot 1, and late in slot 2.
    let mut spool = Spool::temporary().unwrap();
    let mut record = crate::tiled::TiledRecord { gop_ms: 1000.0, ..Default::default() };
    record.start_up_ms = Some(1000.0);
    for (slot, quality) in [(0, 0), (1, 2), (2, 0)] {
        let gop = slot % 2;
        for tile in 0..tiles {
            let (at, quality_at) = (usize::from(tile), usize::from(quality));
            let arrived = crate::tiled::TileArrived {
                slot,
                gop,
                tile,
                quality,
                in_time: slot < 2,
                init: Some(video.init(at, quality_at).unwrap().to_vec().into()),
                segment: video.segment(gop as usize, at, quality_at).unwrap().into(),
            };
            spool.push(&arrived).unwrap();
        }
        record.slots.push(crate::tiled::SlotRecord {
            slot,
            gop,
            planned: (0..tiles).map(|tile| (tile, quality)).collect(),
            ..Default::default()
        });
    }
    let mut looked = |concealment| {
        let settings = MeasureSettings { concealment, ..viewpoint.measure_settings() };
        measure((&video, &record), &mut spool, viewpoint.trace(), settings, &mut |_| ()).unwrap()
    };
    let (frozen, black) = (looked(Concealment::Freeze), looked(Concealment::Black));
    let table_mse = |gop: usize, quality: usize| {
        video.table().gop(gop).iter().map(|cells| cells.mse[quality]).sum::<f64>() / f64::from(tiles)
    };
    let [fine, coarse, late] = frozen.gops.as_slice() else { panic!("three slots") };
    // The ingest measured the table from the same pictures, with other weights.
    assert!(fine.ws_mse < 4.0 * table_mse(0, 0) && coarse.ws_mse > table_mse(1, 2) / 4.0);
    assert!(fine.viewport_mse < coarse.viewport_mse && coarse.viewport_mse < late.viewport_mse);
    assert_eq!((fine.late_share, coarse.late_share), (0.0, 0.0));
    assert!((late.late_share - 1.0).abs() < 1e-9 && late.left_out_share == 0.0);
    assert_eq!(black.gops[..2], frozen.gops[..2]);
    assert!(black.gops[2].viewport_mse > late.viewport_mse);
}

#[test]
fn invalid_options_are_refused_before_connecting() {
    let refused = |change: fn(&mut ViewerConfig)| {
        let mut config = viewer("ows", None);
        change(&mut config);
        Viewpoint::new(config).map(drop).unwrap_err().to_string()
    };
    assert!(refused(|c| c.allocator = "best".to_owned()).contains("known are fix, fix-q, ows"));
    assert!(refused(|c| c.field = (190.0, 90.0)).contains("190"));
    assert!(refused(|c| c.width = 1).contains("16 to 8192"));
    assert!(refused(|c| c.head = Some(("/nowhere.csv".into(), "plain".to_owned()))).contains("/nowhere.csv"));
    assert!(refused(|c| c.head = Some(("/nowhere.csv".into(), "vive".to_owned()))).contains("vive"));
    let directory = tempfile::tempdir().unwrap();
    for (text, words) in [
        ("time_s,yaw_deg,pitch_deg\n0,0,0\n1,NaN,0\n", "line 3"),
        ("time_s,yaw_deg,pitch_deg,zoom\n0,0,0,1\n", "zoom"),
        ("time_s,yaw_deg,pitch_deg\n1,0,0\n0,0,0\n", "sort the trace"),
    ] {
        let path = directory.path().join("head.csv");
        std::fs::write(&path, text).unwrap();
        let mut config = viewer("ows", Some(path));
        config.seconds = None;
        let error = Viewpoint::new(config).map(drop).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn missing_segments_and_foreign_servers_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("tiles");
    let copied = Command::new("cp").args(["-r"]).arg(clip().path()).arg(&copy).status().unwrap();
    assert!(copied.success());
    let error = {
        let video = DiskSource(Arc::new(TiledVideo::open(&copy).unwrap()));
        // Deleted after the server has checked it.
        for tile in 0..video.0.grid().tiles() {
            for qp in video.0.qps() {
                std::fs::remove_file(copy.join(tributary_tiles::layout::segment(1, tile, *qp))).unwrap();
            }
        }
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let server = TileServer::bind(transport_config("tcp"), &[listen], video).await.unwrap();
        let path = format!("127.0.0.1={}", server.addresses()[0]).parse().unwrap();
        let serving = tokio::spawn(server.run(|_, _| ()));
        let config = PlayConfig { transport: transport_config("tcp"), paths: vec![path] };
        let viewpoint = Viewpoint::new(viewer("ows", None)).unwrap();
        let error = viewpoint.view(&config, None, &mut |_, _| ()).await.map(drop).unwrap_err();
        serving.abort();
        error.to_string()
    };
    assert!(error.contains("GoP 1") && error.contains("is missing"), "{error}");
    assert!(TiledVideo::open(&copy).is_err());

    // Another program listens there and closes the connection.
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = other.local_addr().unwrap();
    let accepting = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        let (mut stream, _) = other.accept().await.unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap();
        std::future::pending::<()>().await;
    });
    let path = format!("127.0.0.1={address}").parse().unwrap();
    let config = PlayConfig { transport: transport_config("tcp"), paths: vec![path] };
    let viewpoint = Viewpoint::new(viewer("ows", None)).unwrap();
    let error = viewpoint.view(&config, None, &mut |_, _| ()).await.map(drop).unwrap_err().to_string();
    accepting.abort();
    assert!(error.contains("invalid message"), "{error}");
}

/// Plays slots 0 to 4 in these qualities, without one tile in slot 4, and returns the sampled quality of slot 4, dB.
async fn sampled(clip: &Clip, quality: u8, missing: Option<u16>) -> f64 {
    let video = TiledVideo::open(&clip.path()).unwrap();
    let settings = Viewpoint::new(viewer("ows", None)).unwrap().measure_settings();
    let feed = Feed::default();
    let tiles: Vec<(u32, u16, bytes::Bytes, bytes::Bytes)> = (0..5_u32)
        .flat_map(|slot| (0..8_u16).map(move |tile| (slot, tile)))
        .map(|(slot, tile)| {
            let (at, quality) = (usize::from(tile), usize::from(quality));
            let segment = video.segment(slot as usize % video.gops(), at, quality).unwrap();
            (slot, tile, video.init(at, quality).unwrap().to_vec().into(), segment.into())
        })
        .collect();
    let gops = video.gops() as u32;
    let mut sampler = sample::Sampler::new(Arc::new(sample::Reference { video, settings }));
    for slot in 0..5 {
        for (_, tile, init, segment) in tiles.iter().filter(|(of, ..)| *of == slot) {
            let (init, segment) = ((slot == 0).then(|| init.clone()), segment.clone());
            let in_time = slot < 4 || missing != Some(*tile);
            let arrived = crate::tiled::TileArrived {
                slot,
                gop: slot % gops,
                tile: *tile,
                quality,
                in_time,
                init,
                segment,
            };
            sampler.tile(&arrived);
            // What is not a tile changes nothing.
            sampler.tile(&crate::tiled::TileArrived { tile: crate::tiled::SOUND, ..arrived });
        }
        sampler.begin((slot, slot % gops), tributary_video::sphere::Orientation::default(), &feed);
        let measured = || feed.status()["quality"]["slot"] == slot / 4 * 4;
        tributary_testing::becomes("the slot is measured", measured).await;
    }
    feed.status()["quality"]["viewport_psnr_db"].as_f64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sampled_quality_falls_with_coarse_tiles_and_with_a_tile_that_is_not_in_time() {
    let clip = clip();
    let (fine, coarse) = (sampled(&clip, 0, None).await, sampled(&clip, 2, None).await);
    // Tile 1 is straight ahead of a grid of 4×2. In its place the last picture of the slot before stays.
    let frozen = sampled(&clip, 0, Some(1)).await;
    let elsewhere = sampled(&clip, 0, Some(0)).await;
    assert!(fine > 35.0 && coarse < fine - 5.0 && frozen < fine - 5.0, "{fine} {coarse} {frozen}");
    assert!(elsewhere > frozen, "{elsewhere} {frozen}");
}
