//! Connections with a random life: some bytes up, some down, in pieces with pauses, to the end or to an abort
//! by either side.
//!
//! The head of each connection tells the target what to do.

use crate::BenchError;
use core::time::Duration;
use serde::Serialize;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tributary_types::Rng;

/// Pieces of each direction.
const PIECES: u64 = 16;
/// Bytes of a direction: the exponent is uniform between these powers of two.
const SIZES: (f64, f64) = (10.0, 21.0);
/// Longest life, seconds.
const LONGEST: f64 = 8.0;
/// Share of the connections that are aborted.
const ABORTED: f64 = 0.5;
/// Bytes of a connection's head.
const HEAD: usize = 32;
/// No abort.
const NEVER: u64 = u64::MAX;
/// Time that a connection may take beyond its life.
const PATIENCE: Duration = Duration::from_secs(20);

/// The plan of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    up: u64,
    down: u64,
    /// Pause after each piece, microseconds.
    rest: u64,
    /// Bytes of both directions after which the target or the application aborts.
    target_aborts: u64,
    application_aborts: u64,
}

impl Life {
    pub(super) fn random(rng: &mut Rng) -> Self {
        let mut size = || (SIZES.0 + (SIZES.1 - SIZES.0) * rng.uniform()).exp2() as u64;
        let (up, down) = (size(), size());
        let rest = (LONGEST * 1e6 * rng.uniform()) as u64 / (2 * PIECES);
        let mut life = Self { up, down, rest, target_aborts: NEVER, application_aborts: NEVER };
        if rng.chance(ABORTED) {
            let at = rng.below(up + down);
            *(if rng.chance(0.5) { &mut life.target_aborts } else { &mut life.application_aborts }) = at;
        }
        life
    }

    /// A complete one without pauses.
    pub(super) fn short(rng: &mut Rng) -> Self {
        let life = Self::random(rng);
        Self { rest: 0, target_aborts: NEVER, application_aborts: NEVER, ..life }
    }

    fn head(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        for (at, field) in head.chunks_exact_mut(8).zip([self.up, self.down, self.rest, self.target_aborts]) {
            at.copy_from_slice(&field.to_be_bytes());
        }
        head
    }

    fn of_head(head: &[u8; HEAD]) -> Self {
        let mut fields =
            head.chunks_exact(8).map(|at| u64::from_be_bytes(at.try_into().expect("eight bytes")));
        let mut next = || fields.next().expect("four fields");
        let (up, down, rest, target_aborts) = (next(), next(), next(), next());
        Self { up, down, rest, target_aborts, application_aborts: NEVER }
    }

    fn is_whole(&self) -> bool {
        self.target_aborts == NEVER && self.application_aborts == NEVER
    }
}

/// One side of a connection; counts both directions.
struct Side {
    tcp: TcpStream,
    rest: Duration,
    aborts: u64,
    moved: u64,
}

impl Side {
    fn new(tcp: TcpStream, rest: u64, aborts: u64) -> Self {
        Self { tcp, rest: Duration::from_micros(rest), aborts, moved: 0 }
    }

    /// Whether to abort now; the connection then ends with a reset.
    fn aborts(&self, more: u64) -> bool {
        let abort = self.aborts != NEVER && self.moved + more > self.aborts;
        if abort {
            let _ = socket2::SockRef::from(&self.tcp).set_linger(Some(Duration::ZERO));
        }
        abort
    }

    /// Sends `bytes`; returns false if it aborted.
    async fn send(&mut self, bytes: u64) -> io::Result<bool> {
        let piece = vec![7; bytes.div_ceil(PIECES) as usize];
        let mut left = bytes;
        while left > 0 {
            let now = left.min(piece.len() as u64);
            if self.aborts(now) {
                return Ok(false);
            }
            self.tcp.write_all(&piece[..now as usize]).await?;
            self.moved += now;
            left -= now;
            tokio::time::sleep(self.rest).await;
        }
        Ok(true)
    }

    /// Receives `bytes`; returns false if it aborted.
    async fn receive(&mut self, bytes: u64) -> io::Result<bool> {
        let mut buffer = vec![0; 16 << 10];
        let mut left = bytes;
        while left > 0 {
            let most = left.min(buffer.len() as u64) as usize;
            let read = self.tcp.read(&mut buffer[..most]).await? as u64;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if self.aborts(read) {
                return Ok(false);
            }
            self.moved += read;
            left -= read;
        }
        Ok(true)
    }

    /// Ends the direction, and checks that nothing more arrives.
    async fn end(&mut self) -> io::Result<()> {
        self.tcp.shutdown().await?;
        match self.tcp.read(&mut [0]).await? {
            0 => Ok(()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Outcome of a connection, as its application saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Whole,
    Aborted,
    /// It should have been complete and was not.
    Broken,
    /// The target aborted it, and it looked complete to the application.
    Deceived,
}

async fn live(proxy: SocketAddr, life: Life) -> Fate {
    let through = async {
        let mut side = Side::new(TcpStream::connect(proxy).await?, life.rest, life.application_aborts);
        side.tcp.write_all(&life.head()).await?;
        if !side.send(life.up).await? || !side.receive(life.down).await? {
            return Ok(false);
        }
        side.end().await?;
        Ok::<bool, io::Error>(true)
    };
    match (tokio::time::timeout(Duration::from_secs_f64(LONGEST) + PATIENCE, through).await, life.is_whole())
    {
        (Ok(Ok(true)), true) => Fate::Whole,
        (Ok(Ok(true)), false) => Fate::Deceived,
        (_, true) => Fate::Broken,
        (_, false) => Fate::Aborted,
    }
}

/// Outcomes of all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Delivered in both directions and ended in order.
    pub whole: u64,
    /// Aborted as planned.
    pub aborted: u64,
    /// Should have been complete and were not.
    pub broken: u64,
    /// Aborted by the target, but looked complete to the application.
    pub deceived: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { whole, aborted, broken, deceived } = self;
        write!(f, "{whole} whole, {aborted} aborted, {broken} broken, {deceived} deceived")
    }
}

/// Connections through a proxy.
pub(super) struct Load {
    proxy: SocketAddr,
    lives: JoinSet<()>,
    begun: u64,
    tally: Arc<Mutex<Tally>>,
}

impl Load {
    pub(super) fn new(proxy: SocketAddr) -> Self {
        Self { proxy, lives: JoinSet::new(), begun: 0, tally: Arc::default() }
    }

    pub(super) fn begin(&mut self, life: Life) {
        let (proxy, tally) = (self.proxy, self.tally.clone());
        self.begun += 1;
        self.lives.spawn(async move {
            let fate = live(proxy, life).await;
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            *match fate {
                Fate::Whole => &mut tally.whole,
                Fate::Aborted => &mut tally.aborted,
                Fate::Broken => &mut tally.broken,
                Fate::Deceived => &mut tally.deceived,
            } += 1;
        });
        while self.lives.try_join_next().is_some() {}
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Connections in progress.
    pub(super) fn open(&self) -> u64 {
        let Tally { whole, aborted, broken, deceived } = self.tally();
        self.begun - whole - aborted - broken - deceived
    }

    pub(super) fn tally(&self) -> Tally {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all of them, at most `within` plus the longest life.
    pub(super) async fn finish(mut self, within: Duration) -> Tally {
        let all = async { while self.lives.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(within + Duration::from_secs_f64(LONGEST), all).await;
        self.tally()
    }
}

/// A target that follows the head of each connection.
pub(super) async fn target() -> Result<SocketAddr, BenchError> {
    let failed = |error: io::Error| crate::failed("the target", error);
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = [0; HEAD];
                tcp.read_exact(&mut head).await?;
                let life = Life::of_head(&head);
                let mut side = Side::new(tcp, life.rest, life.target_aborts);
                if side.receive(life.up).await? && side.send(life.down).await? {
                    side.end().await?;
                }
                Ok::<(), io::Error>(())
            });
        }
    });
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lives_end_as_planned() {
        let target = target().await.unwrap();
        let whole =
            Life { up: 100_000, down: 50_000, rest: 0, target_aborts: NEVER, application_aborts: NEVER };
        assert_eq!(live(target, whole).await, Fate::Whole);
        for at in [0, 50_000, 120_000, 149_999] {
            assert_eq!(live(target, Life { target_aborts: at, ..whole }).await, Fate::Aborted);
            assert_eq!(live(target, Life { application_aborts: at, ..whole }).await, Fate::Aborted);
        }
        assert_eq!(Life::of_head(&whole.head()), whole);
    }

    #[test]
    fn half_of_the_lives_are_aborted_by_either_side() {
        let mut rng = Rng::new(1);
        let lives: Vec<Life> = (0..1000).map(|_| Life::random(&mut rng)).collect();
        let count = |of: fn(&Life) -> bool| lives.iter().filter(|life| of(life)).count();
        assert!((450..550).contains(&count(Life::is_whole)));
        assert!((200..300).contains(&count(|life| life.target_aborts != NEVER)));
    }
}
