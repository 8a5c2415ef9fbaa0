//! One end of a trial on real sockets: connects or accepts sessions, and runs the application of the trial on each.
//!
//! The lab looks at both ends at short intervals (`Order::Look`) and judges what it sees. Not here: the application
//! ([`tributary_sim::trial::Lines`]), the network, and the rules.

mod places;
mod sockets;

use super::{EndpointError, Reply, Task, input, reply, usage};
use crate::process;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use sockets::Sockets;
use std::net::SocketAddr;
use tokio::time::{Instant as Wall, sleep_until};
use tributary_net::transport::{Acceptor, Connection, TransportConfig, TransportError};
use tributary_net::{Local, PathConfig};
use tributary_proto::handshakes::CODE_GONE;
use tributary_sim::trial::{End, LineState, Lines, Trial};
use tributary_types::Instant;

pub use places::Places;

/// A client goes on trying for longer than any trial lasts, as in the simulator.
const CONNECTING: Duration = Duration::from_secs(600);
/// A timer that is not needed.
const NEVER: Duration = Duration::from_secs(3600);

/// One end of a trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialEnd {
    /// Which one.
    pub end: End,
    /// What happens. Operations on the network are the lab's.
    pub trial: Trial,
    /// Addresses of the server, one of each path.
    pub servers: Vec<SocketAddr>,
    /// The client's network interfaces, one of each path.
    pub interfaces: Vec<String>,
}

/// What the lab asks of an end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// The trial began at this time of the monotonic clock, nanoseconds. Operations that are past have happened.
    Begin(u64),
    /// Answer with a [`Seen`].
    Look,
    /// All operations are over: read and end every stream.
    Settle,
    /// End the session at once with this code.
    Abandon(u32),
    /// Client: end the session. Server: end all sessions but the one of this name, which the client does not have any more.
    Close(Option<String>),
    /// Drop everything; only `Look` may follow.
    Leave,
}

/// One end at a moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// Its sessions, in the order in which they were opened; of a client at most one.
    pub sessions: Vec<SessionSeen>,
    /// Sessions of a client that ended because the server did not know them.
    pub forgotten: u32,
    /// Why no session could be opened.
    pub refused: Option<String>,
    /// What it occupies.
    pub places: Places,
    /// Processor seconds so far.
    pub cpu_seconds: f64,
}

/// One session at a moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionSeen {
    /// Its name, the same at both ends; `None` before the server's answer.
    pub name: Option<String>,
    /// Every stream.
    pub lines: Vec<LineState>,
    /// What it must not do.
    pub broken: Option<String>,
    /// Close code and reason.
    pub ended: Option<(u32, String)>,
    /// Bytes written and not sent.
    pub send_held: u64,
    /// Received bytes held at most.
    pub receive_held_most: u64,
}

pub(super) async fn run(task: &Task, end: &TrialEnd) -> Result<(), EndpointError> {
    // A panic of a task must not look like a session that waits.
    std::panic::set_hook(Box::new(|panic| {
        process::fail(format!("panicked: {panic}"));
        std::process::exit(101);
    }));
    let mut config = task.config()?;
    if let Some(common) = &mut config.common {
        common.session = end.trial.config();
    }
    (config.early, config.timeout) = (end.trial.early, CONNECTING);
    let mut lines = input::lines();
    let acceptor = match end.end {
        End::Server => Some(Acceptor::bind(&config, &end.servers).await?),
        End::Client => None,
    };
    reply(&Reply::Ready(end.servers.clone()));
    let mut app = App::new(end, config, acceptor);
    loop {
        let due = app.due();
        let line = tokio::select! {
            line = lines.recv() => line,
            () = poll_fn(|cx| app.poll(cx)) => continue,
            () = sleep_until(due) => continue,
        };
        let Some(line) = line else { return Ok(()) };
        let order = serde_json::from_str(&line).map_err(std::io::Error::other);
        match order.map_err(super::system("reading an order"))? {
            Order::Begin(at) => app.began = Some(began(at)),
            Order::Look => reply(&Reply::Trial(Box::new(app.look()))),
            Order::Settle => app.settle(),
            Order::Abandon(code) => app.abandon(code),
            Order::Close(name) => app.close(name.as_deref()),
            Order::Leave => app.leave(),
        }
    }
}

/// The moment of this time of the monotonic clock.
fn began(at: u64) -> Wall {
    let passed = usage::monotonic().saturating_sub(Duration::from_nanos(at));
    let now = Wall::now();
    now.checked_sub(passed).unwrap_or(now)
}

type Connecting = Pin<Box<dyn Future<Output = Result<Connection, TransportError>>>>;

struct App<'a> {
    end: &'a TrialEnd,
    config: TransportConfig,
    began: Option<Wall>,
    settled: bool,
    left: bool,
    acceptor: Option<Acceptor>,
    connecting: Option<Connecting>,
    sessions: Vec<Attended>,
    forgotten: u32,
    refused: Option<String>,
}

/// A session and its application.
struct Attended {
    sockets: Sockets,
    lines: Lines,
    /// Operations that have begun for it.
    applied: usize,
}

impl<'a> App<'a> {
    fn new(end: &'a TrialEnd, config: TransportConfig, acceptor: Option<Acceptor>) -> Self {
        Self {
            end,
            config,
            began: None,
            settled: false,
            left: false,
            acceptor,
            connecting: None,
            sessions: Vec::new(),
            forgotten: 0,
            refused: None,
        }
    }

    fn now(&self) -> Instant {
        let passed = self.began.map(|began| began.elapsed()).unwrap_or_default();
        Instant::ZERO + passed
    }

    /// When the applications have something to do that no session tells them.
    fn due(&self) -> Wall {
        let now = self.now();
        let next = self.sessions.iter().flat_map(|attended| {
            let operation = self.end.trial.operations.get(attended.applied).map(|next| next.begins());
            operation.into_iter().chain(attended.lines.due(now))
        });
        let next = next.min().filter(|_| !self.left);
        next.zip(self.began)
            .map_or_else(|| Wall::now() + NEVER, |(at, began)| began + at.saturating_since(Instant::ZERO))
    }

    /// Does what can be done now.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.began.is_none() || self.left {
            return Poll::Pending;
        }
        self.open(cx);
        let now = self.now();
        for attended in &mut self.sessions {
            attended.attend(now, &self.end.trial, cx);
        }
        let gone = |attended: &Attended| attended.sockets.ended().is_some_and(|(code, _)| code == CODE_GONE);
        if self.end.end == End::Client && self.sessions.iter().any(gone) {
            self.sessions.clear();
            self.forgotten += 1;
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// A client connects while it has no session; a server accepts.
    fn open(&mut self, cx: &mut Context<'_>) {
        if self.end.end == End::Client && self.sessions.is_empty() && self.refused.is_none() {
            let connecting = self.connecting.get_or_insert_with(|| {
                let (config, paths) = (self.config.clone(), self.end.paths());
                Box::pin(async move { Connection::connect(&config, &paths).await })
            });
            let Poll::Ready(connected) = connecting.as_mut().poll(cx) else { return };
            self.connecting = None;
            match connected {
                Ok(connection) => self.attend(connection),
                Err(error) => self.refused = Some(error.to_string()),
            }
        }
        while let Some(acceptor) = &mut self.acceptor {
            let accepted = std::pin::pin!(acceptor.accept()).poll(cx);
            let Poll::Ready(Some((connection, _))) = accepted else { return };
            self.attend(connection);
        }
    }

    fn attend(&mut self, connection: Connection) {
        let session = connection.session().expect("trials run on sessions").clone();
        let lines = Lines::new(&self.end.trial, self.end.end);
        self.sessions.push(Attended { sockets: Sockets::new(session), lines, applied: 0 });
        if self.settled {
            self.settle();
        }
    }

    fn look(&self) -> Seen {
        let now = self.now();
        Seen {
            sessions: self.sessions.iter().map(|attended| attended.look(now)).collect(),
            forgotten: self.forgotten,
            refused: self.refused.clone(),
            places: Places::now(),
            cpu_seconds: usage::cpu_time().as_secs_f64(),
        }
    }

    fn settle(&mut self) {
        self.settled = true;
        let now = self.now();
        for attended in &mut self.sessions {
            attended.begin(now, &self.end.trial);
            attended.lines.settle(now);
        }
    }

    fn abandon(&self, code: u32) {
        self.sessions.iter().for_each(|attended| attended.sockets.session().abort(code, "abandoned"));
    }

    fn close(&mut self, name: Option<&str>) {
        if self.end.end == End::Client {
            self.sessions.iter().for_each(|attended| attended.sockets.close());
            return;
        }
        self.sessions.retain(|attended| {
            let keeps = attended.sockets.session().name().as_deref() == name;
            if !keeps {
                attended.sockets.session().abort(0, "the client has another session");
            }
            keeps
        });
    }

    fn leave(&mut self) {
        self.left = true;
        self.sessions.clear();
        (self.acceptor, self.connecting) = (None, None);
    }
}

impl TrialEnd {
    /// The client's paths. They follow their interfaces, so that link events count.
    fn paths(&self) -> Vec<PathConfig> {
        let path = |(interface, server): (&String, &SocketAddr)| {
            PathConfig::new(Local::Interface(interface.clone()), *server)
        };
        self.interfaces.iter().zip(&self.servers).map(path).collect()
    }
}

impl Attended {
    /// Begins the operations that are due.
    fn begin(&mut self, now: Instant, trial: &Trial) {
        let due = trial.operations[self.applied..].iter().take_while(|operation| operation.begins() <= now);
        for operation in due {
            self.applied += 1;
            self.lines.operate(operation.begins(), &operation.act);
        }
    }

    fn attend(&mut self, now: Instant, trial: &Trial, cx: &mut Context<'_>) {
        self.begin(now, trial);
        let lines = &mut self.lines;
        self.sockets.accept(cx, |id| lines.opened(id));
        self.lines.wake();
        self.lines.act(now, &mut self.sockets.with(cx));
    }

    fn look(&self, now: Instant) -> SessionSeen {
        let session = self.sockets.session();
        let held = session.stats().session;
        SessionSeen {
            name: session.name(),
            lines: self.lines.states(now),
            broken: self.lines.broken().map(str::to_owned),
            ended: self.sockets.ended(),
            send_held: held.send_held,
            receive_held_most: held.receive_held_most,
        }
    }
}
