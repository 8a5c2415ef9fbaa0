//! The worst round trip of an honest session beside authenticated ones that send frames as fast as they can.
//!
//! `tributary serve` runs as a process, in plaintext mode: a relay lets a client open a session, and then sends frames of its
//! own in its place. What a frame costs is the same as over TLS. Phases without and with the hostile sessions take turns.
//! Not here: floods without the key ([`super`]).

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tributary_net::{Common, ConnectConfig, Key, PathConfig, Session, Stream, connect};
use tributary_proto::wire::{
    Control, DeclaredLimits, SegmentHead, SegmentKind, encode_control, encode_segment_head,
};
use tributary_report::{Table, stats};
use tributary_types::{DataSeq, StreamId};

use crate::daemon::{Program, keygen};
use crate::failed;
use crate::{BenchError, Expectation, Judged, Progress, Tables};

/// Hostile sessions, and the streams that each opens.
const SESSIONS: usize = 2;
const STREAMS: u32 = 1000;
/// Aim: longest round trip of the honest session, ms.
const WORST_MS: Expectation = Expectation::AtMost(50.0);
/// Bytes of ticket, challenge and hello in plaintext mode (`docs/wire-handshake.md`).
const HANDSHAKE: [usize; 3] = [80, 72, 112];
/// One-byte pieces of a stream, and the bytes over which they are spread.
const PIECES: u64 = 30_000;
const SPREAD: u64 = 4 * PIECES + 2;
/// Bytes of one write.
const BLOCK: usize = 64 << 10;
/// Time for a party to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// Time at the beginning of a phase that is not measured.
const SETTLE: Duration = Duration::from_secs(1);

/// What the hostile sessions send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Hostile {
    /// The same SETTINGS again and again, in sessions with 1000 streams.
    Settings,
    /// One-byte pieces of a stream out of order, each between others.
    Pieces,
    Pings,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What the hostile sessions sent.
    pub hostile: Hostile,
    /// Megabytes of frames that the server took each second, by round.
    pub taken_mb: Vec<f64>,
    /// Longest round trip of each round without the hostile sessions, ms.
    pub alone_ms: Vec<f64>,
    /// The same beside them.
    pub beside_ms: Vec<f64>,
    pub longest_ms: Judged,
}

pub fn run(hostile: Hostile, flood: &super::Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let words = |error: std::io::Error| failed("runtime", error);
    let (honest, others) = (runtime().map_err(words)?, runtime().map_err(words)?);
    let directory = TempDir::new().map_err(|error| failed("temporary directory", error))?;
    let key = keygen(directory.path())?;
    let echo = honest.block_on(echo())?.to_string();
    let arguments = ["--listen", "127.0.0.1:0", "--forward", &echo, "--shared-key", &key, "--plaintext"];
    let server = Program::here(&[&["serve"][..], &arguments[..]].concat(), directory.path())?;
    let common = Common {
        plaintext: true,
        ..Common::new(Key::load(key.as_ref()).map_err(|error| failed("key", error))?)
    };
    let scene = Arc::new(Scene::default());
    let (address, crowd_common, crowd_scene) = (server.listening()[0], common.clone(), scene.clone());
    let crowd = std::thread::spawn(move || {
        others.block_on(crowd(address, &crowd_common, hostile, &crowd_scene));
    });
    let result = honest.block_on(measure(flood, address, common, &scene, progress));
    scene.over.store(true, Relaxed);
    let _ = crowd.join();
    let (alone_ms, beside_ms, taken_mb) = result?;
    let longest_ms = Judged::most(&beside_ms, WORST_MS);
    Ok(Report { hostile, taken_mb, alone_ms, beside_ms, longest_ms })
}

#[derive(Debug, Default)]
struct Scene {
    over: AtomicBool,
    flooding: AtomicBool,
    taken: AtomicU64,
}

type Rounds = (Vec<f64>, Vec<f64>, Vec<f64>);

async fn measure(
    flood: &super::Settings,
    server: SocketAddr,
    common: Common,
    scene: &Scene,
    progress: Progress<'_>,
) -> Result<Rounds, BenchError> {
    let lost = |error: &dyn std::fmt::Display| failed("the honest client", error);
    let path: PathConfig = format!("127.0.0.2={server}").parse().map_err(|e| lost(&e))?;
    let config = ConnectConfig { paths: vec![path], common, timeout: CONNECT };
    let session: Session = connect(config).await.map_err(|error| lost(&error))?;
    let mut stream = session.open_stream(7).await.map_err(|error| lost(&error))?;
    // The name of the proxy's only target is empty.
    stream.write_chunk(Bytes::from_static(&[0])).await.map_err(|error| lost(&error))?;
    let (mut alone, mut beside, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..flood.rounds {
        for flooded in [round % 2 == 1, round % 2 == 0] {
            let what = if flooded { "beside hostile sessions" } else { "alone" };
            progress(&format!("round {} of {}: {what}", round + 1, flood.rounds));
            scene.flooding.store(flooded, Relaxed);
            longest(&mut stream, SETTLE).await.map_err(|error| lost(&error))?;
            let before = scene.taken.load(Relaxed);
            let phase = Duration::from_secs_f64(flood.seconds);
            let ms = longest(&mut stream, phase).await.map_err(|error| lost(&error))?;
            if flooded {
                beside.push(ms);
                taken.push((scene.taken.load(Relaxed) - before) as f64 / 1e6 / flood.seconds);
            } else {
                alone.push(ms);
            }
        }
    }
    Ok((alone, beside, taken))
}

/// Sends one byte after the other and waits for each to come back; the longest time in ms.
async fn longest(stream: &mut Stream, within: Duration) -> Result<f64, tributary_net::StreamError> {
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < within {
        let sent = Instant::now();
        stream.write_chunk(Bytes::from_static(b"!")).await?;
        stream.read_chunk().await?;
        longest = longest.max(sent.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(longest.as_secs_f64() * 1e3)
}

/// A target that sends everything back.
async fn echo() -> Result<SocketAddr, BenchError> {
    let target = |error: std::io::Error| failed("the target", error);
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(target)?;
    let address = listener.local_addr().map_err(target)?;
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = tcp.set_nodelay(true);
                let (mut read, mut write) = tcp.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    Ok(address)
}

/// The hostile sessions: each comes again when it has ended.
async fn crowd(server: SocketAddr, common: &Common, hostile: Hostile, scene: &Arc<Scene>) {
    let mut sessions = JoinSet::new();
    for _ in 0..SESSIONS {
        let (common, scene) = (common.clone(), scene.clone());
        sessions.spawn(async move {
            while !scene.over.load(Relaxed) {
                if scene.flooding.load(Relaxed) {
                    let _ = intrude(server, common.clone(), hostile, &scene).await;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    }
    sessions.join_all().await;
}

/// Lets a client open a session, and floods the server in its place until the phase is over.
async fn intrude(server: SocketAddr, common: Common, hostile: Hostile, scene: &Scene) -> std::io::Result<()> {
    let relay = TcpListener::bind("127.0.0.1:0").await?;
    let path = format!("127.0.0.3={}", relay.local_addr()?).parse::<PathConfig>();
    let path = path.map_err(|_| std::io::ErrorKind::InvalidInput)?;
    let opening = tokio::spawn(connect(ConnectConfig { paths: vec![path], common, timeout: CONNECT }));
    let (mut near, _) = relay.accept().await?;
    let mut far = TcpStream::connect(server).await?;
    for (step, length) in HANDSHAKE.into_iter().enumerate() {
        let mut message = vec![0; length];
        let (from, to) = if step == 1 { (&mut far, &mut near) } else { (&mut near, &mut far) };
        from.read_exact(&mut message).await?;
        to.write_all(&message).await?;
    }
    opening.abort();
    let (mut answers, mut frames) = far.into_split();
    let reading = tokio::spawn(async move {
        let mut thrown_away = vec![0; BLOCK];
        while answers.read(&mut thrown_away).await.is_ok_and(|count| count > 0) {}
    });
    let mut flood = Flood::new(hostile);
    while scene.flooding.load(Relaxed) && !scene.over.load(Relaxed) {
        let Some(block) = flood.next() else { break };
        frames.write_all(&block).await?;
        scene.taken.fetch_add(block.len() as u64, Relaxed);
    }
    reading.abort();
    Ok(())
}

/// The frames of a hostile session, in blocks.
struct Flood {
    hostile: Hostile,
    /// Number of the next segment, and the stream whose pieces it carries.
    seq: u64,
    stream: u32,
    piece: u64,
}

impl Flood {
    fn new(hostile: Hostile) -> Self {
        Self { hostile, seq: 0, stream: 0, piece: 0 }
    }

    fn segment(&mut self, stream: u32, kind: SegmentKind, out: &mut BytesMut) {
        let head = SegmentHead { seq: DataSeq(self.seq), stream: StreamId(stream), kind };
        self.seq += 1;
        out.extend_from_slice(encode_segment_head(&head).as_slice());
        if let SegmentKind::Data { length, .. } = kind {
            out.resize(out.len() + length as usize, 0);
        }
    }

    /// The next frame; false when the session has no streams left.
    fn frame(&mut self, out: &mut BytesMut) -> bool {
        match self.hostile {
            Hostile::Settings => {
                let settings =
                    DeclaredLimits { max_data: 64 << 20, stream_credit: 1 << 20, max_streams: 2048 };
                encode_control(&Control::Settings(settings), out);
            }
            Hostile::Pings => encode_control(&Control::Ping(1), out),
            Hostile::Pieces if self.piece == PIECES => {
                self.segment(2 * self.stream, SegmentKind::Reset { code: 0, end: SPREAD }, out);
                (self.piece, self.stream) = (0, self.stream + 1);
            }
            Hostile::Pieces => {
                // From the middle to both ends.
                let half = self.piece.div_ceil(2);
                let at = if self.piece.is_multiple_of(2) { PIECES + half } else { PIECES - half };
                let kind = SegmentKind::Data { offset: 2 + 2 * at, length: 1, fin: false };
                self.segment(2 * self.stream, kind, out);
                self.piece += 1;
            }
        }
        self.stream < STREAMS
    }
}

impl Iterator for Flood {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::with_capacity(BLOCK + 64);
        if self.seq == 0 {
            // Opens all streams.
            let kind = SegmentKind::Data { offset: 0, length: 1, fin: false };
            self.segment(2 * (STREAMS - 1), kind, &mut out);
        }
        while out.len() < BLOCK {
            if !self.frame(&mut out) {
                return None;
            }
        }
        Some(out.freeze())
    }
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let title = format!("Longest round trip of a session beside {SESSIONS} that send {:?}", self.hostile);
        let table = Table::of(&title.to_lowercase(), [self])
            .number(("hostile frames", "MB/s"), 1, |of| crate::median(&of.taken_mb))
            .number(("alone", "ms"), 1, |of| stats::maximum(&of.alone_ms))
            .judged("beside them, ms", |of| of.longest_ms.cells(1))
            .table();
        vec![table]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_proto::{Config, Session, Side};
    use tributary_types::{Instant, PathId, SubflowId};

    /// A session takes every flood: it is not ended for breaking a rule.
    #[test]
    fn the_floods_break_no_rule() {
        for hostile in [Hostile::Settings, Hostile::Pieces, Hostile::Pings] {
            let now = Instant::from_millis(1);
            let mut session = Session::new(Side::Server, Config::default(), 1, now).unwrap();
            session.handle_subflow_open(now, SubflowId(0), PathId(0)).unwrap();
            for block in Flood::new(hostile).take(40) {
                session.handle_input(now, SubflowId(0), block).unwrap();
                session.handle_room(SubflowId(0), 1 << 20);
                while session.poll_transmit(now).is_some() {}
                while session.poll_event().is_some() {}
            }
            assert!(!session.is_closed(), "{hostile:?}");
        }
    }
}
