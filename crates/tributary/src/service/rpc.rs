//! JSON-RPC 2.0 on a program's local socket: one request or batch a line, one answer a line, and notifications for subscribers.
//!
//! Source: the JSON-RPC 2.0 specification. Not here: what the methods do to the program ([`Methods`]).

use super::metrics::Describe;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

/// Connections to a socket at a time; further ones wait.
const CONNECTIONS: usize = 32;
/// Longest line of a client.
const LINE: u64 = 64 << 10;
/// Time for a client to take an answer. One that does not read is dropped.
const TAKE: Duration = Duration::from_secs(5);
/// Time without a request after which a connection without subscription ends.
const IDLE: Duration = Duration::from_secs(60);
/// Pause after a failed `accept`.
const PAUSE: Duration = Duration::from_millis(500);
/// Shortest and longest interval of a subscription, in seconds.
const INTERVAL: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

/// What a program does beside showing its status.
pub(crate) trait Methods: Send + Sync + 'static {
    /// Carries out a request; `None`: there is no such method.
    fn call(&self, method: &str, params: &Value) -> Option<Result<Value, Fault>>;
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    code: i32,
    said: String,
}

impl Fault {
    /// The parameters are not those of the method.
    pub(crate) fn params(said: impl Into<String>) -> Self {
        Self { code: -32602, said: said.into() }
    }

    /// The program cannot do it.
    pub(crate) fn refused(error: &anyhow::Error) -> Self {
        Self { code: -32000, said: format!("{error:#}") }
    }
}

/// A program without methods of its own.
pub(crate) struct NoMethods;

impl Methods for NoMethods {
    fn call(&self, _: &str, _: &Value) -> Option<Result<Value, Fault>> {
        None
    }
}

/// Serves a socket until the future is dropped, which ends its connections.
pub(super) async fn serve(listener: UnixListener, describe: Describe, methods: Arc<dyn Methods>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let place = places.clone().acquire_owned().await.expect("nobody closes it");
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let (describe, methods) = (describe.clone(), methods.clone());
        connections.spawn(async move {
            Connection::new(stream, describe, methods).run().await;
            drop(place);
        });
    }
}

struct Connection {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    /// A line that has not ended yet.
    line: Vec<u8>,
    subscription: Option<Interval>,
    describe: Describe,
    methods: Arc<dyn Methods>,
}

impl Connection {
    fn new(stream: UnixStream, describe: Describe, methods: Arc<dyn Methods>) -> Self {
        let (reader, writer) = stream.into_split();
        let reader = BufReader::new(reader);
        Self { reader, writer, line: Vec::new(), subscription: None, describe, methods }
    }

    /// Answers until the client leaves, breaks the limits or does not read.
    async fn run(mut self) {
        loop {
            let tick = async {
                match &mut self.subscription {
                    Some(interval) => drop(interval.tick().await),
                    None => tokio::time::sleep(IDLE).await,
                }
            };
            let room = (LINE + 1).saturating_sub(self.line.len() as u64);
            let mut limited = (&mut self.reader).take(room);
            tokio::select! {
                // Keeps what was read when it is dropped.
                read = limited.read_until(b'\n', &mut self.line) => match read {
                    Ok(read) if read > 0 && self.line.last() == Some(&b'\n') => {
                        let line = std::mem::take(&mut self.line);
                        let answer = self.answer(&line);
                        if let Some(answer) = answer && !self.write(&answer).await {
                            return;
                        }
                    }
                    _ => return,
                },
                () = tick => {
                    if self.subscription.is_none() {
                        return;
                    }
                    let status = json!({ "jsonrpc": "2.0", "method": "status", "params": (self.describe)() });
                    if !self.write(&status).await {
                        return;
                    }
                }
            }
        }
    }

    async fn write(&mut self, message: &Value) -> bool {
        let line = format!("{message}\n");
        matches!(timeout(TAKE, self.writer.write_all(line.as_bytes())).await, Ok(Ok(())))
    }

    /// The answer to a line; `None` if it contains notifications only.
    fn answer(&mut self, line: &[u8]) -> Option<Value> {
        match serde_json::from_slice(line) {
            Ok(Value::Array(requests)) if !requests.is_empty() => {
                let answers: Vec<Value> =
                    requests.iter().filter_map(|request| self.request(request)).collect();
                (!answers.is_empty()).then(|| answers.into())
            }
            Ok(request) => self.request(&request),
            Err(error) => Some(failure(&Value::Null, -32700, &format!("not JSON: {error}"))),
        }
    }

    fn request(&mut self, request: &Value) -> Option<Value> {
        let id = request.get("id");
        let is_id = |id: &Value| id.is_string() || id.is_number() || id.is_null();
        let (Some(method), true, true) =
            (request["method"].as_str(), request["jsonrpc"] == "2.0", id.is_none_or(is_id))
        else {
            return Some(failure(&Value::Null, -32600, "not a request of JSON-RPC 2.0"));
        };
        let outcome = self.call(method, &request["params"]);
        // Without an identifier it is a notification, which nobody answers.
        let id = id?;
        Some(match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(Fault { code, said }) => failure(id, code, &said),
        })
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value, Fault> {
        match method {
            "status" => Ok((self.describe)()),
            "subscribe" => {
                let seconds = params.get("interval_s").map_or(Some(1.0), Value::as_f64);
                let Some(seconds) = seconds.filter(|seconds| INTERVAL.contains(seconds)) else {
                    let (least, most) = (INTERVAL.start(), INTERVAL.end());
                    return Err(Fault::params(format!("interval_s: a number from {least} to {most}")));
                };
                let mut ticks = interval(Duration::from_secs_f64(seconds));
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                self.subscription = Some(ticks);
                Ok(json!({ "interval_s": seconds }))
            }
            other => self.methods.call(other, params).unwrap_or_else(|| {
                Err(Fault { code: -32601, said: format!("this program has no method `{other}`") })
            }),
        }
    }
}

fn failure(id: &Value, code: i32, said: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": said } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::Lines;

    struct Echo;

    impl Methods for Echo {
        fn call(&self, method: &str, params: &Value) -> Option<Result<Value, Fault>> {
            match method {
                "echo" => Some(Ok(params.clone())),
                "fail" => Some(Err(Fault::refused(&anyhow::anyhow!("not now")))),
                _ => None,
            }
        }
    }

    struct Client {
        lines: Lines<BufReader<OwnedReadHalf>>,
        writer: OwnedWriteHalf,
        _server: JoinSet<()>,
    }

    impl Client {
        fn new() -> Self {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let describe: Describe = Arc::new(|| json!({ "role": "test" }));
            let mut server = JoinSet::new();
            server.spawn(Connection::new(theirs, describe, Arc::new(Echo)).run());
            let (reader, writer) = ours.into_split();
            Self { lines: BufReader::new(reader).lines(), writer, _server: server }
        }

        async fn next(&mut self) -> Option<Value> {
            let line = tributary_testing::in_time(self.lines.next_line()).await.ok().flatten()?;
            Some(serde_json::from_str(&line).expect("every line is JSON"))
        }

        async fn ask(&mut self, line: &str) -> Value {
            self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            self.next().await.expect("an answer")
        }
    }

    fn request(method: &str, params: &Value) -> String {
        json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string()
    }

    #[tokio::test]
    async fn requests_are_answered_as_the_specification_says() {
        let mut client = Client::new();
        let status = client.ask(&request("status", &Value::Null)).await;
        assert_eq!(status, json!({ "jsonrpc": "2.0", "id": 7, "result": { "role": "test" } }));
        assert_eq!(client.ask(&request("echo", &json!([1]))).await["result"], json!([1]));
        for (line, code) in [
            (request("nothing", &Value::Null).as_str(), -32601),
            (&request("fail", &Value::Null), -32000),
            (&request("subscribe", &json!({ "interval_s": 0 })), -32602),
            ("{", -32700),
            ("[]", -32600),
            ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"status\"}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"status\"}", -32600),
        ] {
            let answer = client.ask(line).await;
            assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
        }
        // A notification is not answered, and a batch in one line.
        let batch = format!(
            "[{{\"jsonrpc\":\"2.0\",\"method\":\"echo\"}},{},{}]",
            request("echo", &json!(1)),
            request("nothing", &Value::Null)
        );
        let answers = client.ask(&batch).await;
        assert_eq!((answers[0]["result"].clone(), answers.as_array().map(Vec::len)), (json!(1), Some(2)));
    }

    #[tokio::test]
    async fn a_subscriber_gets_the_status_again_and_again_and_still_asks() {
        let mut client = Client::new();
        assert!(client.ask(&request("subscribe", &json!({ "interval_s": 0.1 }))).await["result"].is_object());
        for _ in 0..3 {
            let told = client.next().await.unwrap();
            assert_eq!((&told["method"], &told["params"]["role"]), (&json!("status"), &json!("test")));
        }
        client.writer.write_all(format!("{}\n", request("echo", &json!(5))).as_bytes()).await.unwrap();
        while client.next().await.expect("it goes on")["result"] != 5 {}
    }

    #[tokio::test]
    async fn a_line_without_end_ends_the_connection() {
        let mut client = Client::new();
        let long = vec![b'x'; LINE as usize + 1];
        let _ = client.writer.write_all(&long).await;
        assert_eq!(client.next().await, None);
    }
}
