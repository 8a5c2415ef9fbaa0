//! Measures how fast the scene renders, a ladder encodes and a bulk transfer runs on this machine.
//!
//! `cargo run --release -p tributary-stream --example sources -- [VIDEO]` prints sizes and times.
//! The ladder goes to a temporary directory. It also writes `scene.jpg` and `video.jpg`.

use std::time::{Duration, Instant};
use tributary_stream::{BulkParams, Ladder, LadderSettings, Source, Verify, fetch_bulk, scene::Scene, serve};
use tributary_types::Bitrate;

fn ladder(name: &str, source: &Source) -> Result<(), Box<dyn std::error::Error>> {
    let cache = tempfile::tempdir()?;
    let rates = [20, 40, 60, 80, 100, 120, 150, 180].map(Bitrate::from_mbps).to_vec();
    let settings =
        LadderSettings { rates, seconds: 4, width: None, any_aspect: false, cache: cache.path().to_owned() };
    let began = Instant::now();
    let ladder = Ladder::build(source, &settings, &mut |_| {})?;
    println!("{name}: {} GoPs at 8 bitrates in {:.1} s", ladder.distinct(), began.elapsed().as_secs_f64());
    for r in ladder.representations() {
        println!("  {} is {}, {:.1} % filler", r.nominal, r.real, r.filler * 100.0);
    }
    let began = Instant::now();
    Ladder::build(source, &settings, &mut |_| {})?;
    println!("  again from the cache in {:.2} s", began.elapsed().as_secs_f64());
    std::fs::write(format!("{name}.jpg"), ladder.still(3, 1, 1600)?)?;
    Ok(())
}

async fn bulk(verify: Verify) -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serving =
        tokio::spawn(
            async move { serve(listener.accept().await?.0, None).await.map_err(std::io::Error::other) },
        );
    let stream = tokio::net::TcpStream::connect(address).await?;
    let record = fetch_bulk(stream, &BulkParams { duration: Duration::from_secs(3), verify }).await?;
    println!(
        "bulk over loopback TCP, {verify:?}: {:.1} Gbit/s, intact: {:?}",
        record.goodput_mbps / 1e3,
        record.intact
    );
    serving.await??;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    let scene = Scene::new(2048, 1024);
    println!("scene painted in {:.2} s", began.elapsed().as_secs_f64());
    let (began, mut frame) = (Instant::now(), scene.frame());
    (0..240).for_each(|number| scene.render(number, &mut frame));
    println!("scene: {:.0} pictures a second on one core", 240.0 / began.elapsed().as_secs_f64());
    ladder("scene", &Source::Scene)?;
    if let Some(video) = std::env::args_os().nth(1) {
        ladder("video", &Source::File(video.into()))?;
    }
    let runtime = tokio::runtime::Runtime::new()?;
    for verify in [Verify::None, Verify::Stamps, Verify::Full] {
        runtime.block_on(bulk(verify))?;
    }
    Ok(())
}
